#pragma once
// A rank in several domains at once: what runs in each, mixed, and compared with the sequential references.
//
//   EP x TP = 3 x 2, six ranks      TP domain: a row       EP domain: a column
//        0 1
//        2 3
//        4 5

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/world.hpp"

namespace shmoe::test {

/// What a domain runs over and over, an operator at a time.
enum class Work : std::uint8_t {
  normal,       // layout, notify, dispatch_normal, combine_normal
  low_latency,  // dispatch and combine, each begun and finished
  tensors,      // reduce-scatter, all-to-all and a barrier; from 3 ranks on every other step among two, by a detour
};

struct Domain {
  runtime::CommunicatorId id;  // 0: the communicator of all ranks
  std::vector<Rank> members;   // world ranks, in group order
  std::vector<Work> works;
};

/// Everybody is in the domain of all ranks, an EP domain, and a TP domain.
std::vector<Domain> ep_and_tp(std::int32_t ep, std::int32_t tp);

/// A rank's share of one work.
class Part {
 public:
  virtual ~Part() = default;
  /// The next operator.
  virtual Result<void> next() = 0;
  /// The first difference of all steps, or nothing.
  [[nodiscard]] const std::string& found() const { return found_; }

 protected:
  std::string found_;
};

std::size_t operators_of(Work work);
/// Its inputs are drawn from the seed, alike on all members. In the first step the first member has no tokens.
Result<std::unique_ptr<Part>> make_part(Work work, runtime::Communicator& comm, std::uint64_t seed);

/// In each round every work does a step, their operators in an order drawn anew, alike on all ranks: ranks that disagreed
/// about it would wait for each other for ever. Returns the first differences.
Result<std::string> run_domains(runtime::World& world, const std::vector<Domain>& domains, std::uint64_t seed,
                                int rounds);

/// With the slots of low latency.
runtime::Config domains_config(runtime::Config config);

}  // namespace shmoe::test
