#include "bootstrap/detail/star.hpp"

#include <algorithm>

#include <boost/asio/error.hpp>
#include <fcntl.h>

namespace shmoe::bootstrap::detail {

void keep_from_children(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

void prepare(tcp::socket& socket) {
  ErrorCode ignored;
  keep_from_children(socket.native_handle());
  socket.set_option(tcp::no_delay(true), ignored);
}

std::string text_of(const tcp::endpoint& endpoint) {
  return fmt::format("{}:{}", endpoint.address().is_v4() ? endpoint.address().to_v4().to_string() : "?",
                     endpoint.port());
}

tcp::endpoint endpoint_of(const Address& address) {
  return {asio::ip::address_v4({address.octets[0], address.octets[1], address.octets[2], address.octets[3]}),
          address.port};
}

std::uint32_t remaining_ms(Clock::time_point limit) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 0, UINT32_MAX));
}

std::string seconds(std::chrono::milliseconds duration) {
  return fmt::format("{:.3g} s", static_cast<double>(duration.count()) / 1000.0);
}

bool has_gone(const ErrorCode& code) {
  return code == asio::error::eof || code == asio::error::connection_reset || code == asio::error::broken_pipe;
}

}  // namespace shmoe::bootstrap::detail
