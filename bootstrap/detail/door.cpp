#include "bootstrap/detail/door.hpp"

#include <algorithm>
#include <span>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "bootstrap/text.hpp"

namespace shmoe::bootstrap::detail {
namespace {

constexpr std::size_t kMaxNamedStrangers = 64;
constexpr std::size_t kMaxToldStrangers = 4;  // an error has little room
constexpr std::size_t kSpareVisitors = 128;
constexpr std::chrono::milliseconds kAcceptRetry{10};   // a pause; the setting limits how long it goes on
constexpr std::chrono::milliseconds kTellLimit{1'000};  // the job has failed already

void shut(Guest& guest) {
  ErrorCode ignored;
  guest.gone = true;
  guest.patience.cancel(ignored);
  guest.socket.close(ignored);
}

/// A failure as one block of bytes.
Blob failure_frame(const Error& error) {
  const Blob payload = encode(error);
  const auto header = encode(Header{static_cast<std::uint32_t>(payload.size()), Kind::failure, 0, 0});
  Blob frame(header.size() + payload.size());
  std::copy(payload.begin(), payload.end(), std::copy(header.begin(), header.end(), frame.begin()));
  return frame;
}

}  // namespace

Door::Door(asio::io_context& io, tcp::acceptor acceptor, const ExchangeConfig& config, const Secret& secret)
    : io_(io),
      acceptor_(std::move(acceptor)),
      retry_(io),
      config_(config),
      secret_(secret),
      start_(Clock::now()),
      limit_(start_ + config.timeout),
      members_(static_cast<std::size_t>(config.launch.size)) {}

Result<void> Door::wait_for_all() {
  accept_next();
  while (!failure_ && arrived_ < config_.launch.size) {
    if (Clock::now() >= limit_) {
      fail(missing());
      limit_ = Clock::now();
    } else {
      io_.run_one_until(limit_);
    }
  }
  if (failure_) {
    const auto linger_end = std::min(limit_, Clock::now() + config_.linger);
    const auto tell_end = Clock::now() + kTellLimit;
    while (Clock::now() < linger_end && !everyone_told()) io_.run_one_until(linger_end);
    while (Clock::now() < tell_end && !being_told_.empty()) io_.run_one_until(tell_end);
  }
  close();
  if (failure_) return *failure_;
  return {};
}

std::vector<std::string> Door::strangers() const {
  auto all = strangers_;
  if (unnamed_strangers_ > 0) all.push_back(fmt::format("and {} more", unnamed_strangers_));
  return all;
}

void Door::accept_next() {
  // Who connects is noted here: a socket that was reset meanwhile no longer knows.
  acceptor_.async_accept(peer_,
                         [this](const ErrorCode& code, tcp::socket socket) { on_accept(code, std::move(socket)); });
}

void Door::on_accept(const ErrorCode& code, tcp::socket socket) {
  if (code == asio::error::operation_aborted || !acceptor_.is_open()) return;
  if (code) {
    if (code == asio::error::no_descriptors && !visitors_.empty()) {
      turn_away(visitors_.front(), "said nothing while others waited for a free descriptor");
      return accept_next();
    }
    // The peer left between connect and accept, or others of this process have all descriptors: both pass.
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) accept_next();
    });
    return;
  }
  auto guest = std::make_shared<Guest>(std::move(socket), io_);
  guest->address = text_of(peer_);
  prepare(guest->socket);
  visitors_.push_back(guest);
  greet(guest);
  if (visitors_.size() > static_cast<std::size_t>(config_.launch.size) + kSpareVisitors) {
    turn_away(visitors_.front(), "said nothing while many others waited");
  }
  accept_next();
}

void Door::greet(const GuestPtr& guest) {
  guest->patience.expires_after(config_.hello_timeout);
  guest->patience.async_wait([this, guest](const ErrorCode& cancelled) {
    if (!cancelled && !guest->gone)
      turn_away(guest, fmt::format("sent no hello within {}", seconds(config_.hello_timeout)));
  });
  asio::async_read(guest->socket, asio::buffer(guest->hello), [this, guest](const ErrorCode& code, std::size_t got) {
    if (guest->gone) return;
    if (code) return turn_away(guest, fmt::format("hung up after {} of {} bytes of hello", got, kHelloBytes));
    guest->patience.cancel();
    judge(guest);
  });
}

