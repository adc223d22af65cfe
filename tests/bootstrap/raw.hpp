#pragma once
// Connections that can misbehave: on the side of a rank, and in the place of rank 0.

#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shmoe::bootstrap::test {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline std::uint16_t port_of(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = loopback(port);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  /// What was accepted.
  static RawClient of(int fd) { return RawClient(fd, true); }
  RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  [[nodiscard]] bool connected() const { return connected_; }
  /// Of this side, as the other one names it.
  [[nodiscard]] std::uint16_t port() const { return port_of(fd_); }
  void send(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return;
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }
  /// One byte at a time with a pause after each, until the other side says something or closes.
  void drip(std::span<const std::byte> bytes, int pause_ms) const {
    pollfd answer{fd_, POLLIN, 0};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      send(bytes.subspan(i, 1));
      if (::poll(&answer, 1, pause_ms) > 0) return;
    }
  }
  /// Up to `count` bytes; fewer where the other side closed.
  [[nodiscard]] std::vector<std::byte> receive(std::size_t count) const {
    std::vector<std::byte> bytes(count);
    std::size_t have = 0;
    while (have < count) {
      const ssize_t got = ::recv(fd_, bytes.data() + have, count - have, 0);
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    bytes.resize(have);
    return bytes;
  }
  void await_end() const {
    while (!receive(1).empty()) {
    }
  }
  /// Half of the connection: the other side reads an end, and may still write.
  void say_no_more() const { ::shutdown(fd_, SHUT_WR); }
  /// Without a farewell: the other side gets a reset.
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  RawClient(int fd, bool connected) : fd_(fd), connected_(connected) {}
  int fd_;
  bool connected_ = false;
};

/// Listens on loopback and does the same with whoever connects, one after the other.
class RawServer {
 public:
  template <class Script>
  explicit RawServer(Script script) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = loopback(0);
    ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    thread_ = std::thread([this, script] {
      for (;;) {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) return;
        RawClient guest = RawClient::of(fd);
        script(guest);
      }
    });
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  ~RawServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  [[nodiscard]] std::uint16_t port() const { return port_of(listener_); }

 private:
  int listener_;
  std::thread thread_;
};

}  // namespace shmoe::bootstrap::test
