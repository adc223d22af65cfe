#pragma once
// What hub (rank 0), spoke (the others) and the job of one rank have in common.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "bootstrap/socket_exchange.hpp"
#include "bootstrap/wire.hpp"
#include "shmem/result.hpp"

namespace shmoe::bootstrap::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;

/// How long a client waits past its own limit, which is a setting, for the reason that rank 0 gives.
inline constexpr std::chrono::milliseconds kAnswerGrace{2'000};

/// What to do about too many bytes.
inline constexpr const char* kLessOrMore = "contribute less, or raise the limit in ExchangeConfig on every rank";

class Star {
 public:
  Star() = default;
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;
  virtual ~Star() = default;
  virtual Result<std::vector<Blob>> all_gather(std::span<const std::byte> mine) = 0;
  [[nodiscard]] virtual std::vector<std::string> strangers() const { return {}; }
};

Result<std::unique_ptr<Star>> open_hub(const ExchangeConfig& config);
Result<std::unique_ptr<Star>> open_spoke(const ExchangeConfig& config);

/// Runs until nothing is left to do or the time is up; then `cancel` must end what is left.
template <class Cancel>
void run_bounded(asio::io_context& io, Clock::time_point limit, Cancel cancel) {
  io.restart();
  io.run_until(limit);
  if (io.stopped()) return;
  cancel();
  io.run();
}

/// Not inherited by programs that this one starts, and no delay for small frames.
void prepare(tcp::socket& socket);
void keep_from_children(int fd);

std::string text_of(const tcp::endpoint& endpoint);
tcp::endpoint endpoint_of(const Address& address);
std::uint32_t remaining_ms(Clock::time_point limit);
std::string seconds(std::chrono::milliseconds duration);
bool has_gone(const ErrorCode& code);

}  // namespace shmoe::bootstrap::detail
