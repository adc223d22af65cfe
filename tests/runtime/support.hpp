#pragma once
// What the tests of runtime/ share: small jobs of threads whose every rank reports, and fabrics that stand in between.

#include <doctest/doctest.h>

#include <barrier>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/world.hpp"
#include "runtime/zero_buffer_sync.hpp"

namespace shmoe::runtime::test {

inline Config small_config(std::int32_t cores, const Profile& profile = kSafe) {
  Config config = Config::defaults();
  config.cores = cores;
  config.profile = profile;
  config.heap = Bytes{2U << 20};
  config.ipc_data = Bytes{0};
  config.communicators = 4;
  // So long that only a hang reaches it.
  config.wait_limit = std::chrono::seconds(60);
  config.bootstrap_timeout = std::chrono::seconds(60);
  return config;
}

/// How each rank ended; nothing where all was well.
using Outcomes = std::vector<std::optional<Error>>;

inline std::string text_of(const std::optional<Error>& error) { return error ? to_string(*error) : "no error"; }
inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

template <class Body>
Outcomes run_ranks(std::int32_t ranks, const Config& config, const Body& body, const FabricDecorator& decorate = {}) {
  Outcomes outcomes(static_cast<std::size_t>(ranks), Error{.code = Errc::io, .context = "the body never ran"});
  const Result<void> result = World::run_as_threads(
      ranks, config,
      [&](World& world) -> Result<void> {
        Result<void> own = body(world);
        outcomes[world.rank().index()] = own ? std::nullopt : std::optional(own.error());
        return own;
      },
      decorate);
  bool all_well = true;
  for (const auto& outcome : outcomes) all_well &= !outcome;
  CHECK(result.has_value() == all_well);
  return outcomes;
}

inline void check_all_well(const Outcomes& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CAPTURE(rank);
    CHECK(text_of(outcomes[rank]) == "no error");
  }
}

/// Lets the ranks of a test meet outside the library.
using HostBarrier = std::barrier<>;

/// The creation of a communicator takes a round itself. Takes it back, so that words are those of a fresh region.
inline void start_from_zero(Communicator& comm, HostBarrier& ranks_meet) {
  ranks_meet.arrive_and_wait();
  const auto region = [&](const shmem::Region& r) {
    for (std::byte& b : comm.local<std::byte>(r.at, r.size.value())) b = std::byte{0};
  };
  region(comm.map().magic);
  region(comm.map().barrier);
  region(comm.map().flags);
  ranks_meet.arrive_and_wait();
}

inline void set_rounds(Communicator& comm, std::uint64_t value) {
  for (Core core{0}; core.value() < comm.cores(); ++core) {
    const auto rounds = comm.local<std::uint64_t>(comm.map().magic_of(core), 2);
    rounds[0] = rounds[1] = value;
  }
}

/// Passes everything on.
class PassingFabric : public shmem::Fabric {
 public:
  explicit PassingFabric(std::unique_ptr<shmem::Fabric> next) : next_(std::move(next)) {}

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override {
    next_->put(dst, to, from, site);
  }
  void get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) override {
    next_->get(src, from, to, site);
  }
  std::span<const std::byte> open_read(Rank src, Offset at, Bytes size, SourceSite site) override {
    return next_->open_read(src, at, size, site);
  }
  void close_read(Rank src, Offset at, Bytes size, SourceSite site) override { next_->close_read(src, at, size, site); }
  std::span<std::byte> open_write(Rank dst, Offset at, Bytes size, SourceSite site) override {
    return next_->open_write(dst, at, size, site);
  }
  void close_write(Rank dst, Offset at, Bytes size, SourceSite site) override {
    next_->close_write(dst, at, size, site);
  }
  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override {
    next_->signal(dst, slot, op, value, site);
  }
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                  std::uint64_t value, SourceSite site) override {
    next_->put_signal(dst, to, from, slot, op, value, site);
  }
  void fence(Rank dst, SourceSite site) override { next_->fence(dst, site); }
  void quiet(SourceSite site) override { next_->quiet(site); }
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override { return next_->wait(spec, site); }
  std::optional<shmem::Arrival> test(const shmem::WaitSpec& spec, SourceSite site) override {
    return next_->test(spec, site);
  }
  void touch(shmem::Access access, Rank owner, Offset at, Bytes size, SourceSite site) override {
    next_->touch(access, owner, at, size, site);
  }
  void actor(const shmem::ActorEvent& event, SourceSite site) override { next_->actor(event, site); }
  shmem::Time now() override { return next_->now(); }

 protected:
  [[nodiscard]] shmem::Fabric& next() { return *next_; }

 private:
  std::unique_ptr<shmem::Fabric> next_;
};

}  // namespace shmoe::runtime::test
