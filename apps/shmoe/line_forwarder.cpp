#include "apps/shmoe/line_forwarder.hpp"

#include <cerrno>
#include <string_view>

#include <poll.h>

namespace shmoe::apps {
namespace {

/// A line longer than this is passed on in pieces.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void LineForwarder::forward() {
  char buffer[65536];
  const ssize_t got = ::read(source_.get(), buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return finish();
  pending_.append(buffer, static_cast<std::size_t>(got));
  pass_on_lines();
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
  write_all(target_, lines);
}

void LineForwarder::finish() {
  if (!pending_.empty()) write_all(target_, prefix_ + pending_ + '\n');
  pending_.clear();
  source_.reset();
}

}  // namespace shmoe::apps
