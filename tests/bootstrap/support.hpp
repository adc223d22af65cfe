#pragma once
// What the tests of bootstrap/ share.

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/socket_exchange.hpp"
#include "bootstrap/wire.hpp"

namespace shmoe::bootstrap::test {

using namespace std::chrono_literals;

inline Environment environment_of(std::map<std::string, std::string, std::less<>> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto at = values.find(name);
    if (at == values.end()) return std::nullopt;
    return at->second;
  };
}

/// A fresh folder with mode 0700, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shmoe-test-XXXXXX").native();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline ExchangeConfig config_of(int rank, int size, const std::filesystem::path& file) {
  ExchangeConfig config;
  config.launch = Launch{"test", Rank{rank}, size, "test", {}, "test"};
  config.endpoint = Endpoint{EndpointKind::rendezvous_file, "the rendezvous file", {}, {}, file};
  config.layout_version = 3;
  config.timeout = 40s;
  config.linger = 20s;
  return config;
}

/// Runs `body` for every rank of [first, last) on its own thread.
template <class Body>
void on_threads(int first, int last, Body body) {
  std::vector<std::thread> threads;
  for (int rank = first; rank < last; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (auto& thread : threads) thread.join();
}

/// "code: context" of what a rank got, or "ok".
template <class T>
std::string outcome(const Result<T>& result) {
  return result ? "ok" : to_string(result.error());
}

inline Blob blob(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string text_of(const Blob& bytes) {
  std::string text;
  for (const std::byte b : bytes) text += static_cast<char>(b);
  return text;
}

/// What rank 0 published, as soon as it has.
inline Meeting await_meeting(const std::filesystem::path& file) {
  for (;;) {
    if (auto meeting = read_meeting(file)) return *meeting;
  }
}

/// A plain client that can misbehave.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return;
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }
  /// Up to `count` bytes; fewer where the other side closed.
  [[nodiscard]] Blob receive(std::size_t count) const {
    Blob bytes(count);
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
  int fd_;
  bool connected_ = false;
};

}  // namespace shmoe::bootstrap::test
