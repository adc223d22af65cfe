#pragma once
// What a process that is no rank of a job holds open of one that is. Included by sources only.

#include <cstdint>
#include <map>
#include <memory>

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/diagnosis/job_view.hpp"

namespace shmoe::runtime {

/// Pages of an object or, without one, zeros.
class MappedPages {
 public:
  MappedPages(int file, Bytes size, Offset from, int protection) : size_(size.value()) {
    const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED | MAP_NORESERVE;
    place_ = mmap(nullptr, size_, protection, flags, file, static_cast<off_t>(from.value()));
  }
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;
  ~MappedPages() {
    if (is_there()) munmap(place_, size_);
  }
  [[nodiscard]] bool is_there() const { return place_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(place_); }

 private:
  void* place_;
  std::uint64_t size_;
};

/// Where what a rank shares can be read: in its own two objects, or in a saved file.
struct RankFiles {
  explicit RankFiles(RankProcess found) : process(found) {}
  RankFiles(const RankFiles&) = delete;
  RankFiles& operator=(const RankFiles&) = delete;
  ~RankFiles() {
    if (control_file >= 0) close(control_file);
    if (memory_file >= 0) close(memory_file);
  }

  RankProcess process;
  int control_file = -1;
  int memory_file = -1;
  std::uint64_t control_at = 0;
  std::map<CommunicatorId, std::uint64_t> memory_at;  // of a saved one
  ProcessState saved_state;
  std::unique_ptr<MappedPages> control;
  std::map<CommunicatorId, std::unique_ptr<MappedPages>> memory;  // what lies before the ipc window of a block
};

}  // namespace shmoe::runtime
