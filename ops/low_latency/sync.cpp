#include "ops/low_latency/sync.hpp"

#include <bit>
#include <utility>

namespace shmoe::ops {

namespace {

using runtime::CallCard;
using shmem::SignalOp;
using shmem::Witness;

constexpr std::uint64_t kOne = std::bit_cast<std::uint32_t>(1.0F);

std::uint64_t float_word(std::uint64_t magic) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magic)));
}

/// What a rank raises comes before that it calls something else, and then the lowest rank.
bool is_told_before(const Error& a, const Error& b) {
  const auto key = [](const Error& e) { return std::pair{e.code == Errc::mismatch, e.where->value()}; };
  return key(a) < key(b);
}

constexpr const char* name_of(LowLatencySync::Call call) {
  return call == LowLatencySync::Call::dispatch ? "dispatch" : "combine";
}

}  // namespace

LowLatencySync::LowLatencySync(runtime::CoreContext& context, const LowLatencyRegion& region, Call call,
                               const Handshake& handshake)
    : context_(&context),
      region_(&region),
      call_(call),
      card_(&handshake.card),
      fault_(handshake.fault),
      peers_(context.workspace()) {
  Rounds rounds = load_rounds();
  round_ = Round{++rounds.taken[kind()]};
  store_rounds(rounds);
  check_in_flight(rounds);
  if (published() && call == Call::combine && context.launch().strict) check_paths();
  context.fabric().actor({.kind = shmem::ActorEvent::Kind::enter, .op = context.launch().op, .round = round_},
                         SourceSite::here());
}

LowLatencySync::LowLatencySync(runtime::CoreContext& context, const LowLatencyRegion& region, Call call,
                               const Handshake& handshake, Round round)
    : context_(&context),
      region_(&region),
      call_(call),
      card_(&handshake.card),
      fault_(handshake.fault),
      round_(round),
      peers_(context.workspace()) {
  context.fabric().actor({.kind = shmem::ActorEvent::Kind::enter, .op = context.launch().op, .round = round_},
                         SourceSite::here());
}

LowLatencySync::Rounds LowLatencySync::load_rounds() {
  Rounds rounds{};
  context_->get(context_->rank(), place(), std::span{&rounds, 1}, Witness::own());
  return rounds;
}

void LowLatencySync::store_rounds(const Rounds& rounds) {
  context_->put(context_->rank(), place(), std::span<const Rounds>{&rounds, 1});
}

/// Words, cards and halves are used again after two calls, so the one before the last must be over.
void LowLatencySync::check_in_flight(const Rounds& rounds) {
  const std::uint64_t open = rounds.open[kind()];
  const std::uint64_t oldest = open >> 2;
  if (open == 0 || (!published() && oldest + 1 == round_.value())) return;
  Error found = fault_of(
      context_->rank(), Errc::invalid_argument,
      fmt::format("low-latency {0} {1} begins while an older one is in flight: {0} {2} is open on communicator {3}. "
                  "Call {0}_finish with its own tables, the only ones that end it, or make another communicator. {4} "
                  "may be under way",
                  name_of(call_), round_, oldest, context_->launch().communicator, published() ? 1 : 2));
  if (published()) throw Interrupted(std::move(found));
  if (!fault_) fault_ = std::move(found);
}

/// As published, the combine flag of rank 0 is the word in which core 0 counts its rounds (S5).
void LowLatencySync::check_paths() {
  const Slot flag = flag_slot(Rank{0});
  const auto is_other_than = [&](std::uint64_t word) {
    auto seen =
        context_->test({.where = context_->rank(), .slots = {&flag, 1}, .compare = Compare::not_equal, .value = word});
    if (!seen) return false;
    std::move(*seen).ordering_only();
    return true;
  };
  if (!is_other_than(0) || !is_other_than(kOne)) return;  // the flag, where rank 0 has come first
  // All ranks have counted alike, so all leave here.
  throw Interrupted(
      fault_of(context_->rank(), Errc::invalid_argument,
               fmt::format("in profile {} the combine flag of rank 0 is the word in which core 0 counts rounds, and it "
                           "has counted (S5): take a communicator on which no barrier and no other operator runs, with "
                           "SHMOE_STRICT=off, or the profile safe",
                           name_of(context_->profile().id))),
      Interrupted::Agreed::yes);
}

