// Every rank but 0: one connection, to rank 0.

#include <algorithm>
#include <array>
#include <optional>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "bootstrap/detail/star.hpp"
#include "bootstrap/rendezvous_file.hpp"

namespace shmoe::bootstrap::detail {
namespace {

// Between attempts; the setting limits them all.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};  // doubles up to here

struct Frame {
  Header header;
  Blob payload;
};

struct Target {
  Address address;
  Secret secret;
};

/// What no honest rank 0 exceeds.
std::uint32_t longest_result(const ExchangeConfig& config) {
  const std::uint64_t all = 4 + std::uint64_t(config.launch.size) * (std::uint64_t{4} + config.max_contribution);
  return std::max(kLongestFailure, static_cast<std::uint32_t>(std::min<std::uint64_t>(all, config.max_result)));
}

class Spoke : public Star {
 public:
  explicit Spoke(const ExchangeConfig& config) : config_(config), socket_(io_) {}

  /// Tries until rank 0 has welcomed or refused us, or the time is up.
  Result<void> open();
  Result<std::vector<Blob>> all_gather(std::span<const std::byte> mine) override;

 private:
  [[nodiscard]] Result<Target> locate() const;
  /// Nothing: try again, `reason_` says why.
  std::optional<Result<void>> attempt(Clock::time_point limit);
  ErrorCode connect(const Address& address, Clock::time_point limit);
  void pause(std::chrono::milliseconds duration);
  /// Sends and waits for one frame at the same time, so that an early failure is heard.
  Result<Frame> converse(std::span<const std::byte> head, std::span<const std::byte> body, std::uint32_t max_length,
                         Clock::time_point limit);
  Result<std::vector<Blob>> gather(std::span<const std::byte> mine);
  void announce(const Error& error);
  Error announce_and_hear(Error error, Clock::time_point limit);
  [[nodiscard]] Error announced(const Frame& frame) const;
  [[nodiscard]] std::string rank_0() const { return fmt::format("rank 0 at {}", server_.text()); }

