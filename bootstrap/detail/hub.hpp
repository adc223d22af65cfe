#pragma once
// The second half of rank 0: collects contributions and sends everyone the whole.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/detail/door.hpp"
#include "bootstrap/detail/star.hpp"

namespace shmoe::bootstrap::detail {

class Hub : public Star {
 public:
  explicit Hub(const ExchangeConfig& config) : config_(config) {}

  /// Listens, lets everyone in, welcomes them.
  Result<void> open();
  Result<std::vector<Blob>> all_gather(std::span<const std::byte> mine) override;
  [[nodiscard]] std::vector<std::string> strangers() const override { return strangers_; }

 private:
  struct Inbox {
    std::array<std::byte, kHeaderBytes> header{};
    Blob payload;
    bool done = false;
  };
  struct Round {
    std::vector<Inbox> inboxes;
    std::size_t left = 0;
    Clock::time_point start;
    Clock::time_point limit;
    std::optional<std::size_t> hurried;  // whose limit ends the round before our own
    std::optional<Error> failure;
  };

  Result<tcp::acceptor> listen(const Address& address);
  Result<std::vector<Blob>> gather(std::span<const std::byte> mine);
  void read_header(Round& round, std::size_t rank);
  void on_header(Round& round, std::size_t rank);
  void on_payload(Round& round, std::size_t rank, Kind kind);
  std::optional<Error> fault_of(const Header& header, std::size_t rank) const;
  [[nodiscard]] std::string name(std::size_t rank) const;
  [[nodiscard]] Error announced(std::size_t rank, std::span<const std::byte> payload) const;
  [[nodiscard]] Error gone(std::size_t rank, const ErrorCode& code) const;
  [[nodiscard]] Error stuck(std::size_t rank, Kind kind) const;
  [[nodiscard]] Error silent(const Round& round) const;
  void broadcast(Kind kind, const Blob& payload, Clock::time_point limit);
  Error fail(Error error);
  void cancel_all();

  ExchangeConfig config_;
  asio::io_context io_{1};
  std::vector<std::shared_ptr<Guest>> members_;
  std::vector<std::string> strangers_;
  std::uint32_t sequence_ = 0;
  std::optional<Error> lost_;    // seen while sending; told in the next exchange
  std::optional<Error> broken_;  // what every later call returns
};

}  // namespace shmoe::bootstrap::detail