void LowLatencySync::open() {
  Rounds rounds = load_rounds();
  std::uint64_t& open = rounds.open[kind()];
  open = open == 0 ? round_.value() << 2 | 1 : open | 2;
  store_rounds(rounds);
}

void LowLatencySync::close() {
  Rounds rounds = load_rounds();
  std::uint64_t& open = rounds.open[kind()];
  const std::uint64_t oldest = open >> 2;
  open &= round_.value() == oldest ? ~std::uint64_t{1} : ~std::uint64_t{2};
  if ((open & 1) == 0) open = (open & 2) == 0 ? 0 : (oldest + 1) << 2 | 1;
  store_rounds(rounds);
}

std::uint64_t LowLatencySync::card_buffer() const {
  return call_ == Call::dispatch
             ? round_.value() % LowLatencyRegion::kDispatchBuffers
             : LowLatencyRegion::kDispatchBuffers + round_.value() % LowLatencyRegion::kCombineBuffers;
}

const shmem::SlotFamily& LowLatencySync::flags() const {
  return call_ == Call::dispatch ? region_->dispatch_flags() : region_->combine_flags();
}

std::uint64_t LowLatencySync::flag_buffer() const { return round_.value() % flags().buffers; }

Slot LowLatencySync::status_slot(Rank source) const {
  return region_->status().at(round_.value() % region_->status().buffers, source);
}

std::uint64_t LowLatencySync::word() const { return shmem::safe_word(round_.value()); }

std::uint64_t LowLatencySync::word_with_error() const {
  const Errc raised = fault_ ? fault_->code : Errc::ok;
  return word() | static_cast<std::uint64_t>(raised);
}

std::span<const Rank> LowLatencySync::peers() {
  if (!peers_.empty()) return peers_;
  const Slice slice = context_->slice(context_->ranks());
  peers_.reserve(static_cast<std::size_t>(slice.size()));
  for (std::int64_t rank = slice.first; rank < slice.last; ++rank) {
    if (published() || Rank{rank} != context_->rank()) peers_.emplace_back(rank);
  }
  return peers_;
}

void LowLatencySync::publish() {
  if (published() || context_->core() != Core{0}) return;
  const Rank me = context_->rank();
  context_->put(me, region_->card(card_buffer()), std::span<const CallCard>{card_, 1});
  if (!fault_) return;
  char text[shmem::kErrorTextBytes] = {};
  fault_->context.copy(text, sizeof text - 1);
  context_->put(me, region_->error_text(card_buffer()), std::span<const char>{text});
}

void LowLatencySync::tell_each(Slot mine, std::uint64_t word) {
  context_->signal_each(peers(), mine, SignalOp::set, word);
}

void LowLatencySync::set_layout_status() {
  tell_each(status_slot(context_->rank()), published() ? float_word(round_.value()) : word_with_error());
}

void LowLatencySync::set_sync_flag() {
  if (published()) {
    tell_each(flag_slot(context_->rank()), kOne);
  } else {
    tell_each(flag_slot(context_->rank()), call_ == Call::combine ? word_with_error() : word());
  }
}

Witness LowLatencySync::wait_layout_status() {
  std::pmr::vector<Slot> slots(context_->workspace());
  slots.reserve(peers().size());
  for (const Rank peer : peers()) slots.push_back(status_slot(peer));
  if (!published()) return wait_words(slots);
  if (slots.empty()) return Witness::own();
  // As floats: |status - float(magic)| < 0.5 holds for equal ones only.
  return consume_token(context_->wait(
      {.where = context_->rank(), .slots = slots, .compare = Compare::equal, .value = float_word(round_.value())}));
}

