#pragma once
// The policy of the heap over a map of granules, as its words say it: places are probed one by one, free ranges are found
// by scanning, and their ages are kept in a list.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/shmem/heap_support.hpp"

namespace shmoe::shmem::test {

class NaiveHeap {
 public:
  explicit NaiveHeap(std::size_t granules) : owner_(granules, 0) { rescan(); }

  std::optional<std::uint64_t> allocate(std::uint64_t size, std::uint64_t alignment,
                                        Mobility mobility = Mobility::pinned) {
    const std::uint64_t wanted = (size + 63) / 64 * 64;
    const std::pair<std::uint64_t, std::uint64_t>* best = nullptr;
    for (const auto& range : by_age_) {
      if (aligned(range.first, alignment) + wanted > range.first + range.second) continue;
      if (best == nullptr || range.second < best->second) best = &range;
    }
    if (best == nullptr) return std::nullopt;
    const std::uint64_t offset = aligned(best->first, alignment);
    blocks_[++last_owner_] = {wanted / 64, alignment / 64, mobility == Mobility::movable};
    occupy(offset / 64, last_owner_);
    rescan();
    return offset;
  }

  void free(std::uint64_t offset) {
    const int owner = owner_[offset / 64];
    std::replace(owner_.begin(), owner_.end(), owner, 0);
    blocks_.erase(owner);
    rescan();
  }

  void set_mobility(std::uint64_t offset, Mobility mobility) {
    blocks_[owner_[offset / 64]].movable = mobility == Mobility::movable;
  }

  void compact() {
    const std::vector<int> before = owner_;
    const std::uint64_t longest = longest_free();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const int owner = before[i];
      if (owner == 0 || (i > 0 && before[i - 1] == owner) || !blocks_[owner].movable) continue;
      std::replace(owner_.begin(), owner_.end(), owner, 0);
      std::size_t place = 0;
      while (!is_free(place, blocks_[owner].granules)) place += blocks_[owner].alignment;
      occupy(place, owner);
    }
    if (longest_free() <= longest) owner_ = before;
    rescan();
  }

  /// Who has each granule: the number of the allocation, 0 for nobody.
  [[nodiscard]] const std::vector<int>& owners() const { return owner_; }

  [[nodiscard]] Ranges free_ranges() const {
    Ranges sorted = by_age_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  [[nodiscard]] std::uint64_t free_bytes() const {
    return static_cast<std::uint64_t>(std::count(owner_.begin(), owner_.end(), 0)) * 64;
  }

 private:
  struct Block {
    std::uint64_t granules = 0;
    std::uint64_t alignment = 0;  // in granules
    bool movable = false;
  };

  static std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
    return (offset + alignment - 1) / alignment * alignment;
  }

  void occupy(std::size_t place, int owner) {
    for (std::size_t i = 0; i < blocks_[owner].granules; ++i) owner_.at(place + i) = owner;
  }

  [[nodiscard]] bool is_free(std::size_t place, std::size_t granules) const {
    for (std::size_t i = place; i < place + granules; ++i) {
      if (owner_.at(i) != 0) return false;
    }
    return true;
  }

  [[nodiscard]] std::uint64_t longest_free() const {
    std::uint64_t longest = 0;
    for (const auto& [offset, size] : scan()) longest = std::max(longest, size);
    return longest;
  }

  [[nodiscard]] Ranges scan() const {
    Ranges now;
    for (std::size_t i = 0; i < owner_.size(); ++i) {
      if (owner_[i] != 0) continue;
      if (i > 0 && owner_[i - 1] == 0) {
        now.back().second += 64;
      } else {
        now.emplace_back(i * 64, 64);
      }
    }
    return now;
  }

  void rescan() {
    const Ranges now = scan();
    const auto is_in = [](const Ranges& list, const auto& range) {
      return std::find(list.begin(), list.end(), range) != list.end();
    };
    std::erase_if(by_age_, [&](const auto& range) { return !is_in(now, range); });
    for (const auto& range : now) {
      if (!is_in(by_age_, range)) by_age_.push_back(range);
    }
  }

  std::vector<int> owner_;
  std::map<int, Block> blocks_;
  int last_owner_ = 0;
  Ranges by_age_;
};

}  // namespace shmoe::shmem::test
