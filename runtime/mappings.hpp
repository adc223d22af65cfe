#pragma once
// The two objects of every rank, `.mem` and `.ctl`, as mapped in this process.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/job.hpp"
#include "shmem/segment.hpp"

namespace shmoe::runtime {

class Mappings {
 public:
  /// The objects of `rank`, this one, and addresses for those of its peers. `name`: without .mem and .ctl. `job`: see
  /// ControlHeader.
  /// Errors:  as AddressWindow::reserve, Segment::create and commit_block.
  static Result<std::shared_ptr<Mappings>> create(const JobShape& shape, Rank rank, const std::string& name,
                                                  std::uint64_t job);

  /// Each peer once.
  /// Errors:  as Segment::attach; version or mismatch where the object is of another build or job.
  Result<void> attach(Rank peer, const std::string& name);
  /// Removes all names; mappings stay.
  void unlink();

  /// Backs own memory with pages.
  /// Errors:  as Segment::commit.
  Result<void> commit(Offset at, Bytes size) { return memory_.front().commit(at, size); }
  [[nodiscard]] const std::optional<std::string>& no_huge_pages() const { return memory_.front().no_huge_pages(); }
  /// What a communicator's barriers and records touch.
  Result<void> commit_block(std::uint64_t block);

  [[nodiscard]] std::byte* memory_of(Rank rank) const { return window_.at(rank.index()); }
  /// From the first block on. Of a peer it can only be read.
  [[nodiscard]] std::byte* control_of(Rank rank) const;

 private:
  Mappings(const JobShape& shape, shmem::AddressWindow window) : shape_(shape), window_(std::move(window)) {}
  [[nodiscard]] Offset end_of_words() const;
  Result<void> create_own(Rank rank, const std::string& name, std::uint64_t job);

  JobShape shape_;
  shmem::AddressWindow window_;
  std::vector<shmem::Segment> memory_;  // own first, then the peers' in the order of attach
  std::map<Rank, shmem::Segment> control_;
  Rank own_;
};

}  // namespace shmoe::runtime
