#include "apps/shmoe/line_forwarder.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <poll.h>
#include <sys/ioctl.h>

namespace shmoe::apps {
namespace {

/// A line longer than this is passed on in pieces.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

/// 0, or why the rest could not be written.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

std::size_t LineForwarder::forward(std::size_t at_most) {
  char buffer[65536];
  const ssize_t got = ::read(source_.get(), buffer, std::min(at_most, sizeof buffer));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
  if (got <= 0) {
    finish();
    return 0;
  }
  pending_.append(buffer, static_cast<std::size_t>(got));
  pass_on_lines();
  return static_cast<std::size_t>(got);
}

void LineForwarder::forward_what_is_there() {
  int there = 0;
  if (::ioctl(source_.get(), FIONREAD, &there) != 0) return;
  for (auto left = static_cast<std::size_t>(there); left > 0 && source_.get() >= 0;) left -= forward(left);
}

void LineForwarder::pass_on_lines() {
  std::string lines;
  std::size_t first = 0;
  for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', first)) {
    lines += prefix_;
    lines.append(pending_, first, end + 1 - first);
    first = end + 1;
  }
  pending_.erase(0, first);
  if (pending_.size() > kLongestLine) {
    lines += prefix_ + pending_ + '\n';
    pending_.clear();
  }
  write(lines);
}

void LineForwarder::finish() {
  if (!pending_.empty()) write(prefix_ + pending_ + '\n');
  pending_.clear();
  source_.reset();
}

void LineForwarder::write(std::string_view text) {
  if (lost_ == 0) lost_ = write_all(target_, text);
}

}  // namespace shmoe::apps
