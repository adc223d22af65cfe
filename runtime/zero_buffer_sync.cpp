#include "runtime/zero_buffer_sync.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace shmoe::runtime {
namespace {

using shmem::SignalOp;
using shmem::Witness;

/// Which of two errors every core and rank leaves with: a raised one before a mismatch, the lowest rank's before others.
bool precedes(const Error& a, const Error& b) {
  const auto key = [](const Error& e) { return std::pair{e.code == Errc::mismatch, e.where->value()}; };
  return key(a) < key(b);
}

/// Lives in the magic slot of a core: its own memory, written by nobody else.
struct CoreRounds {
  std::uint64_t magic;
  std::uint64_t barriers;
};

}  // namespace

ZeroBufferSync::ZeroBufferSync(CoreContext& context)
    : context_(&context), peers_(context.workspace()), slots_(context.workspace()) {
  CoreRounds rounds{};
  const Offset place = context.map().magic_of(context.core());
  context.get(context.rank(), place, std::span{&rounds, 1}, Witness::own());
  round_ = Round{rounds.magic};
  barriers_ = rounds.barriers;
  ++rounds.magic;
  context.put(context.rank(), place, std::span<const std::uint64_t>{&rounds.magic, 1});
  context.fabric().actor({.kind = shmem::ActorEvent::Kind::enter, .op = context.launch().op, .round = round_},
                         SourceSite::here());
}

ZeroBufferSync::BarrierWord ZeroBufferSync::next_barrier() {
  const std::uint64_t count = ++barriers_;
  context_->put(context_->rank(), context_->map().magic_of(context_->core()) + Bytes{offsetof(CoreRounds, barriers)},
                std::span<const std::uint64_t>{&count, 1});
  ++sequence_;
  const Profile& profile = context_->profile();
  BarrierWord barrier{.buffer = 0, .word = 0, .card_buffer = count & 1};
  switch (profile.barrier_buffer) {
    case BarrierBuffer::by_count: barrier.buffer = count & 1; break;
    case BarrierBuffer::by_magic: barrier.buffer = round_.value() & 1; break;
    case BarrierBuffer::by_magic_and_sequence: barrier.buffer = (round_.value() + sequence_) & 1; break;
  }
  barrier.word = profile.flag_word == FlagWord::sequence56_error8 ? shmem::safe_word(count)
                                                                  : shmem::published_word(round_.value(), sequence_);
  return barrier;
}

Witness ZeroBufferSync::barrier_all(std::span<std::int64_t> wait_cost, SourceSite site) {
  return barrier(nullptr, wait_cost, site);
}

Witness ZeroBufferSync::enter(const CallCard& card, const std::optional<Error>& fault,
                              std::span<std::int64_t> wait_cost, SourceSite site) {
  if (!context_->profile().handshake) {
    // The published kernels check on the host: a rank whose check fails does not launch, and its peers wait.
    if (fault) throw Interrupted(*fault);
    return barrier(nullptr, wait_cost, site);
  }
  SHMOE_EXPECTS(!fault || fault->code != Errc::ok, "a fault without a code at {}:{}: {}", site.file, site.line,
                fault->context);
  const Handshake handshake{.card = &card, .fault = &fault};
  return barrier(&handshake, wait_cost, site);
}

//   SyncAll                          drains what every core of this rank wrote
//   signal my slice of the ranks     core c writes slot [b][me] of the ranks it owns
//   wait for my slice                core c polls slot [b][r] of its own rank
//   SyncAll                          what one core has seen, all cores may rely on
// With a handshake every core goes on to compare the cards of its slice with rank 0's; a further SyncAll, and all cores
// of all ranks know the same verdict. A card stays as it is until its rank publishes the one after next.
Witness ZeroBufferSync::barrier(const Handshake* handshake, std::span<std::int64_t> wait_cost, SourceSite site) {
  const BarrierWord barrier = next_barrier();
  if (handshake != nullptr) publish(*handshake, barrier, site);
  context_->sync_all(site);
  const bool faulty = handshake != nullptr && handshake->fault->has_value();
  signal_slice(barrier, faulty ? (*handshake->fault)->code : Errc::ok, site);
  wait_slice(barrier, handshake, wait_cost, site);
  const Witness everyone = context_->sync_all(site);
  if (handshake == nullptr) return everyone;
  compare_slice(barrier, everyone, site);
  const Witness judged = context_->sync_all(site);
  leave_on_fault();
  return judged;
}

void ZeroBufferSync::publish(const Handshake& handshake, const BarrierWord& barrier, SourceSite site) {
  Launch& launch = context_->launch();
  launch.faults[context_->core().index()].reset();
  if (context_->core() != Core{0}) return;
  const Rank me = context_->rank();
  context_->put(me, context_->map().card(barrier.card_buffer), std::span<const CallCard>{handshake.card, 1}, site);
  if (!handshake.fault->has_value()) return;
  char text[shmem::kErrorTextBytes] = {};
  (*handshake.fault)->context.copy(text, sizeof text - 1);
  launch.faults[0] = Error{.code = (*handshake.fault)->code, .context = text, .where = me, .site = site};
  context_->put(me, context_->map().error(barrier.card_buffer), std::span<const char>{text}, site);
}

