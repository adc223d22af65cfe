#pragma once
// The input of all ranks for a2e and e2a, and a job of threads that compares every byte with the sequential reference.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "ops/afd/reference.hpp"
#include "runtime/world.hpp"

namespace shmoe::test {

struct AfdSizes {
  std::int32_t experts = 2;           // expert ranks
  std::vector<std::int64_t> batches;  // of each attention rank
  std::int64_t max_batch = 0;         // 0: the largest batch, at least 1
  std::int64_t hidden = 32;
  std::int32_t topk = 2;
  DType dtype = DType::bf16;
  ops::Quant quant = ops::Quant::none;
  bool gate = true;
  int inactive_percent = 0;
  int dropped_percent = 0;  // ids of -1
  bool summed = true;
};

struct AfdCase {
  std::uint64_t seed = 1;
  AfdSizes sizes;
  ops::reference::AfdProblem problem;

  [[nodiscard]] std::int32_t ranks() const { return sizes.experts + static_cast<std::int32_t>(sizes.batches.size()); }
  [[nodiscard]] ops::AfdShape shape() const;
  [[nodiscard]] std::size_t row_bytes() const { return shape().row_bytes(); }
  [[nodiscard]] std::string describe() const;
};

AfdCase make_afd_case(std::uint64_t seed, const AfdSizes& sizes);

/// What the expert ranks answer; follows from the seed.
std::vector<std::vector<std::byte>> afd_answers(const AfdCase& input);

struct AfdSetup {
  std::int32_t cores = 2;
  bool views = true;
  std::uint64_t weak_seed = 0;
  Profile profile = kSafe;
  int calls = 2;          // of a2e and e2a by turns
  bool only_a2e = false;  // e2a in the last call alone
  /// Runs on each rank before its first call.
  std::function<void(runtime::Communicator&)> before = {};
  runtime::FabricDecorator decorate = {};
};

runtime::Config afd_config(const AfdCase& input, const AfdSetup& setup);

/// The arguments of a rank.
ops::A2eArgs a2e_args(const AfdCase& input, const ops::AfdPlace& place, Rank rank, std::span<std::byte> expand_x);
ops::E2aArgs e2a_args(const AfdCase& input, const ops::AfdPlace& place, const ops::A2eTables& tables, Rank rank,
                      std::span<const std::byte> answers, std::span<std::byte> x);

/// Empty where every call of every rank did what it must, else the first difference.
std::string run_afd(const AfdCase& input, const AfdSetup& setup = {});

}  // namespace shmoe::test
