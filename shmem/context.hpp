#pragma once
// What a kernel holds: typed spans, views and tokens over a Fabric. Ends of waits that are no value leave the kernel as
// Interrupted; the launch turns that into a Result, so protocol code reads as the spec draws it.

#include <exception>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "shmem/fabric.hpp"

namespace shmoe::shmem {

template <class T>
concept Plain = std::is_trivially_copyable_v<T>;

/// A span, an array or a vector of such elements.
template <class R>
concept PlainRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && Plain<std::ranges::range_value_t<R>>;

template <Plain T>
constexpr Bytes bytes_of(std::size_t count) {
  return Bytes{count * sizeof(T)};
}

/// Proof that a wait or a barrier orders what is read now after what was written before. Copyable: one wait may guard
/// many reads.
class Witness {
 public:
  /// For memory that only this core has written since the last barrier.
  static Witness own() { return Witness{}; }

 private:
  Witness() = default;
  friend Witness consume_token(class Token&& token);
};

/// What a wait returns. On the accelerator a wait whose token nobody consumes is deleted by the compiler; here it does
/// not compile, or aborts in debug builds.
class [[nodiscard(
    "a wait orders nothing until its token is consumed: consume_token(std::move(t)) or ordering_only()")]] Token {
 public:
  Token(Arrival arrival, SourceSite site) : arrival_(arrival), site_(site) {}
  Token(Token && other) noexcept
      : arrival_(other.arrival_), site_(other.site_), pending_(std::exchange(other.pending_, false)) {}
  Token& operator=(Token&&) = delete;
  ~Token();

  [[nodiscard]] const Arrival& arrival() const { return arrival_; }
  /// The wait guards no data.
  void ordering_only()&& { pending_ = false; }

 private:
  friend Witness consume_token(Token && token);
  Arrival arrival_;
  SourceSite site_;
  bool pending_ = true;
  int exceptions_ = std::uncaught_exceptions();
};

inline Witness consume_token(Token&& token) {
  token.pending_ = false;
  return Witness{};
}

/// Elements of a peer's memory that may be read until the view closes.
/// Order:   no wait while a view is open.
template <Plain T>
class [[nodiscard]] ReadView {
 public:
  ReadView(Fabric* fabric, int* open, Rank src, Offset at, std::span<const T> data, SourceSite site)
      : fabric_(fabric), open_(open), src_(src), at_(at), data_(data), site_(site) {
    if (fabric_ != nullptr) ++*open_;
  }
  ReadView(ReadView&& other) noexcept
      : fabric_(std::exchange(other.fabric_, nullptr)),
        open_(other.open_),
        src_(other.src_),
        at_(other.at_),
        data_(other.data_),
        site_(other.site_) {}
  ReadView& operator=(ReadView&&) = delete;
  ~ReadView() {
    if (fabric_ == nullptr) return;
    --*open_;
    fabric_->close_read(src_, at_, bytes_of<T>(data_.size()), site_);
  }
  [[nodiscard]] std::span<const T> data() const { return data_; }

 private:
  Fabric* fabric_;  // null: the data was fetched into the caller's scratch
  int* open_;
  Rank src_;
  Offset at_;
  std::span<const T> data_;
  SourceSite site_;
};

/// Elements of a peer's memory to fill; they land when the view closes.
/// Order:   as put: unordered until a fence. No wait while a view is open.
template <Plain T>
class [[nodiscard]] WriteView {
 public:
  WriteView(Fabric& fabric, int* open, bool in_place, Rank dst, Offset at, std::span<T> data, SourceSite site)
      : fabric_(&fabric), open_(open), in_place_(in_place), dst_(dst), at_(at), data_(data), site_(site) {
    ++*open_;
  }
  WriteView(WriteView&& other) noexcept
      : fabric_(std::exchange(other.fabric_, nullptr)),
        open_(other.open_),
        in_place_(other.in_place_),
        dst_(other.dst_),
        at_(other.at_),
        data_(other.data_),
        site_(other.site_) {}
  WriteView& operator=(WriteView&&) = delete;
  ~WriteView() {
    if (fabric_ == nullptr) return;
    --*open_;
    if (in_place_) {
      fabric_->close_write(dst_, at_, bytes_of<T>(data_.size()), site_);
    } else {
      fabric_->put(dst_, at_, std::as_bytes(data_), site_);
    }
  }
  [[nodiscard]] std::span<T> data() const { return data_; }

 private:
  Fabric* fabric_;
  int* open_;
  bool in_place_;
  Rank dst_;
  Offset at_;
  std::span<T> data_;
  SourceSite site_;
};

/// One core's front end. Who it is in the communicator, and typed access to every rank's block.
class Context {
 public:
  /// Who this core is.
  struct Place {
    Rank rank;
    std::int32_t ranks;
    Core core;
    std::int32_t cores;  // that run this kernel
  };
  Context(Fabric& fabric, const SlotPlan& slots, const Place& place)
      : fabric_(&fabric), slots_(&slots), place_(place) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] Rank rank() const { return place_.rank; }
  [[nodiscard]] std::int32_t ranks() const { return place_.ranks; }
  [[nodiscard]] Core core() const { return place_.core; }
  /// Cores that run this kernel.
  [[nodiscard]] std::int32_t cores() const { return place_.cores; }
  [[nodiscard]] const SlotPlan& slots() const { return *slots_; }
  [[nodiscard]] Fabric& fabric() { return *fabric_; }
  /// This core's part of n items.
  [[nodiscard]] Slice slice(std::int64_t n) const { return split(n, place_.cores, place_.core.value()); }