  ExchangeConfig config_;
  asio::io_context io_{1};
  tcp::socket socket_;
  Address server_;
  Error reason_;
  std::uint32_t sequence_ = 0;
  std::optional<Error> broken_;
};

Result<void> Spoke::open() {
  const auto start = Clock::now();
  const auto limit = start + config_.timeout;
  auto wait = kFirstPause;
  do {
    if (auto answer = attempt(limit)) return *answer;
    pause(std::min(wait, std::chrono::milliseconds(remaining_ms(limit))));
    wait = std::min(2 * wait, kLongestPause);
  } while (Clock::now() < limit);
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  reason_.context = fmt::format(
      "rank {} did not reach rank 0 within {}: {}: see whether rank 0 runs, or raise "
      "SHMOE_BOOTSTRAP_TIMEOUT_S",
      config_.launch.rank, seconds(waited), reason_.context);
  return reason_;
}

Result<Target> Spoke::locate() const {
  const auto& endpoint = config_.endpoint;
  if (endpoint.kind != EndpointKind::rendezvous_file) return Target{endpoint.address, endpoint.secret};
  const auto meeting = read_meeting(endpoint.file);
  if (!meeting) return meeting.error();
  return Target{Address{{127, 0, 0, 1}, meeting->port}, meeting->secret};
}

std::optional<Result<void>> Spoke::attempt(Clock::time_point limit) {
  const auto target = locate();
  if (!target) {
    reason_ = target.error();
    if (reason_.code == Errc::permission) return Result<void>(reason_);
    reason_.code = Errc::deadline;
    reason_.where = Rank{0};
    return std::nullopt;
  }
  server_ = target->address;
  if (const auto code = connect(server_, limit)) {
    // No time was left for this attempt: what the one before met tells more.
    if (code == asio::error::timed_out && reason_.code != Errc::ok) return std::nullopt;
    reason_ = Error{Errc::deadline, fmt::format("cannot connect to {} ({})", server_.text(), config_.endpoint.source),
                    Rank{0}, code.value()};
    return std::nullopt;
  }
  const auto hello = encode(Hello{kProtocol, config_.layout_version, config_.launch.size, config_.launch.rank.value(),
                                  target->secret, remaining_ms(limit)});
  const auto answer = converse(hello, {}, kLongestFailure, limit + kAnswerGrace);
  if (!answer && answer.error().code == Errc::peer_lost) {
    reason_ = answer.error();
    return std::nullopt;
  }
  if (!answer) return Result<void>(answer.error());
  if (answer->header.kind == Kind::failure) return Result<void>(announced(*answer));
  if (answer->header.kind == Kind::welcome && answer->payload.empty()) return Result<void>();
  return Result<void>(Error{Errc::io,
                            fmt::format("{} answered the hello with something else than a welcome: start the same "
                                        "build on every rank, and see which program listens there",
                                        rank_0()),
                            Rank{0}, 0});
}

ErrorCode Spoke::connect(const Address& address, Clock::time_point limit) {
  ErrorCode outcome = asio::error::timed_out;
  ErrorCode code;
  socket_.close(code);
  socket_.open(tcp::v4(), code);
  if (code) return code;
  prepare(socket_);
  socket_.async_connect(endpoint_of(address), [&outcome](const ErrorCode& result) { outcome = result; });
  run_bounded(io_, limit, [this] {
    ErrorCode ignored;
    socket_.cancel(ignored);
  });
  return outcome == asio::error::operation_aborted ? ErrorCode(asio::error::timed_out) : outcome;
}

void Spoke::pause(std::chrono::milliseconds duration) {
  asio::steady_timer timer(io_, duration);
  timer.async_wait([](const ErrorCode&) {});
  io_.restart();
  io_.run();
}

Result<Frame> Spoke::converse(std::span<const std::byte> head, std::span<const std::byte> body,
                              std::uint32_t max_length, Clock::time_point limit) {
  std::array<std::byte, kHeaderBytes> raw{};
  std::optional<Header> header;
  Frame frame;
  ErrorCode outcome = asio::error::timed_out;
  bool complete = false;
  bool garbled = false;
  const auto cancel = [this] {
    ErrorCode ignored;
    socket_.cancel(ignored);
  };
  const auto on_payload = [&](const ErrorCode& code, std::size_t) {
    outcome = code;
    complete = !code;
    cancel();
  };
  const auto on_header = [&](const ErrorCode& code, std::size_t) {
    outcome = code;
    if (!code) header = decode_header(raw);
    garbled = !code && (!header || header->length > max_length);
    if (code || garbled) return cancel();
    frame.header = *header;
    frame.payload.resize(header->length);
    asio::async_read(socket_, asio::buffer(frame.payload), on_payload);
  };
  const std::array<asio::const_buffer, 2> out{asio::buffer(head.data(), head.size()),
                                              asio::buffer(body.data(), body.size())};
  asio::async_write(socket_, out, [](const ErrorCode&, std::size_t) {});
  asio::async_read(socket_, asio::buffer(raw), on_header);
  run_bounded(io_, limit, cancel);

  if (garbled) {
    return Error{Errc::io,
                 fmt::format("{} answered with something that is not a frame of shmoe: see which program listens "
                             "there",
                             rank_0()),
                 Rank{0}, 0};
  }
  if (complete) return frame;
  if (outcome == asio::error::operation_aborted || outcome == asio::error::timed_out) {
    return Error{Errc::deadline,
                 fmt::format("{} did not answer rank {} within {}: see where it is", rank_0(), config_.launch.rank,
                             seconds(config_.timeout)),
                 Rank{0}, 0};
  }
  return Error{Errc::peer_lost, fmt::format("{} closed the connection: see what it printed", rank_0()), Rank{0},
               has_gone(outcome) ? 0 : outcome.value()};
}

Result<std::vector<Blob>> Spoke::all_gather(std::span<const std::byte> mine) {
  if (broken_) return *broken_;
  auto gathered = gather(mine);
  if (!gathered) broken_ = gathered.error();
  return gathered;
}

Result<std::vector<Blob>> Spoke::gather(std::span<const std::byte> mine) {
  ++sequence_;
  const auto limit = Clock::now() + config_.timeout;
  const auto length = static_cast<std::uint32_t>(mine.size());
  if (mine.size() > config_.max_contribution) {
    return announce_and_hear(
        Error{Errc::capacity_exceeded,
              fmt::format("rank {} contributed {} bytes to exchange {}, the limit is {}: {}", config_.launch.rank,
                          mine.size(), sequence_, config_.max_contribution, kLessOrMore),
              config_.launch.rank, 0},
        limit);
  }
  const auto header = encode(Header{length, Kind::contribution, sequence_, remaining_ms(limit)});
  const auto answer = converse(header, mine, longest_result(config_), limit + kAnswerGrace);
  if (!answer) {
    announce(answer.error());
    return answer.error();
  }
  if (answer->header.kind == Kind::failure) return announced(*answer);
  auto parts = split_parts(answer->payload, static_cast<std::size_t>(config_.launch.size));
  if (answer->header.kind != Kind::result || answer->header.sequence != sequence_ || !parts) {
    return Error{Errc::io,
                 fmt::format("{} answered exchange {} with something else than its result: start the same build on "
                             "every rank",
                             rank_0(), sequence_),
                 Rank{0}, 0};
  }
  return std::move(*parts);
}

/// In the words of rank 0, which are those of every rank.
Error Spoke::announced(const Frame& frame) const {
  auto error = decode_failure(frame.payload);
  if (!error) {
    return Error{
        Errc::io,
        fmt::format("{} announced a failure that does not parse: start the same build on every rank", rank_0()),
        Rank{0}, 0};
  }
  if (error->where && error->where->value() >= config_.launch.size) error->where.reset();
  return *std::move(error);
}

/// Tells rank 0 why this rank gives up, and returns what rank 0 tells everyone about it.
Error Spoke::announce_and_hear(Error error, Clock::time_point limit) {
  const Blob payload = encode(error);
  const auto header = encode(Header{static_cast<std::uint32_t>(payload.size()), Kind::failure, sequence_, 0});
  const auto answer = converse(header, payload, kLongestFailure, limit + kAnswerGrace);
  return answer && answer->header.kind == Kind::failure ? announced(*answer) : std::move(error);
}

/// Tells rank 0 why this rank gives up, where that goes without waiting.
void Spoke::announce(const Error& error) {
  const Blob payload = encode(error);
  const auto header = encode(Header{static_cast<std::uint32_t>(payload.size()), Kind::failure, sequence_, 0});
  const std::array<asio::const_buffer, 2> frame{asio::buffer(header), asio::buffer(payload)};
  ErrorCode ignored;
  socket_.non_blocking(true, ignored);
  socket_.write_some(frame, ignored);
}

}  // namespace

Result<std::unique_ptr<Star>> open_spoke(const ExchangeConfig& config) {
  auto spoke = std::make_unique<Spoke>(config);
  if (auto opened = spoke->open(); !opened) return opened.error();
  return std::unique_ptr<Star>(std::move(spoke));
}

}  // namespace shmoe::bootstrap::detail