void ZeroBufferSync::signal_slice(const BarrierWord& barrier, Errc error, SourceSite site) {
  const Slot mine = context_->slots().barrier().at(barrier.buffer, context_->rank());
  const std::uint64_t word = barrier.word | static_cast<std::uint64_t>(error);
  context_->signal_each(peers_of_this_core(), mine, SignalOp::set, word, site);
}

/// Looked up once a kernel: many have more than one barrier.
std::span<const Rank> ZeroBufferSync::peers_of_this_core() {
  const Slice slice = ranks_of_this_core();
  if (peers_.empty()) peers_ = others(Rank{slice.first}, Rank{slice.last});
  return peers_;
}

std::pmr::vector<Rank> ZeroBufferSync::others(Rank first, Rank last) const {
  std::pmr::vector<Rank> ranks(context_->workspace());
  ranks.reserve(static_cast<std::size_t>(std::max(last.value() - first.value(), 0)));
  for (Rank rank = first; rank < last; ++rank) {
    if (rank != context_->rank()) ranks.push_back(rank);
  }
  return ranks;
}

void ZeroBufferSync::wait_slice(const BarrierWord& barrier, const Handshake* handshake,
                                std::span<std::int64_t> wait_cost, SourceSite site) {
  const std::span<const Rank> peers = peers_of_this_core();
  if (peers.empty()) return;
  slots_.clear();
  slots_.reserve(peers.size());
  for (const Rank peer : peers) slots_.push_back(context_->slots().barrier().at(barrier.buffer, peer));
  const bool looked_at = handshake != nullptr || !wait_cost.empty();
  std::pmr::vector<std::uint64_t> observed(looked_at ? peers.size() : 0, context_->workspace());
  const shmem::WaitSpec all{.where = context_->rank(),
                            .slots = slots_,
                            .compare = context_->profile().compare,
                            .value = barrier.word,
                            .observed = observed};
  const Witness arrived =
      wait_cost.empty() ? consume_token(context_->wait(all, site)) : wait_measured(peers, all, wait_cost, site);
  if (handshake == nullptr) return;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const Errc raised = shmem::error_in(observed[i]);
    if (raised == Errc::ok) continue;
    char text[shmem::kErrorTextBytes] = {};
    context_->get(peers[i], context_->map().error(barrier.card_buffer), std::span<char>{text}, arrived, site);
    note(Error{.code = raised, .context = text, .where = peers[i], .site = site});
  }
}

Witness ZeroBufferSync::wait_measured(std::span<const Rank> peers, const shmem::WaitSpec& all,
                                      std::span<std::int64_t> wait_cost, SourceSite site) {
  std::pmr::vector<std::size_t> missing(peers.size(), context_->workspace());  // places in all.slots
  std::iota(missing.begin(), missing.end(), std::size_t{0});
  std::pmr::vector<Slot> slots(all.slots.begin(), all.slots.end(), context_->workspace());
  const shmem::Time start = context_->fabric().now();
  for (;;) {
    shmem::WaitSpec any = all;
    any.slots = slots;
    any.match = shmem::Match::any;
    any.observed = {};
    shmem::Token token = context_->wait(any, site);
    const shmem::Arrival seen = token.arrival();
    const Witness arrived = consume_token(std::move(token));
    const std::size_t place = missing[seen.index];
    all.observed[place] = seen.value;
    wait_cost[peers[place].index()] += (context_->fabric().now() - start).count();
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(seen.index));
    slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(seen.index));
    if (missing.empty()) return arrived;
  }
}

CallCard ZeroBufferSync::card_of(Rank rank, const BarrierWord& barrier, const Witness& published, SourceSite site) {
  CallCard card("");
  context_->get(rank, context_->map().card(barrier.card_buffer), std::span<CallCard>{&card, 1}, published, site);
  return card;
}

std::uint64_t ZeroBufferSync::digest_of(Rank rank, const BarrierWord& barrier, const Witness& published,
                                        SourceSite site) {
  std::uint64_t digest = 0;
  context_->get(rank, context_->map().card(barrier.card_buffer), std::span{&digest, 1}, published, site);
  return digest;
}

void ZeroBufferSync::compare_slice(const BarrierWord& barrier, const Witness& published, SourceSite site) {
  constexpr Rank kJudge{0};
  const Slice slice = ranks_of_this_core();
  if (slice.size() == 0) return;
  const std::uint64_t rule = digest_of(kJudge, barrier, published, site);
  for (std::int64_t r = slice.first; r < slice.last; ++r) {
    const Rank peer{r};
    if (peer == kJudge || digest_of(peer, barrier, published, site) == rule) continue;
    const CallCard expected = card_of(kJudge, barrier, published, site);
    auto difference = expected.difference(card_of(peer, barrier, published, site), kJudge, peer);
    if (!difference) continue;
    note(Error{.code = Errc::mismatch, .context = *std::move(difference), .where = peer, .site = site});
  }
}

