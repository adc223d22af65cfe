#pragma once
// The words of the tile language, with its names, for one core: addresses, wait and notify, stores and transfers.
//
//   producer   wait(symm_at(slot, peer), 1, 0) -> consume_token -> store -> fence -> notify(slot, peer, 1)
//   consumer   wait(slot, 1, 1)                -> consume_token -> load  -> fence -> notify(slot, me, 0)
//
// An address is this rank's own until symm_at says whose it is. What translates by itself (notify, putmem, getmem) takes
// own addresses only, so that nothing is translated twice: that would lie on rank 2p - me.

#include <algorithm>
#include <limits>
#include <memory_resource>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/tile/window.hpp"
#include "runtime/core_context.hpp"
#include "shmem/context.hpp"
#include "shmem/signal.hpp"

namespace shmoe::ops::tile {

/// Elements of this rank's symmetric memory. The same place of each rank has the same offset.
template <shmem::Plain T>
struct Symmetric {
  Offset at;
  friend Symmetric operator+(Symmetric p, std::int64_t n) {
    return {Offset{p.at.value() + sizeof(T) * static_cast<std::uint64_t>(n)}};
  }
};

/// The same place of one rank, as this rank reaches it.
template <shmem::Plain T>
struct Translated {
  Rank owner;
  Offset at;
  friend Translated operator+(Translated p, std::int64_t n) { return {p.owner, (Symmetric<T>{p.at} + n).at}; }
};

/// One that a token allows to use.
template <shmem::Plain T>
struct Ready {
  Translated<T> place;
  shmem::Witness ordered;
  friend Ready operator+(const Ready& p, std::int64_t n) { return {p.place + n, p.ordered}; }
};

/// A signal slot of this rank's own.
template <class T>
struct Signal {
  Slot slot;
};
/// That of one rank.
template <class T>
struct TranslatedSignal {
  Rank owner;
  Slot slot;
};

/// The comparisons of signal_wait_until. Values are not negative.
enum class Cmp : std::uint8_t { eq, ne, gt, ge, lt, le };

/// The slots of a declared family as signals of one width.
template <class T>
class Signals {
 public:
  static_assert(std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>, "signals are int32 or int64");

  /// Errors:  a family of another width is a broken contract.
  explicit Signals(const shmem::SlotFamily& family) : family_(&family) {
    SHMOE_EXPECTS(family.width == sizeof(T), "the slots of {} are {} bytes wide and are used as {}", family.name,
                  family.width, sizeof(T));
  }
  [[nodiscard]] const shmem::SlotFamily& family() const { return *family_; }
  [[nodiscard]] std::uint32_t size() const { return family_->count(); }
  /// Errors:  beyond the slots that were allocated: a broken contract.
  [[nodiscard]] Signal<T> operator[](std::int64_t index) const {
    SHMOE_EXPECTS(index >= 0 && index < size(),
                  "slot {} of {}, which has {}: the formula of the address and what was allocated have drifted apart",
                  index, family_->name, size());
    return {Slot{family_->first + static_cast<std::uint32_t>(index)}};
  }
  [[nodiscard]] Signal<T> at(std::int64_t buffer, Rank source, std::int64_t event) const {
    return {family_->at(static_cast<std::uint64_t>(buffer), source, static_cast<std::uint32_t>(event))};
  }

 private:
  const shmem::SlotFamily* family_;
};

/// p, once the token's wait is over. On the accelerator this keeps the wait alive and what uses p behind it.
template <shmem::Plain T>
Ready<T> consume_token(Translated<T> p, shmem::Token&& token) {
  return {p, shmem::consume_token(std::move(token))};
}

class Tile {
 public:
  explicit Tile(runtime::CoreContext& context)
      : context_(&context),
        window_(context.rank(), context.ranks(), context.launch().strict),
        unfenced_(context.workspace()) {}

  [[nodiscard]] Rank rank() const { return context_->rank(); }
  [[nodiscard]] std::int32_t num_ranks() const { return context_->ranks(); }

