#pragma once
// What the programs about flags and barriers share: a table of words, one of each core of each rank, on every rank.

#include <functional>
#include <span>

#include "runtime/check/program.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::apps {

/// The kernel in every round, on every rank.
inline runtime::check::Body every_round(const runtime::check::Setting& setting, const char* op,
                                        std::function<void(runtime::CoreContext&)> kernel) {
  return [rounds = setting.rounds, op, kernel = std::move(kernel)](runtime::Communicator& comm) -> Result<void> {
    for (std::int32_t round = 0; round < rounds; ++round) {
      if (Result<void> done = comm.launch(op, kernel); !done) return done;
    }
    return {};
  };
}

/// Leaves the kernel: what was read is not what must have been there.
[[noreturn]] inline void wrong(runtime::CoreContext& context, const char* what) {
  throw Interrupted(
      Error{.code = Errc::mismatch,
            .context = fmt::format("wrong result: {} on rank {} core {}", what, context.rank(), context.core())});
}

class WordTable {
 public:
  WordTable(runtime::CoreContext& context, Offset at) : context_(&context), at_(at) {}

  /// This core's word, to every rank.
  /// Order:   puts only
  void write(std::uint64_t value) {
    for (Rank dst{0}; dst.value() < context_->ranks(); ++dst) {
      context_->put(dst, place(context_->rank(), context_->core()), std::span<const std::uint64_t>{&value, 1});
    }
  }
  /// The word of one core of a rank is here.
  /// Order:   `ordered` orders the read
  void expect(Rank source, Core core, std::uint64_t value, const shmem::Witness& ordered) {
    std::uint64_t word = 0;
    context_->get(context_->rank(), place(source, core), std::span{&word, 1}, ordered);
    if (word != value) wrong(*context_, "a word that should have arrived");
  }
  /// Those of all its cores.
  /// Order:   as expect
  void expect_all(Rank source, std::uint64_t value, const shmem::Witness& ordered) {
    for (Core core{0}; core.value() < context_->cores(); ++core) expect(source, core, value, ordered);
  }

 private:
  [[nodiscard]] Offset place(Rank rank, Core core) const {
    return at_ + Bytes{8 * (rank.index() * static_cast<std::uint64_t>(context_->cores()) + core.index())};
  }

  runtime::CoreContext* context_;
  Offset at_;
};

}  // namespace shmoe::apps