Witness LowLatencySync::wait_sync_flag() {
  std::pmr::vector<Slot> slots(context_->workspace());
  slots.reserve(peers().size());
  for (const Rank peer : peers()) slots.push_back(flag_slot(peer));
  return published() ? wait_sum(slots) : wait_words(slots);
}

Witness LowLatencySync::wait_words(const std::pmr::vector<Slot>& slots) {
  if (fault_ && context_->core() == Core{0}) note(*fault_);
  if (slots.empty()) return Witness::own();
  std::pmr::vector<std::uint64_t> observed(slots.size(), context_->workspace());
  const Witness arrived = consume_token(context_->wait({.where = context_->rank(),
                                                        .slots = slots,
                                                        .compare = Compare::at_least,
                                                        .value = word(),
                                                        .observed = observed}));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Errc raised = shmem::error_in(observed[i]);
    if (raised != Errc::ok) read_error(peers()[i], raised, arrived);
  }
  return arrived;
}

/// Of integers: each flag is 0 or 1.0f.
Witness LowLatencySync::wait_sum(const std::pmr::vector<Slot>& slots) {
  if (slots.empty()) return Witness::own();
  const std::uint64_t all = slots.size() * kOne;
  const Witness arrived = consume_token(context_->wait(
      {.where = context_->rank(), .slots = slots, .match = shmem::Match::sum, .value = all, .upper = all}));
  for (const Slot slot : slots) context_->signal(context_->rank(), slot, SignalOp::set, 0);
  return arrived;
}

void LowLatencySync::read_error(Rank peer, Errc raised, const Witness& published) {
  char text[shmem::kErrorTextBytes] = {};
  context_->get(peer, region_->error_text(card_buffer()), std::span<char>{text}, published);
  note(Error{.code = raised, .context = text, .where = peer});
}

/// The first 8 bytes of a card.
std::uint64_t LowLatencySync::digest_of(Rank rank, const Witness& published) {
  std::uint64_t digest = 0;
  context_->get(rank, region_->card(card_buffer()), std::span{&digest, 1}, published);
  return digest;
}

bool LowLatencySync::agrees(Rank peer, const Witness& published) {
  if (digest_of(peer, published) == digest_of(context_->rank(), published)) return true;
  note(Error{.code = Errc::mismatch, .context = {}, .where = peer});
  return false;
}

void LowLatencySync::note(Error found) {
  std::optional<Error>& cell = context_->launch().faults[context_->core().index()];
  if (!cell || is_told_before(found, *cell)) cell = std::move(found);
}

std::optional<Error> LowLatencySync::mismatch() {
  const auto card_of = [&](Rank rank) {
    CallCard card("");
    // After a SyncAll that all cards have been waited for before.
    context_->get(rank, region_->card(card_buffer()), std::span<CallCard>{&card, 1}, Witness::own());
    return card;
  };
  const CallCard rule = card_of(Rank{0});
  for (Rank peer{1}; peer.value() < context_->ranks(); ++peer) {
    auto difference = rule.difference(card_of(peer), Rank{0}, peer);
    if (difference) return Error{.code = Errc::mismatch, .context = *std::move(difference), .where = peer};
  }
  return std::nullopt;
}

void LowLatencySync::leave_on_fault() {
  if (published()) return;
  const std::optional<Error>* first = nullptr;
  for (const std::optional<Error>& fault : context_->launch().faults) {
    if (fault && (first == nullptr || is_told_before(*fault, **first))) first = &fault;
  }
  if (first == nullptr) return;
  if ((*first)->code != Errc::mismatch) throw Interrupted(**first, Interrupted::Agreed::yes);
  if (std::optional<Error> found = mismatch()) throw Interrupted(*std::move(found), Interrupted::Agreed::yes);
}

}  // namespace shmoe::ops