  template <class T>
  [[nodiscard]] Translated<T> symm_at(Symmetric<T> p, Rank r) const {
    return {r, p.at};
  }
  template <class T>
  [[nodiscard]] TranslatedSignal<T> symm_at(Signal<T> signal, Rank r) const {
    return {r, signal.slot};
  }
  template <class T>
  void symm_at(Translated<T> translated_already, Rank r) const = delete;
  template <class T>
  void symm_at(TranslatedSignal<T> translated_already, Rank r) const = delete;

  /// An address as a number.
  [[nodiscard]] Offset symm_at(Offset address, Rank r, SourceSite site = SourceSite::here()) const {
    return window_.symm_at(address, r, site);
  }

  /// Until each of `count` slots in a row has been seen to hold: equal to the value, where nothing else is asked for. The
  /// slots keep their values.
  /// Order:   as Context::wait. This core's own signals are complete first: a slot of another rank is never seen as it was
  ///          before this core has set it.
  /// Errors:  as Context::wait.
  template <class T>
  shmem::Token wait(TranslatedSignal<T> first, std::uint32_t count, std::type_identity_t<T> value = 1,
                    Compare compare = Compare::equal, SourceSite site = SourceSite::here()) {
    if (signalled_ && first.owner != rank()) quiet(site);
    std::pmr::vector<Slot> slots(context_->workspace());
    for (std::uint32_t i = 0; i < count; ++i) slots.emplace_back(first.slot.value() + i);
    return context_->wait({.where = first.owner, .slots = slots, .compare = compare, .value = word_of(value)}, site);
  }
  /// Own slots.
  template <class T>
  shmem::Token wait(Signal<T> first, std::uint32_t count, std::type_identity_t<T> value = 1,
                    Compare compare = Compare::equal, SourceSite site = SourceSite::here()) {
    return wait(symm_at(first, rank()), count, value, compare, site);
  }

  /// The slot of rank r, which may be the own one. No fence is implied.
  /// Order:   unordered with earlier stores until fence.
  template <class T>
  void notify(Signal<T> signal, Rank r, std::type_identity_t<T> value = 1, shmem::SignalOp op = shmem::SignalOp::set,
              SourceSite site = SourceSite::here()) {
    signalled_ = signalled_ || r != rank();
    context_->signal(r, signal.slot, op, word_of(value), site);
  }
  template <class T>
  void notify(TranslatedSignal<T> translated_already, Rank r, std::type_identity_t<T> value = 1,
              shmem::SignalOp op = shmem::SignalOp::set) = delete;

  /// Order:   unordered until fence or quiet.
  template <class T>
  void store(Translated<T> to, std::span<const std::type_identity_t<T>> values, SourceSite site = SourceSite::here()) {
    if (std::ranges::find(unfenced_, to.owner) == unfenced_.end()) unfenced_.push_back(to.owner);
    context_->put(to.owner, to.at, values, site);
  }
  /// Order:   as above, and after the wait of the token.
  template <class T>
  void store(const Ready<T>& to, std::span<const std::type_identity_t<T>> values,
             SourceSite site = SourceSite::here()) {
    store(to.place, values, site);
  }
  /// Order:   reads what the token of `from` stands for, or later.
  template <class T>
  void load(const Ready<T>& from, std::span<std::type_identity_t<T>> values, SourceSite site = SourceSite::here()) {
    context_->get(from.place.owner, from.place.at, values, from.ordered, site);
  }

  // Transfers take the own address and translate it. Bytes are counted from the elements.

