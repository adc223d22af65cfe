#include "shmem/copy_calibration.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/mman.h>

#include "shmem/addresses.hpp"
#include "shmem/fence.hpp"
#include "shmem/huge_pages.hpp"
#include "shmem/layout.hpp"

namespace shmoe::shmem {
namespace {

constexpr std::size_t kRow = std::size_t{16} * 1024;
constexpr std::size_t kPlaces = 8;  // of each source row

Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// Pages of the kind that segments have: huge ones where they can be had.
class SharedPages {
 public:
  explicit SharedPages(std::size_t size) : size_(size), addresses_(Addresses::reserve(size)) {
    if (!addresses_) return;
    const std::span<std::byte> areas{addresses_->data(), addresses_->size()};
    constexpr int kFlags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
    exist_ = mmap(areas.data(), areas.size(), PROT_READ | PROT_WRITE, kFlags, -1, 0) != MAP_FAILED;
    if (!exist_) return;
    for (std::size_t at = 0; at < areas.size(); at += kPageGranule) areas[at] = std::byte{0};
    (void)collapse_pages(areas);
  }
  [[nodiscard]] bool exist() const { return exist_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {addresses_->data(), size_}; }

 private:
  std::size_t size_;
  std::optional<Addresses> addresses_;
  bool exist_ = false;
};

/// Keeps the calling thread on one CPU, then gives it back the CPUs it had.
class OnCpu {
 public:
  explicit OnCpu(std::optional<int> cpu) {
    CPU_ZERO(&before_);
    if (!cpu || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(*cpu, &one);
    moved_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;
  ~OnCpu() {
    if (moved_) sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_{};
  bool moved_ = false;
};

/// The first CPU that this thread may use, and the last that it could: where caches are not shared by all, not by these.
/// A launcher may have bound this rank to one CPU; whoever reads its rows runs elsewhere.
struct TwoCpus {
  std::optional<int> first, last;

  TwoCpus() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    first = ends_of(allowed).first;
    last = ends_of(possible(allowed)).last;
    if (first == last) first = ends_of(possible(allowed)).first;
  }
  [[nodiscard]] bool are_two() const { return first && first != last; }

 private:
  struct Ends {
    std::optional<int> first, last;
  };
  static Ends ends_of(const cpu_set_t& set) {
    Ends ends;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &set)) continue;
      if (!ends.first) ends.first = cpu;
      ends.last = cpu;
    }
    return ends;
  }
  /// What the system's set of this process holds.
  static cpu_set_t possible(const cpu_set_t& allowed) {
    cpu_set_t set;
    std::memset(&set, 0xFF, sizeof set);
    cpu_set_t granted = allowed;
    if (sched_setaffinity(0, sizeof set, &set) == 0) sched_getaffinity(0, sizeof granted, &granted);
    sched_setaffinity(0, sizeof allowed, &allowed);
    return granted;
  }
};

/// A word of each cache line.
std::uint64_t read_lines(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 64) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    sum += word;
  }
  return sum;
}

/// Reads the bytes each time it is asked to, on a CPU of its own where there is one.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const TwoCpus& cpus) : bytes_(bytes) {
    if (!cpus.are_two()) return;
    try {
      thread_ = std::thread([this, cpu = cpus.last] { serve(cpu); });
    } catch (const std::system_error&) {  // no thread to be had: read() reads itself
    }
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (!thread_.joinable()) return;
    turn_.store(kEnd, std::memory_order_release);
    thread_.join();
  }

  void read() {
    if (!thread_.joinable()) {
      sum_ += read_lines(bytes_);
      return;
    }
    turn_.store(kRead, std::memory_order_release);
    while (turn_.load(std::memory_order_acquire) != kDone) std::this_thread::yield();
  }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }

 private:
  static constexpr int kDone = 0;
  static constexpr int kRead = 1;
  static constexpr int kEnd = 2;

  void serve(std::optional<int> cpu) {
    const OnCpu here(cpu);
    while (true) {
      const int turn = turn_.load(std::memory_order_acquire);
      if (turn == kEnd) return;
      if (turn == kRead) {
        sum_ += read_lines(bytes_);
        turn_.store(kDone, std::memory_order_release);
      } else {
        std::this_thread::yield();
      }
    }
  }

  std::span<const std::byte> bytes_;
  std::atomic<int> turn_{kDone};
  std::uint64_t sum_ = 0;  // keeps the reads
  std::thread thread_;     // last: it uses what is above
};

/// Each source row goes to several places, as a token goes to several experts.
void copy_all(std::span<std::byte> to, std::span<const std::byte> source, CopyKind kind) {
  for (std::size_t at = 0; at < to.size(); at += kRow) {
    copy_row(to.subspan(at, kRow), source.subspan(at / kPlaces / kRow * kRow, kRow), kind);
  }
  store_fence();
}

}  // namespace

CopyKind CopyTimes::fastest() const {
  CopyKind fastest = CopyKind::cached;
  for (const CopyKind kind : {CopyKind::streaming, CopyKind::movsb}) {
    if (of(kind) > Time{0} && of(kind) * 10 < of(fastest) * 9) fastest = kind;
  }
  return fastest;
}

CopyTimes calibrate_copy(std::size_t bytes, Time limit) {
  const Time end = now() + limit;
  CopyTimes times;
  const SharedPages pages(round_up(bytes, kPlaces * kRow));
  if (!pages.exist()) return times;
  const std::vector<std::byte> source(pages.bytes().size() / kPlaces, std::byte{1});
  const TwoCpus cpus;
  Reader reader(pages.bytes(), cpus);
  const OnCpu here(cpus.are_two() ? cpus.first : std::nullopt);
  copy_all(pages.bytes(), source, CopyKind::cached);  // first touch of the pages, and the other CPU wakes up
  reader.read();
  do {
    for (const CopyKind kind : kCopyKinds) {
      const Time start = now();
      copy_all(pages.bytes(), source, kind);
      reader.read();
      Time& best = times.best[static_cast<std::size_t>(kind)];
      const Time taken = now() - start;
      best = best == Time{0} ? taken : std::min(best, taken);
    }
  } while (now() < end);
  return times;
}

}  // namespace shmoe::shmem