void Door::judge(const GuestPtr& guest) {
  const auto hello = decode_hello(guest->hello);
  if (!hello) return turn_away(guest, "sent something that is not a hello of shmoe");
  if (!same(hello->secret, secret_)) return refuse(guest);
  const bool is_rank = hello->rank > 0 && hello->rank < config_.launch.size;
  const auto rank = is_rank ? std::optional(hello->rank) : std::nullopt;
  if (!failure_) {
    if (auto fault = fault_of(*guest, *hello)) {
      visitors_.remove(guest);
      fail(std::move(*fault));
      return tell(guest, rank, *failure_);
    }
    return admit(guest, *hello);
  }
  visitors_.remove(guest);
  tell(guest, rank, *failure_);
}

void Door::turn_away(const GuestPtr& guest, std::string why) {
  if (strangers_.size() < kMaxNamedStrangers) {
    strangers_.push_back(fmt::format("{}: {}", guest->address, why));
  } else {
    ++unnamed_strangers_;
  }
  const GuestPtr keep = guest;
  shut(*keep);
  visitors_.remove(keep);
}

/// Speaks our protocol with another secret: it may know that, so that it need not try again.
void Door::refuse(const GuestPtr& guest) {
  const GuestPtr keep = guest;
  const auto hello = decode_hello(keep->hello);
  const auto frame =
      failure_frame(Error{Errc::refused,
                          fmt::format("rank 0 refused rank {} at {}: it gave another secret or job: set the same "
                                      "SHMOE_SECRET on every rank, and give each job its own address",
                                      hello->rank, keep->address),
                          {},
                          0});
  ErrorCode ignored;
  keep->socket.non_blocking(true, ignored);
  keep->socket.write_some(asio::buffer(frame), ignored);
  turn_away(keep, fmt::format("claimed rank {} with a wrong secret", hello->rank));
}

std::optional<Error> Door::fault_of(const Guest& guest, const Hello& hello) const {
  const bool is_rank = hello.rank >= 0 && hello.rank < config_.launch.size;
  const auto fault = [&](Errc code, std::string text) {
    return Error{code, std::move(text), is_rank ? std::optional(Rank{hello.rank}) : std::nullopt, 0};
  };
  if (hello.protocol != kProtocol) {
    return fault(Errc::version,
                 fmt::format("rank {} at {} speaks bootstrap protocol {}, rank 0 speaks {}: start the same "
                             "build on every rank",
                             hello.rank, guest.address, hello.protocol, kProtocol));
  }
  if (hello.layout != config_.layout_version) {
    return fault(Errc::version,
                 fmt::format("rank {} at {} has layout version {}, rank 0 has {}: start the same build on "
                             "every rank",
                             hello.rank, guest.address, hello.layout, config_.layout_version));
  }
  if (hello.size != config_.launch.size) {
    return fault(Errc::mismatch,
                 fmt::format("rank {} at {} was started for {} ranks, rank 0 for {}: start every rank with "
                             "the same size",
                             hello.rank, guest.address, hello.size, config_.launch.size));
  }
  if (!is_rank) {
    return fault(Errc::mismatch,
                 fmt::format("the process at {} says it is rank {}, but the job has ranks 0 to {}: give "
                             "every process its own rank",
                             guest.address, hello.rank, config_.launch.size - 1));
  }
  const auto& first = members_[static_cast<std::size_t>(hello.rank)];
  if (hello.rank != 0 && !first) return std::nullopt;
  return fault(Errc::mismatch,
               fmt::format("rank {} was given twice, to the process at {} and to the one {}: give every "
                           "process its own rank",
                           hello.rank, guest.address, first ? "at " + first->address : std::string("that listens")));
}