  /// Order:   complete on return: no fence is needed before a notify.
  template <class T>
  void putmem(Symmetric<T> to, std::span<const std::type_identity_t<T>> from, Rank r,
              SourceSite site = SourceSite::here()) {
    putmem_nbi(to, from, r, site);
    quiet(site);
  }
  /// Order:   unordered until fence or quiet.
  template <class T>
  void putmem_nbi(Symmetric<T> to, std::span<const std::type_identity_t<T>> from, Rank r,
                  SourceSite site = SourceSite::here()) {
    store(symm_at(to, r), from, site);
  }
  template <class T>
  void putmem(Translated<T> translated_already, std::span<const std::type_identity_t<T>> from, Rank r) = delete;
  /// `to` is the own address as a number.
  /// Order:   complete on return.
  /// Errors:  as Window: in strict mode a translated one is a broken contract; otherwise the data go elsewhere.
  void putmem(Offset to, std::span<const std::byte> from, Rank r, SourceSite site = SourceSite::here()) {
    const Window::Place place = window_.resolve(window_.symm_at(to, r, site), site);
    context_->put(place.owner, place.at, from, site);
    quiet(site);
  }
  /// Order:   complete on return; reads what `ordered` stands for, or later.
  template <class T>
  void getmem(std::span<std::type_identity_t<T>> to, Symmetric<T> from, Rank r, const shmem::Witness& ordered,
              SourceSite site = SourceSite::here()) {
    context_->get(r, from.at, to, ordered, site);
  }
  template <class T>
  void getmem(std::span<std::type_identity_t<T>> to, Translated<T> translated_already, Rank r,
              const shmem::Witness& ordered) = delete;
  /// Order:   the payload, then its signal; complete on return.
  template <class T, class S>
  void putmem_signal(Symmetric<T> to, std::span<const std::type_identity_t<T>> from, Signal<S> signal,
                     std::type_identity_t<S> value, Rank r, shmem::SignalOp op = shmem::SignalOp::set,
                     SourceSite site = SourceSite::here()) {
    putmem_signal_nbi(to, from, signal, value, r, op, site);
    quiet(site);
  }
  /// Order:   the payload, then its signal.
  template <class T, class S>
  void putmem_signal_nbi(Symmetric<T> to, std::span<const std::type_identity_t<T>> from, Signal<S> signal,
                         std::type_identity_t<S> value, Rank r, shmem::SignalOp op = shmem::SignalOp::set,
                         SourceSite site = SourceSite::here()) {
    signalled_ = signalled_ || r != rank();
    context_->put_signal(r, to.at, from, signal.slot, op, word_of(value), site);
  }

  // Waits on own slots in a row. Where a mask is given, elements that are not 0 leave their slot out.

  /// Order:   as wait.
  template <class T>
  shmem::Token signal_wait_until(Signal<T> signal, Cmp cmp, std::type_identity_t<T> value,
                                 SourceSite site = SourceSite::here()) {
    const Condition until = condition(cmp, word_of(value), site);
    return context_->wait(signal.slot, until.compare, until.value, site);
  }
  /// At once where no slot is left.
  /// Order:   as wait.
  template <class T>
  shmem::Witness wait_until_all(Signal<T> first, std::uint32_t count, Cmp cmp, std::type_identity_t<T> value,
                                std::span<const int> mask = {}, SourceSite site = SourceSite::here()) {
    return wait_on(included(first.slot, count, mask), shmem::Match::all, condition(cmp, word_of(value), site), site)
        .ordered;
  }
  /// The same, each for a value of its own.
  /// Order:   as wait.
  template <class T>
  shmem::Witness wait_until_all(Signal<T> first, Cmp cmp, std::span<const std::type_identity_t<T>> values,
                                std::span<const int> mask = {}, SourceSite site = SourceSite::here()) {
    SHMOE_EXPECTS(mask.empty() || mask.size() == values.size(), "a mask of {} for {} slots", mask.size(),
                  values.size());
    shmem::Witness ordered = shmem::Witness::own();
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      if (!mask.empty() && mask[i] != 0) continue;
      const Signal<T> one{Slot{first.slot.value() + i}};
      ordered = shmem::consume_token(signal_wait_until(one, cmp, values[i], site));
    }
    return ordered;
  }
  struct Found {
    std::size_t index;
    shmem::Witness ordered;
  };
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  /// The index of one that holds; kNone where no slot is left.
  /// Order:   as wait, of that slot.
  template <class T>
  Found wait_until_any(Signal<T> first, std::uint32_t count, Cmp cmp, std::type_identity_t<T> value,
                       std::span<const int> mask = {}, SourceSite site = SourceSite::here()) {
    const std::pmr::vector<Slot> slots = included(first.slot, count, mask);
    Found found = wait_on(slots, shmem::Match::any, condition(cmp, word_of(value), site), site);
    if (found.index != kNone) found.index = slots[found.index].value() - first.slot.value();
    return found;
  }
  struct Several {
    std::size_t count;
    shmem::Witness ordered;
  };
  /// Waits for one and writes the indices of all that hold then; 0 of them where no slot is left.
  /// Order:   as wait, of those slots.
  template <class T>
  Several wait_until_some(Signal<T> first, std::uint32_t count, std::span<std::size_t> indices, Cmp cmp,
                          std::type_identity_t<T> value, std::span<const int> mask = {},
                          SourceSite site = SourceSite::here()) {
    const Condition until = condition(cmp, word_of(value), site);
    const std::pmr::vector<Slot> slots = included(first.slot, count, mask);
    const Found seen = wait_on(slots, shmem::Match::any, until, site);
    return those_that_hold(slots, first.slot, until, seen.index, indices, site);
  }

