#pragma once
// Links that are slower than shared memory. The data is there at once; what says so waits until the link would have
// carried it.

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/link_speeds.hpp"
#include "runtime/pause.hpp"
#include "shmem/passing_fabric.hpp"

namespace shmoe::runtime {

/// The links of one rank of a job, shared by the fabrics of its cores in all communicators: what they send goes one after
/// the other over each.
class RankLinks {
 public:
  RankLinks(LinkSpeeds speeds, Rank rank)
      : speeds_(std::move(speeds)), rank_(rank), free_at_(static_cast<std::size_t>(speeds_.ranks())) {}

  /// When bytes that are sent now will have arrived. `dst`: a rank of the job.
  /// Errors:  a broken contract where there is no link
  shmem::Time arrival(Rank dst, Bytes size, shmem::Time now);

 private:
  LinkSpeeds speeds_;
  Rank rank_;
  std::mutex mutex_;
  std::vector<shmem::Time> free_at_;
};

/// Wraps a fabric. Puts, views for writing and payloads of put_signal take their time on a link, links at the same time;
/// a fence, a quiet and a put_signal wait for it, but not in a communicator that has been given up. Signals and reads take
/// none.
/// Order:   as the wrapped fabric.
/// Errors:  as the wrapped fabric; a put where there is no link breaks the contract.
class ThrottledFabric final : public shmem::PassingFabric {
 public:
  /// `members`: ranks of the job, in group order.
  ThrottledFabric(std::unique_ptr<shmem::Fabric> next, std::shared_ptr<RankLinks> links, const shmem::Peers& peers,
                  std::span<const Rank> members)
      : PassingFabric(std::move(next)),
        links_(std::move(links)),
        pause_(this->next(), peers),
        abort_text_(peers.map->abort_text()),
        members_(members.begin(), members.end()),
        arrives_(members.size()) {}

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override;
  void close_write(Rank dst, Offset at, Bytes size, SourceSite site) override;
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, shmem::SignalOp op,
                  std::uint64_t value, SourceSite site) override;
  void fence(Rank dst, SourceSite site) override;
  void quiet(SourceSite site) override;

 private:
  void send(Rank dst, std::size_t size);
  void hold(shmem::Time until, SourceSite site);

  std::shared_ptr<RankLinks> links_;
  Pause pause_;
  Offset abort_text_;  // whoever writes there gives up, and is held no more
  std::vector<Rank> members_;
  std::vector<shmem::Time> arrives_;  // what this core has sent, by receiver
};

}  // namespace shmoe::runtime
