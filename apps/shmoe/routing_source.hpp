#pragma once
// The routing of every rank in every step; every rank holds all of it, so that it can check what it receives.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/shmoe/batch.hpp"
#include "apps/shmoe/routing_file.hpp"
#include "apps/shmoe/synthetic_routing.hpp"
#include "shmem/result.hpp"

namespace shmoe::apps {

struct RoutingChoice {
  std::vector<std::string> files;           // layers, used by turns; none: drawn
  std::optional<std::int64_t> tokens = {};  // of a rank and step; files: at most so many of a line
  std::optional<std::int32_t> topk = {};
  std::int32_t experts = 64;
  std::uint64_t seed = 1;
};

class RoutingSource {
 public:
  /// Errors:  as read_routing_file; invalid_argument where layers differ in top k
  static Result<RoutingSource> open(const RoutingChoice& choice);

  [[nodiscard]] std::int32_t topk() const { return world_.topk; }
  /// Of what the files say; the same for the same batches.
  [[nodiscard]] std::uint64_t digest() const;
  [[nodiscard]] std::int32_t experts() const { return world_.experts; }
  /// "law_layer8.txt" or "drawn from measured load".
  [[nodiscard]] std::string description() const;
  /// "drawn", "from file", "none" (every weight is 1), or "from file, none in some lines".
  [[nodiscard]] std::string weights() const;
  /// What looks like a slip: files whose ids all lie in the lower half of the experts. Empty where nothing does.
  [[nodiscard]] std::string doubt() const;

  /// Line (step * ranks + rank) mod lines, counting a step only when all layers have had their turn.
  [[nodiscard]] Batch batch(std::int64_t step, Rank rank, std::int32_t ranks) const;

 private:
  SyntheticWorld world_;
  std::optional<std::int64_t> at_most_;
  std::vector<RoutingFile> layers_;
};

}  // namespace shmoe::apps