  // One look each, with the same conditions and masks.

  /// Order:   a token orders as that of a wait.
  template <class T>
  [[nodiscard]] std::optional<shmem::Token> test(Signal<T> signal, Cmp cmp, std::type_identity_t<T> value,
                                                 SourceSite site = SourceSite::here()) {
    const Condition until = condition(cmp, word_of(value), site);
    return context_->test({.where = rank(), .slots = {&signal.slot, 1}, .compare = until.compare, .value = until.value},
                          site);
  }
  /// Yes where no slot is left.
  /// Order:   as test.
  template <class T>
  [[nodiscard]] std::optional<shmem::Witness> test_all(Signal<T> first, std::uint32_t count, Cmp cmp,
                                                       std::type_identity_t<T> value, std::span<const int> mask = {},
                                                       SourceSite site = SourceSite::here()) {
    const Condition until = condition(cmp, word_of(value), site);
    for (const Slot slot : included(first.slot, count, mask)) {
      if (!holds(slot, until, site)) return std::nullopt;
    }
    return shmem::Witness::own();
  }
  /// The index of the first one that holds; kNone where none does.
  /// Order:   as test, of that slot.
  template <class T>
  [[nodiscard]] Found test_any(Signal<T> first, std::uint32_t count, Cmp cmp, std::type_identity_t<T> value,
                               std::span<const int> mask = {}, SourceSite site = SourceSite::here()) {
    const Condition until = condition(cmp, word_of(value), site);
    for (const Slot slot : included(first.slot, count, mask)) {
      if (holds(slot, until, site)) return {slot.value() - first.slot.value(), shmem::Witness::own()};
    }
    return {kNone, shmem::Witness::own()};
  }
  /// Writes the indices of all that hold.
  /// Order:   as test, of those slots.
  template <class T>
  [[nodiscard]] Several test_some(Signal<T> first, std::uint32_t count, std::span<std::size_t> indices, Cmp cmp,
                                  std::type_identity_t<T> value, std::span<const int> mask = {},
                                  SourceSite site = SourceSite::here()) {
    const std::pmr::vector<Slot> slots = included(first.slot, count, mask);
    return those_that_hold(slots, first.slot, condition(cmp, word_of(value), site), kNone, indices, site);
  }

  /// Order:   this core's earlier stores and notifies before its later ones.
  void fence(SourceSite site = SourceSite::here()) {
    for (const Rank r : unfenced_) context_->fence(r, site);
    unfenced_.clear();
  }
  /// Order:   everything this core sent, to any rank, is complete on return.
  void quiet(SourceSite site = SourceSite::here()) {
    context_->quiet(site);
    unfenced_.clear();
    signalled_ = false;
  }

 private:
  template <class T>
  static std::uint64_t word_of(T value) {
    return static_cast<std::make_unsigned_t<T>>(value);
  }

  struct Condition {
    Compare compare;
    std::uint64_t value;
  };
  static Condition condition(Cmp cmp, std::uint64_t value, SourceSite site);
  [[nodiscard]] std::pmr::vector<Slot> included(Slot first, std::uint32_t count, std::span<const int> mask) const;
  Found wait_on(std::span<const Slot> slots, shmem::Match match, Condition until, SourceSite site);
  bool holds(Slot slot, Condition until, SourceSite site);
  /// `seen` is one that is known to.
  Several those_that_hold(std::span<const Slot> slots, Slot first, Condition until, std::size_t seen,
                          std::span<std::size_t> indices, SourceSite site);

  runtime::CoreContext* context_;
  Window window_;
  std::pmr::vector<Rank> unfenced_;  // that this core has stored to since
  bool signalled_ = false;           // other ranks, since it was quiet
};

}  // namespace shmoe::ops::tile
