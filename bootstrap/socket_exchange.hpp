#pragma once
// AllGather over sockets, for the start of a job only: a star through rank 0.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/endpoint.hpp"
#include "bootstrap/launch.hpp"
#include "shmem/result.hpp"

namespace shmoe::bootstrap {

namespace detail {
class Star;
}

struct ExchangeConfig {
  Launch launch;
  Endpoint endpoint;
  std::uint32_t layout_version = 0;
  std::chrono::milliseconds timeout{30'000};       // of connect, and of every exchange
  std::chrono::milliseconds hello_timeout{2'000};  // how long a connection may take to say who it is
  std::chrono::milliseconds linger{2'000};         // how long a failed rank 0 stays to tell ranks that come late
  std::uint32_t max_contribution = 1U << 20;       // bytes
  std::uint32_t max_result = 256U << 20;           // bytes, all contributions together
};

/// The connected ranks of one job. Not for several threads at once.
///
/// Every failure is one error with the same text on every rank that is connected, and ends the exchange: later calls
/// return it again. Rank 0 decides; the others wait up to two seconds past their own limit for its reason.
class SocketExchange {
 public:
  /// Returns when every rank has arrived. A job of one rank opens no socket.
  ///
  /// Order:   rank 0 listens → hellos checked → listener closed, rendezvous file removed → welcome to everyone
  /// Errors:  deadline names the missing ranks; mismatch: a rank given twice or another size; version: another layout;
  ///          refused: wrong secret; peer_lost; already_exists: address or job name taken
  static Result<SocketExchange> connect(const ExchangeConfig& config);

  /// What every rank contributed, in rank order. Contributions may differ in size.
  ///
  /// Order:   all ranks make the same exchanges in the same order; checked by number
  /// Errors:  peer_lost names the rank that went; deadline the ranks that did not contribute; capacity_exceeded
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine);

  /// Rank 0 only: connections that were not of this job, "address: why".
  [[nodiscard]] std::vector<std::string> strangers() const;

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::int32_t size() const { return size_; }

  /// Not collective. Later calls fail.
  void close();

  SocketExchange(SocketExchange&&) noexcept;
  SocketExchange& operator=(SocketExchange&&) noexcept;
  ~SocketExchange();

 private:
  SocketExchange(std::unique_ptr<detail::Star> star, Rank rank, std::int32_t size);
  std::unique_ptr<detail::Star> star_;
  Rank rank_;
  std::int32_t size_;
};

}  // namespace shmoe::bootstrap
