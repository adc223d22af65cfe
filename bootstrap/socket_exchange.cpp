#include "bootstrap/socket_exchange.hpp"

#include <exception>
#include <new>

#include "bootstrap/detail/star.hpp"

namespace shmoe::bootstrap {
namespace {

/// A job of one rank.
class Alone : public detail::Star {
 public:
  Result<std::vector<Blob>> all_gather(std::span<const std::byte> mine) override {
    return std::vector<Blob>{Blob(mine.begin(), mine.end())};
  }
};

Result<std::unique_ptr<detail::Star>> open_star(const ExchangeConfig& config) {
  const auto& launch = config.launch;
  if (launch.size < 1 || launch.size > kMaxSize || launch.rank.value() < 0 || launch.rank.value() >= launch.size) {
    return Error{
        Errc::invalid_argument,
        fmt::format("rank {} of {} is no place in a job: give 1 to {} ranks, and each its own from 0 to size - 1",
                    launch.rank, launch.size, kMaxSize),
        {},
        0};
  }
  if (launch.size == 1) return std::unique_ptr<detail::Star>(std::make_unique<Alone>());
  if (config.endpoint.kind == EndpointKind::alone) {
    return Error{Errc::invalid_argument,
                 fmt::format("a job of {} ranks needs an endpoint: take the one of choose_endpoint", launch.size),
                 {},
                 0};
  }
  return launch.rank == Rank{0} ? detail::open_hub(config) : detail::open_spoke(config);
}

/// Asio throws where the process has no descriptor left for its poller.
Error as_error(const std::exception& thrown) {
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
    return Error{Errc::out_of_memory,
                 "the bootstrap has no memory for what the ranks exchange: free some, or raise `ulimit -v`",
                 {},
                 0};
  }
  return Error{
      Errc::system, fmt::format("the bootstrap cannot use sockets: {}: raise `ulimit -n`", thrown.what()), {}, 0};
}

}  // namespace

Result<SocketExchange> SocketExchange::connect(const ExchangeConfig& config) {
  try {
    auto star = open_star(config);
    if (!star) return star.error();
    return SocketExchange(std::move(*star), config.launch.rank, config.launch.size);
  } catch (const std::exception& thrown) {
    return as_error(thrown);
  }
}

Result<std::vector<std::vector<std::byte>>> SocketExchange::all_gather(std::span<const std::byte> mine) {
  if (!star_) return Error{Errc::invalid_argument, "the exchange is closed: exchange before close()", {}, 0};
  try {
    return star_->all_gather(mine);
  } catch (const std::exception& thrown) {
    return as_error(thrown);
  }
}

std::vector<std::string> SocketExchange::strangers() const {
  return star_ ? star_->strangers() : std::vector<std::string>{};
}

void SocketExchange::close() { star_.reset(); }

SocketExchange::SocketExchange(std::unique_ptr<detail::Star> star, Rank rank, std::int32_t size)
    : star_(std::move(star)), rank_(rank), size_(size) {}
SocketExchange::SocketExchange(SocketExchange&&) noexcept = default;
SocketExchange& SocketExchange::operator=(SocketExchange&&) noexcept = default;
SocketExchange::~SocketExchange() = default;

}  // namespace shmoe::bootstrap