  /// Order:   unordered until fence(dst) or quiet.
  template <PlainRange Range>
  void put(Rank dst, Offset to, const Range& from, SourceSite site = SourceSite::here()) {
    fabric_->put(dst, to, std::as_bytes(std::span(from)), site);
  }
  /// Order:   complete on return; reads what `ordered` stands for, or later.
  template <PlainRange Range>
  void get(Rank src, Offset from, Range&& to, const Witness& /*ordered*/, SourceSite site = SourceSite::here()) {
    fabric_->get(src, from, std::as_writable_bytes(std::span(to)), site);
  }

  /// Reads in place where the fabric can, else through `scratch`, whose size says how much.
  /// Order:   as get; in place the owner's later writes show until the view closes.
  template <Plain T>
  ReadView<T> read(Rank src, Offset at, std::span<T> scratch, const Witness& ordered,
                   SourceSite site = SourceSite::here()) {
    const std::span<const std::byte> place = fabric_->open_read(src, at, bytes_of<T>(scratch.size()), site);
    if (!place.empty()) {
      const auto* first = reinterpret_cast<const T*>(place.data());
      return {fabric_, &open_views_, src, at, std::span<const T>{first, scratch.size()}, site};
    }
    get(src, at, scratch, ordered, site);
    return {nullptr, &open_views_, src, at, std::span<const T>{scratch}, site};
  }
  /// Writes in place where the fabric can, else from `scratch` when the view closes.
  template <Plain T>
  WriteView<T> write(Rank dst, Offset at, std::span<T> scratch, SourceSite site = SourceSite::here()) {
    const std::span<std::byte> place = fabric_->open_write(dst, at, bytes_of<T>(scratch.size()), site);
    const bool in_place = !place.empty();
    const std::span<T> data = in_place ? std::span<T>{reinterpret_cast<T*>(place.data()), scratch.size()} : scratch;
    return {*fabric_, &open_views_, in_place, dst, at, data, site};
  }

  /// Notify.
  /// Order:   unordered with earlier puts until fence(dst).
  void signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site = SourceSite::here()) {
    fabric_->signal(dst, slot, op, value, site);
  }
  /// The same to several ranks.
  /// Order:   as signal; none between the ranks.
  void signal_each(std::span<const Rank> dsts, Slot slot, SignalOp op, std::uint64_t value,
                   SourceSite site = SourceSite::here()) {
    fabric_->signal_each(dsts, slot, op, value, site);
  }
  /// Order:   the payload, then its own signal; no promise about earlier puts.
  template <PlainRange Range>
  void put_signal(Rank dst, Offset to, const Range& from, Slot slot, SignalOp op, std::uint64_t value,
                  SourceSite site = SourceSite::here()) {
    fabric_->put_signal(dst, to, std::as_bytes(std::span(from)), slot, op, value, site);
  }
  /// Order:   earlier puts and signals to dst before later ones to dst.
  void fence(Rank dst, SourceSite site = SourceSite::here()) { fabric_->fence(dst, site); }
  /// Order:   everything this core sent, to any rank, is complete on return.
  void quiet(SourceSite site = SourceSite::here()) { fabric_->quiet(site); }

  /// Order:   what the signalling core fenced before its signal is readable afterwards.
  /// Errors:  Interrupted with peer_lost, aborted or deadline; deadlock is kept for a proof.
  Token wait(const WaitSpec& spec, SourceSite site = SourceSite::here());
  /// One slot of this rank.
  Token wait(Slot slot, Compare compare, std::uint64_t value, SourceSite site = SourceSite::here()) {
    return wait(WaitSpec{.where = place_.rank, .slots = {&slot, 1}, .compare = compare, .value = value}, site);
  }
  /// Order:   a satisfied test orders like a wait, and its token is consumed like that of a wait.
  [[nodiscard]] std::optional<Token> test(const WaitSpec& spec, SourceSite site = SourceSite::here()) {
    const std::optional<Arrival> arrival = fabric_->test(spec, site);
    if (!arrival) return std::nullopt;
    return std::optional<Token>(std::in_place, *arrival, site);
  }

  void touch(Access access, Offset at, Bytes size, SourceSite site = SourceSite::here()) {
    fabric_->touch(access, place_.rank, at, size, site);
  }

 private:
  Fabric* fabric_;
  const SlotPlan* slots_;
  Place place_;
  int open_views_ = 0;  // views point to it
};

}  // namespace shmoe::shmem