void Door::admit(const GuestPtr& guest, const Hello& hello) {
  const GuestPtr keep = guest;
  visitors_.remove(keep);
  members_[static_cast<std::size_t>(hello.rank)] = keep;
  ++arrived_;
  const auto its_limit = Clock::now() + std::chrono::milliseconds(hello.remaining_ms);
  if (its_limit < limit_) {
    limit_ = its_limit;
    hurry_ = fmt::format("rank {} at {}", hello.rank, keep->address);
  }
  watch(keep, hello.rank);
}

/// A member says nothing until it is welcomed, so whatever arrives is its end.
void Door::watch(const GuestPtr& guest, std::int32_t rank) {
  guest->socket.async_read_some(asio::buffer(guest->watch), [this, guest, rank](const ErrorCode& code, std::size_t) {
    if (code == asio::error::operation_aborted || guest->gone || failure_) return;
    members_[static_cast<std::size_t>(rank)].reset();
    told_.insert(rank);
    fail(Error{Errc::peer_lost,
               fmt::format("rank {} at {} {} before all {} ranks had arrived: {}", rank, guest->address,
                           code ? "left" : "spoke out of turn", config_.launch.size,
                           code ? "see what it printed" : "start the same build on every rank"),
               Rank{rank}, 0});
  });
}

void Door::fail(Error error) {
  failure_ = std::move(error);
  failure_->context.resize(std::min(failure_->context.size(), kMaxErrorText));  // what the others will read
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (members_[rank]) tell(members_[rank], static_cast<std::int32_t>(rank), *failure_);
  }
}

void Door::tell(const GuestPtr& guest, std::optional<std::int32_t> rank, const Error& error) {
  being_told_.push_back(guest);
  const auto frame = std::make_shared<const Blob>(failure_frame(error));
  asio::async_write(guest->socket, asio::buffer(*frame), [this, guest, frame, rank](const ErrorCode&, std::size_t) {
    being_told_.remove(guest);
    if (rank) told_.insert(*rank);
  });
}

bool Door::everyone_told() const {
  return being_told_.empty() && told_.size() + 1 >= static_cast<std::size_t>(config_.launch.size);
}

Error Door::missing() const {
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 1; rank < config_.launch.size; ++rank) {
    if (!members_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  ErrorCode ignored;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
  const bool early = 2 * waited < config_.timeout;  // more than ranks that were started one after the other differ
  return Error{Errc::deadline,
               fmt::format("rank{} {} of {} did not arrive at {} within {}{}: see whether {} started, or raise "
                           "SHMOE_BOOTSTRAP_TIMEOUT_S{}",
                           ranks.size() == 1 ? "" : "s", name_ranks(ranks), config_.launch.size,
                           text_of(acceptor_.local_endpoint(ignored)), seconds(waited),
                           early && !hurry_.empty() ? ", as long as " + hurry_ + " waits" : "",
                           ranks.size() == 1 ? "it" : "they", turned_away()),
               Rank{ranks.front()}, 0};
}

/// One of the strangers may be a missing rank.
std::string Door::turned_away() const {
  if (strangers_.empty()) return "";
  const std::size_t told = std::min(strangers_.size(), kMaxToldStrangers);
  const std::size_t untold = strangers_.size() - told + unnamed_strangers_;
  return fmt::format("; turned away: {}{}", fmt::join(std::span(strangers_).first(told), "; "),
                     untold == 0 ? "" : fmt::format("; and {} more", untold));
}

/// Afterwards nothing of this door is left in the io_context.
void Door::close() {
  ErrorCode ignored;
  acceptor_.close(ignored);
  retry_.cancel(ignored);
  while (!visitors_.empty()) turn_away(visitors_.front(), "had sent no hello when the door closed");
  for (const auto& guest : being_told_) guest->socket.cancel(ignored);
  for (const auto& member : members_) {
    if (member) member->socket.cancel(ignored);
  }
  io_.run();
  io_.restart();
}

}  // namespace shmoe::bootstrap::detail
