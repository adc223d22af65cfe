#include "bootstrap/detail/hub.hpp"

#include <algorithm>
#include <array>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/text.hpp"

namespace shmoe::bootstrap::detail {
namespace {

constexpr std::chrono::milliseconds kSendFailureLimit{1'000};  // who has not taken it by then is stuck or gone
constexpr std::size_t kMaxAddresses = 4;                       // an error has little room

Error cannot_listen(const ExchangeConfig& config, const Address& address, const ErrorCode& code) {
  const bool taken = code == asio::error::address_in_use;
  return Error{
      taken ? Errc::already_exists : Errc::system,
      fmt::format("rank 0 cannot listen on {} ({}): {}", address.text(), config.endpoint.source,
                  taken ? "another job or program has it: give each job a free port in SHMOE_COMM_ID, or unset it"
                        : "give an address of this host in SHMOE_COMM_ID"),
      Rank{0}, code.value()};
}

}  // namespace

Result<tcp::acceptor> Hub::listen(const Address& address) {
  tcp::acceptor acceptor(io_);
  ErrorCode code;
  acceptor.open(tcp::v4(), code);
  if (code) return Error{Errc::system, "rank 0 cannot open a socket: raise `ulimit -n`", Rank{0}, code.value()};
  keep_from_children(acceptor.native_handle());
  acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  if (!code) acceptor.bind(endpoint_of(address), code);
  if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
  if (code) return cannot_listen(config_, address, code);
  return acceptor;
}

Result<void> Hub::open() {
  const bool by_file = config_.endpoint.kind == EndpointKind::rendezvous_file;
  auto acceptor = listen(by_file ? Address{{127, 0, 0, 1}, 0} : config_.endpoint.address);
  if (!acceptor) return acceptor.error();
  Secret secret = config_.endpoint.secret;
  MeetingFile file;
  if (by_file) {
    const auto drawn = random_secret();
    if (!drawn) return drawn.error();
    secret = *drawn;
    const auto owner = this_process();
    if (!owner) return owner.error();
    ErrorCode code;
    const auto port = acceptor->local_endpoint(code).port();
    auto published = MeetingFile::publish(config_.endpoint.file, Meeting{port, secret, *owner});
    if (!published) return published.error();
    file = std::move(*published);
  }
  Door door(io_, std::move(*acceptor), config_, secret);
  auto arrived = door.wait_for_all();
  file.remove();
  strangers_ = door.strangers();
  if (!arrived) return arrived;
  members_ = door.take_members();
  broadcast(Kind::welcome, {}, Clock::now() + config_.timeout);
  return {};
}

Result<std::vector<Blob>> Hub::all_gather(std::span<const std::byte> mine) {
  if (broken_) return *broken_;
  auto gathered = gather(mine);
  if (!gathered) return fail(std::move(gathered).error());
  return gathered;
}

Result<std::vector<Blob>> Hub::gather(std::span<const std::byte> mine) {
  ++sequence_;
  if (lost_) return *lost_;
  if (mine.size() > config_.max_contribution) {
    return Error{Errc::capacity_exceeded,
                 fmt::format("rank 0 contributed {} bytes to exchange {}, the limit is {}: {}", mine.size(), sequence_,
                             config_.max_contribution, kLessOrMore),
                 Rank{0}, 0};
  }
  const auto now = Clock::now();
  Round round{std::vector<Inbox>(members_.size()), members_.size() - 1, now, now + config_.timeout, {}, {}};
  round.inboxes[0].payload.assign(mine.begin(), mine.end());
  io_.restart();
  for (std::size_t rank = 1; rank < members_.size(); ++rank) read_header(round, rank);
  while (round.left > 0 && !round.failure) {
    if (io_.run_one_until(round.limit) == 0 && Clock::now() >= round.limit) round.failure = silent(round);
  }
  cancel_all();
  io_.run();
  if (round.failure) return *round.failure;

  std::vector<Blob> parts;
  std::size_t total = 4 + 4 * members_.size();
  for (auto& inbox : round.inboxes) {
    total += inbox.payload.size();
    parts.push_back(std::move(inbox.payload));
  }
  if (total > config_.max_result) {
    return Error{Errc::capacity_exceeded,
                 fmt::format("exchange {} gathered {} bytes, the limit is {}: {}", sequence_, total, config_.max_result,
                             kLessOrMore),
                 {},
                 0};
  }
  broadcast(Kind::result, join_parts(parts), std::max(round.limit, Clock::now() + kAnswerGrace));
  return parts;
}

void Hub::read_header(Round& round, std::size_t rank) {
  asio::async_read(members_[rank]->socket, asio::buffer(round.inboxes[rank].header),
                   [this, &round, rank](const ErrorCode& code, std::size_t) {
                     if (code == asio::error::operation_aborted || round.failure) return;
                     if (code) {
                       round.failure = gone(rank, code);
                     } else {
                       on_header(round, rank);
                     }
                   });
}

void Hub::on_header(Round& round, std::size_t rank) {
  Inbox& inbox = round.inboxes[rank];
  const auto header = decode_header(inbox.header);
  round.failure = fault_of(header.value_or(Header{}), rank);
  if (round.failure) return;
  if (header->kind == Kind::contribution) {
    const auto its_limit = Clock::now() + std::chrono::milliseconds(header->remaining_ms);
    if (its_limit < round.limit) {
      round.limit = its_limit;
      round.hurried = rank;
    }
  }
  inbox.payload.resize(header->length);
  asio::async_read(members_[rank]->socket, asio::buffer(inbox.payload),
                   [this, &round, rank, kind = header->kind](const ErrorCode& code, std::size_t) {
                     if (code == asio::error::operation_aborted || round.failure) return;
                     if (code) {
                       round.failure = gone(rank, code);
                     } else {
                       on_payload(round, rank, kind);
                     }
                   });
}

void Hub::on_payload(Round& round, std::size_t rank, Kind kind) {
  if (kind == Kind::failure) {
    round.failure = announced(rank, round.inboxes[rank].payload);
    return;
  }
  round.inboxes[rank].done = true;
  --round.left;
}

std::optional<Error> Hub::fault_of(const Header& header, std::size_t rank) const {
  const std::string who = name(rank);
  if (header.kind != Kind::contribution && header.kind != Kind::failure) {
    return Error{Errc::io,
                 fmt::format("{} sent something that is no contribution: start the same build on every rank", who),
                 Rank{rank}, 0};
  }
  if (header.length > (header.kind == Kind::failure ? kLongestFailure : config_.max_contribution)) {
    return Error{Errc::capacity_exceeded,
                 fmt::format("{} contributed {} bytes to exchange {}, the limit is {}: {}", who, header.length,
                             sequence_, config_.max_contribution, kLessOrMore),
                 Rank{rank}, 0};
  }
  if (header.kind == Kind::contribution && header.sequence != sequence_) {
    return Error{Errc::mismatch,
                 fmt::format("{} is in exchange {}, rank 0 in exchange {}: all ranks must make the same "
                             "exchanges in the same order",
                             who, header.sequence, sequence_),
                 Rank{rank}, 0};
  }
  return std::nullopt;
}

std::string Hub::name(std::size_t rank) const { return fmt::format("rank {} at {}", rank, members_[rank]->address); }

/// In its own words, which need not be true.
Error Hub::announced(std::size_t rank, std::span<const std::byte> payload) const {
  Error error = decode_error(payload);
  if (!error.where || error.where->index() >= members_.size()) error.where = Rank{rank};
  return std::move(error).within(name(rank) + " gave up");
}

Error Hub::gone(std::size_t rank, const ErrorCode& code) const {
  return Error{Errc::peer_lost,
               fmt::format("{} left before exchange {} was complete: see what it printed", name(rank), sequence_),
               Rank{rank}, has_gone(code) ? 0 : code.value()};
}

Error Hub::stuck(std::size_t rank, Kind kind) const {
  const std::string what = kind == Kind::result ? fmt::format("the result of exchange {}", sequence_) : "its welcome";
  return Error{Errc::deadline, fmt::format("{} did not take {} in time: see where it is", name(rank), what), Rank{rank},
               0};
}

Error Hub::silent(const Round& round) const {
  std::vector<std::int32_t> ranks;
  for (std::size_t rank = 1; rank < round.inboxes.size(); ++rank) {
    if (!round.inboxes[rank].done) ranks.push_back(static_cast<std::int32_t>(rank));
  }
  std::vector<std::string> addresses;
  for (const auto rank : std::span(ranks).first(std::min(ranks.size(), kMaxAddresses))) {
    addresses.push_back(members_[static_cast<std::size_t>(rank)]->address);
  }
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(round.limit - round.start);
  const bool early = 2 * waited < config_.timeout;  // more than ranks that enter one after the other differ
  return Error{Errc::deadline,
               fmt::format("rank{} {} of {} did not contribute to exchange {} within {}{}: see where {} (at {}{}), or "
                           "raise SHMOE_BOOTSTRAP_TIMEOUT_S",
                           ranks.size() == 1 ? "" : "s", name_ranks(ranks), members_.size(), sequence_,
                           seconds(early ? waited : config_.timeout),
                           early && round.hurried ? ", as long as " + name(*round.hurried) + " waits" : "",
                           ranks.size() == 1 ? "it is" : "they are", fmt::join(addresses, ", "),
                           ranks.size() > addresses.size() ? ", ..." : ""),
               Rank{ranks.front()}, 0};
}

/// To all at once. Who does not take it is remembered in lost_.
void Hub::broadcast(Kind kind, const Blob& payload, Clock::time_point limit) {
  const auto header = encode(Header{static_cast<std::uint32_t>(payload.size()), kind, sequence_, 0});
  const std::array<asio::const_buffer, 2> frame{asio::buffer(header), asio::buffer(payload)};
  io_.restart();
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    asio::async_write(members_[rank]->socket, frame, [this, rank, kind](const ErrorCode& code, std::size_t) {
      if (code && !lost_) lost_ = code == asio::error::operation_aborted ? stuck(rank, kind) : gone(rank, code);
    });
  }
  run_bounded(io_, limit, [this] { cancel_all(); });
}

Error Hub::fail(Error error) {
  broken_ = std::move(error);
  broken_->context.resize(std::min(broken_->context.size(), kMaxErrorText));  // what the others will read
  broadcast(Kind::failure, encode(*broken_), Clock::now() + kSendFailureLimit);
  return *broken_;
}

void Hub::cancel_all() {
  ErrorCode ignored;
  for (const auto& member : members_) {
    if (member) member->socket.cancel(ignored);
  }
}

Result<std::unique_ptr<Star>> open_hub(const ExchangeConfig& config) {
  auto hub = std::make_unique<Hub>(config);
  if (auto opened = hub->open(); !opened) return opened.error();
  return std::unique_ptr<Star>(std::move(hub));
}

}  // namespace shmoe::bootstrap::detail