void ZeroBufferSync::note(Error found) {
  std::optional<Error>& verdict = context_->launch().faults[context_->core().index()];
  if (!verdict || precedes(found, *verdict)) verdict = std::move(found);
}

/// Every core reads the same cells, so every core leaves with the same error.
void ZeroBufferSync::leave_on_fault() {
  const std::optional<Error>* first = nullptr;
  for (const std::optional<Error>& fault : context_->launch().faults) {
    if (fault && (first == nullptr || precedes(*fault, **first))) first = &fault;
  }
  if (first != nullptr) throw Interrupted(**first, Interrupted::Agreed::yes);
}

std::uint64_t ZeroBufferSync::flag_word(Round round, std::uint32_t phase) const {
  if (context_->profile().flag_word == FlagWord::magic32_value32) return shmem::published_word(round.value(), phase);
  // No error is raised through a flag, so the round has 48 bits: with the shift of a barrier word it would wrap at 2^40.
  SHMOE_EXPECTS(phase <= 0xFFFFU, "phase {} of a flag; 65535 is the largest", phase);
  return round.value() << 16 | phase;
}

void ZeroBufferSync::set_flag(Rank dst, std::uint32_t event, std::uint32_t phase, SourceSite site) {
  context_->quiet(site);
  const Slot slot = context_->slots().flag().at(round_.value() & 1, context_->rank(), event);
  context_->signal(dst, slot, SignalOp::set, flag_word(round_, phase), site);
}

void ZeroBufferSync::set_flag_batch(Rank first, Rank last, std::uint32_t event, std::uint32_t phase, SourceSite site) {
  context_->quiet(site);
  const Slot slot = context_->slots().flag().at(round_.value() & 1, context_->rank(), event);
  context_->signal_each(others(first, last), slot, SignalOp::set, flag_word(round_, phase), site);
}

void ZeroBufferSync::set_all_rank_core_flag(std::uint32_t phase, SourceSite site) {
  const auto event = static_cast<std::uint32_t>(context_->core().value());
  set_flag_batch(Rank{0}, Rank{context_->ranks()}, event, phase, site);
}

shmem::Token ZeroBufferSync::wait_flag(Rank src, std::uint32_t event, std::uint32_t phase, SourceSite site) {
  return wait_flag_with_magic(src, event, round_, phase, site);
}

shmem::Token ZeroBufferSync::wait_flag_with_magic(Rank src, std::uint32_t event, Round round, std::uint32_t phase,
                                                  SourceSite site) {
  const Slot slot = context_->slots().flag().at(round.value() & 1, src, event);
  return context_->wait(slot, context_->profile().compare, flag_word(round, phase), site);
}

bool ZeroBufferSync::check_flag(Rank src, std::uint32_t event, std::uint32_t phase, SourceSite site) {
  const Slot slot = context_->slots().flag().at(round_.value() & 1, src, event);
  std::optional<shmem::Token> seen = context_->test({.where = context_->rank(),
                                                     .slots = {&slot, 1},
                                                     .compare = context_->profile().compare,
                                                     .value = flag_word(round_, phase)},
                                                    site);
  if (!seen) return false;
  std::move(*seen).ordering_only();
  return true;
}

Witness ZeroBufferSync::wait_flag_batch(Rank first, Rank last, std::uint32_t event, std::uint32_t phase,
                                        SourceSite site) {
  Witness arrived = Witness::own();
  for (Rank src = first; src < last; ++src) {
    if (src == context_->rank()) continue;
    arrived = consume_token(wait_flag(src, event, phase, site));
  }
  return arrived;
}

Witness ZeroBufferSync::wait_flag_range(Rank src, std::uint32_t first, std::uint32_t count, std::uint32_t phase,
                                        SourceSite site) {
  return wait_flag_range_with_magic(src, first, count, round_, phase, site);
}

Witness ZeroBufferSync::wait_flag_range_with_magic(Rank src, std::uint32_t first, std::uint32_t count, Round round,
                                                   std::uint32_t phase, SourceSite site) {
  Witness arrived = Witness::own();
  for (std::uint32_t event = first; event < first + count; ++event) {
    arrived = consume_token(wait_flag_with_magic(src, event, round, phase, site));
  }
  return arrived;
}

Witness ZeroBufferSync::wait_all_rank_all_event(std::uint32_t phase, SourceSite site) {
  const Slice slice = ranks_of_this_core();
  const std::uint32_t events = context_->slots().flag().events;
  Witness arrived = Witness::own();
  for (std::int64_t r = slice.first; r < slice.last; ++r) {
    if (Rank{r} == context_->rank()) continue;
    arrived = wait_flag_range(Rank{r}, 0, events, phase, site);
  }
  return arrived;
}

}  // namespace shmoe::runtime
