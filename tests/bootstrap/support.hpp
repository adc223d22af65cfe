#pragma once
// What the tests of bootstrap/ share.

#include <algorithm>
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

#include <doctest/doctest.h>
#include <unistd.h>

#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/socket_exchange.hpp"
#include "bootstrap/wire.hpp"
#include "tests/bootstrap/raw.hpp"

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

inline bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
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

/// A job whose ranks are threads of the test, and what each of them got.
struct Job {
  TemporaryFolder folder;
  std::filesystem::path file = meeting_path(folder.path(), "j");
  std::vector<std::string> outcomes;

  explicit Job(int size) : outcomes(static_cast<std::size_t>(size)) {}
  [[nodiscard]] int size() const { return static_cast<int>(outcomes.size()); }
  [[nodiscard]] ExchangeConfig config(int rank) const { return config_of(rank, size(), file); }
  std::string& of(int rank) { return outcomes[static_cast<std::size_t>(rank)]; }
  /// All ranks got this very text.
  void check_same(const std::string& part) const {
    for (const auto& text : outcomes) {
      CHECK(text == outcomes.front());
      CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    }
  }
};

inline Hello hello_of(const Meeting& meeting, int rank, int size) {
  return Hello{kProtocol, 3, size, rank, meeting.secret, 40'000};
}

inline void say_hello(const RawClient& client, const Meeting& meeting, int rank, int size) {
  client.send(encode(hello_of(meeting, rank, size)));
}

}  // namespace shmoe::bootstrap::test
