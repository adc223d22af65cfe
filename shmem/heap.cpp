#include "shmem/heap.hpp"

#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "shmem/hash.hpp"

namespace shmoe::shmem {
namespace {

Error no_block(Offset offset) {
  return Error{Errc::invalid_argument,
               fmt::format("no live block starts at offset {}: it was freed before, or never allocated: free what "
                           "allocate returned, once",
                           offset),
               {}};
}

}  // namespace

Heap::Heap(Offset begin, Bytes size) : capacity_(size.value() / kGranule.value() * kGranule.value()) {
  SHMOE_EXPECTS(begin.value() % kGranule.value() == 0, "the heap begins at {}, between two granules", begin);
  SHMOE_EXPECTS(size.value() <= std::numeric_limits<std::uint64_t>::max() - begin.value(),
                "a heap of {} bytes at {} passes 2^64", size, begin);
  record(Call::create, {begin.value(), capacity_.value()});
  if (capacity_.value() == 0) return;
  first_ = new_node(begin.value(), capacity_.value());
  insert_free(first_);
}

Result<Offset> Heap::allocate(Bytes size, Bytes alignment, Mobility mobility) {
  if (size.value() == 0) return Error{Errc::invalid_argument, "a block of 0 bytes; ask for at least one", {}};
  if (!std::has_single_bit(alignment.value()) || alignment < kGranule) {
    return Error{Errc::invalid_argument,
                 fmt::format("alignment {} is no power of two from {} on: take one", alignment, kGranule),
                 {}};
  }
  if (size > capacity_) return no_fit(size, alignment);  // also keeps the rounding below from passing 2^64
  const std::uint64_t rounded = round_up(size.value(), kGranule.value());
  auto [id, padding] = best_fit(rounded, alignment.value());
  if (id == kNone) return no_fit(size, alignment);

  remove_free(id);
  if (padding != 0) {
    const Id front = id;
    id = split(front, padding);
    insert_free(front);
  }
  if (nodes_[id].size > rounded) insert_free(split(id, rounded));
  const Offset offset{nodes_[id].offset};
  live_.emplace(offset.value(), id);
  used_ = used_ + Bytes{rounded};
  nodes_[id].alignment = alignment.value();
  nodes_[id].mobility = mobility;
  movable_ += mobility == Mobility::movable;
  record(Call::allocate, {offset.value(), size.value(), alignment.value(), static_cast<std::uint64_t>(mobility)});
  return offset;
}

Bytes Heap::size_of(Offset offset) const {
  const auto found = live_.find(offset.value());
  return found == live_.end() ? Bytes{0} : Bytes{nodes_[found->second].size};
}

Result<void> Heap::free(Offset offset) {
  const auto found = live_.find(offset.value());
  if (found == live_.end()) return no_block(offset);
  Id id = found->second;
  live_.erase(found);
  const Bytes size{nodes_[id].size};
  used_ = Bytes{used_.value() - size.value()};
  movable_ -= nodes_[id].mobility == Mobility::movable;
  record(Call::free, {offset.value(), size.value()});

  const Id next = nodes_[id].next;
  if (next != kNone && nodes_[next].free_since != 0) {
    remove_free(next);
    absorb_next(id);
  }
  const Id before = nodes_[id].before;
  if (before != kNone && nodes_[before].free_since != 0) {
    remove_free(before);
    absorb_next(before);
    id = before;
  }
  insert_free(id);
  return {};
}

Result<void> Heap::set_mobility(Offset offset, Mobility mobility) {
  const auto found = live_.find(offset.value());
  if (found == live_.end()) return no_block(offset);
  const Mobility before = std::exchange(nodes_[found->second].mobility, mobility);
  movable_ -= before == Mobility::movable;
  movable_ += mobility == Mobility::movable;
  record(Call::set_mobility, {offset.value(), static_cast<std::uint64_t>(mobility)});
  return {};
}

Heap::Fit Heap::best_fit(std::uint64_t size, std::uint64_t alignment) const {
  for (auto range = by_size_.lower_bound({size, 0, 0}); range != by_size_.end(); ++range) {
    const std::uint64_t padding = padding_to(nodes_[range->id].offset, alignment);
    if (padding <= range->size - size) return {range->id, padding};
  }
  return {};
}

Error Heap::no_fit(Bytes size, Bytes alignment) const {
  const bool enough = size <= free_bytes();
  const std::string advice =
      !enough         ? "free blocks first, or start with a larger heap"
      : movable_ != 0 ? fmt::format("compact() joins free ranges: {} of {} blocks are movable", movable_, live_blocks())
                      : "free neighbouring blocks, or allocate large blocks before small ones";
  return Error{enough ? Errc::fragmented : Errc::out_of_memory,
               fmt::format("asked for {} bytes aligned to {}; {} of {} are free, the largest free range has {}; {}",
                           size, alignment, free_bytes(), capacity_, largest_free(), advice),
               {}};
}

Heap::Id Heap::new_node(std::uint64_t offset, std::uint64_t size) {
  if (spare_.empty()) {
    nodes_.push_back({.offset = offset, .size = size});
    return static_cast<Id>(nodes_.size() - 1);
  }
  const Id id = spare_.back();
  spare_.pop_back();
  nodes_[id] = {.offset = offset, .size = size};
  return id;
}

/// Leaves `size` bytes in this node and returns a new one, right behind it, with the rest.
Heap::Id Heap::split(Id id, std::uint64_t size) {
  const Id rest = new_node(nodes_[id].offset + size, nodes_[id].size - size);
  nodes_[rest].before = id;
  nodes_[rest].next = nodes_[id].next;
  if (nodes_[rest].next != kNone) nodes_[nodes_[rest].next].before = rest;
  nodes_[id].next = rest;
  nodes_[id].size = size;
  return rest;
}

void Heap::absorb_next(Id id) {
  const Id gone = nodes_[id].next;
  nodes_[id].size += nodes_[gone].size;
  nodes_[id].next = nodes_[gone].next;
  if (nodes_[id].next != kNone) nodes_[nodes_[id].next].before = id;
  spare_.push_back(gone);
}

void Heap::insert_free(Id id) {
  Node& node = nodes_[id];
  node.free_since = ++clock_;
  const FreeRange range{node.size, node.free_since, id};
  if (spare_range_) {
    spare_range_.value() = range;
    node.range = by_size_.insert(std::move(spare_range_)).position;
  } else {
    node.range = by_size_.insert(range).first;
  }
}

void Heap::remove_free(Id id) {
  spare_range_ = by_size_.extract(nodes_[id].range);
  nodes_[id].free_since = 0;
}

void Heap::record(Call call, std::initializer_list<std::uint64_t> arguments) {
  history_ = scattered(history_ + static_cast<std::uint64_t>(call));
  for (const std::uint64_t word : arguments) history_ = scattered(history_ + word);
}

}  // namespace shmoe::shmem
