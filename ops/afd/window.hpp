#pragma once
// The symmetric memory and the slots of a2e and e2a.
//
//   window of an attention rank, B = max_batch:
//
//   | batch size | active mask [B] | expert ids [B, K] | scales [B, K] | scales of rows [B] | rows [B, H] |
//     i32          u8                i32                 fp32            fp32, int8 only      of dtype, or int8
//
//   a2e      the attention rank writes its own window, the expert rank reads it
//   e2a      the expert rank writes the rows, the attention rank reads them
//   flags    a2e [half][attention rank][batch size, expert ids, scales, x] at the expert rank
//            e2a [half][expert rank][0]                                    at the attention rank

#include <cstdint>
#include <string>

#include "ops/afd/assignment.hpp"
#include "ops/ep/place.hpp"
#include "ops/ep/quant.hpp"
#include "ops/handshake.hpp"
#include "runtime/zero_buffer_sync.hpp"
#include "shmem/signal.hpp"

namespace shmoe::ops {

/// Of the windows of the published profiles.
struct PublishedSizes {
  Bytes half{800U << 20};
  Bytes flags{2U << 20};  // before the data of each half
  bool operator==(const PublishedSizes&) const = default;
};

// So that no product of sizes can wrap.
inline constexpr std::int64_t kMostAfdHidden = std::int64_t{1} << 24;
inline constexpr std::int64_t kMostAfdBatch = std::int64_t{1} << 20;
inline constexpr std::int32_t kMostAfdTopk = 1 << 12;

/// What all ranks must agree on.
struct AfdShape {
  Assignment ranks;
  std::int64_t max_batch = 0;  // rows of an attention rank at most
  std::int64_t hidden = 0;
  std::int32_t topk = 1;
  DType dtype = DType::bf16;
  Quant quant = Quant::none;  // of the rows on their way to the experts
  bool compute_gate = true;   // expert ids and scales go with the rows
  PublishedSizes published = {};
  bool operator==(const AfdShape&) const = default;

  [[nodiscard]] std::uint64_t row_bytes() const { return ops::row_bytes(dtype, hidden); }
  [[nodiscard]] std::uint64_t sent_row_bytes() const { return ops::row_bytes(dtype, hidden, quant); }
  /// Rows that an expert rank has room for.
  [[nodiscard]] std::int64_t capacity(Rank expert) const { return ranks.served(expert) * max_batch; }
};

/// "E 1, A 2, max_batch 4, hidden 64, top-k 2, bf16, gate on"
std::string describe(const AfdShape& shape);

/// Where the parts of a window lie in it. Every part begins at a multiple of 64 bytes.
struct AfdWindow {
  static AfdWindow of(const AfdShape& shape);

  Bytes batch_size, active_mask, expert_ids, scales, row_scales, rows, size;
};

/// Bytes of a window, the same on every rank.
Bytes afd_window_bytes(const AfdShape& shape, const Profile& profile);

enum class AfdFlag : std::uint8_t { batch_size, expert_ids, scales, x };
inline constexpr std::uint32_t kAfdFlags = 4;

struct AfdSignals {
  shmem::SlotFamily a2e;
  shmem::SlotFamily e2a;
};

/// Adds the slots to a plan, in the user data from `base` on: to be called in Config::declare_slots.
/// Errors:  a broken contract where they do not fit
AfdSignals declare_afd(shmem::SlotPlan& plan, const shmem::BlockMap& map, Offset base = Offset{0});
/// Those of a communicator. Where they are not declared they are empty, and the operators refuse them on every rank.
AfdSignals afd_signals(const shmem::SlotPlan& plan);

/// What both operators take.
struct AfdPlace {
  const AfdShape& shape;
  Offset window;  // symmetric: afd_window_bytes
  const AfdSignals& signals;
};

RowBuffer afd_window(const AfdPlace& place, const runtime::Communicator& comm);

/// The card of either operator, and what is wrong with what both take.
/// Errors:  invalid_argument naming the figure; in a published profile also of what its kernel would ignore
Handshake afd_handshake(const char* op, const AfdPlace& place, const runtime::Communicator& comm);

/// Of a call: the half of its slots and the word that its flags hold.
class AfdRound {
 public:
  AfdRound(const runtime::ZeroBufferSync& sync, const runtime::CoreContext& context)
      : number_(sync.round().value() + 1), compare_(context.profile().compare) {
    word_ = context.profile().flag_word == FlagWord::magic32_value32 ? shmem::published_word(number_, 0)
                                                                     : shmem::safe_word(number_);
  }

  /// From 1 on.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::uint64_t half() const { return number_ & 1; }

  /// Order:   everything this core sent before is readable by whoever waits for the flag
  void raise(runtime::CoreContext& context, Rank dst, Slot slot, SourceSite site = SourceSite::here()) const {
    context.quiet(site);
    context.signal(dst, slot, shmem::SignalOp::set, word_, site);
  }
  /// Order:   what was sent before the flag is readable
  shmem::Witness await(runtime::CoreContext& context, Slot slot, SourceSite site = SourceSite::here()) const {
    return consume_token(context.wait(slot, compare_, word_, site));
  }

 private:
  std::uint64_t number_;
  std::uint64_t word_ = 0;
  Compare compare_;
};

}  // namespace shmoe::ops
