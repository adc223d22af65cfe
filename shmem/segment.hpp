#pragma once
// One POSIX shared memory object: created by its owner, mapped by its peers, gone by name as soon as all have mapped it.
//
// Names are `shmoe.<job>.<random>.<rank>.mem|ctl`, mode 0600. The owner holds an flock on its object while it lives, so
// what a dead owner left can be told from what is in use.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shmem/addresses.hpp"
#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::shmem {

inline constexpr std::string_view kSegmentPrefix = "shmoe.";

/// `count` places, 2-MiB aligned, each followed by a guard gap that is never mapped. Segments in it are unmapped with it,
/// all by one call.
class AddressWindow {
 public:
  /// Errors:  system where the address space is limited (ulimit -v).
  static Result<AddressWindow> reserve(std::size_t count, Bytes size);

  [[nodiscard]] std::byte* at(std::size_t index) const { return addresses_.data() + index * stride_; }
  /// For one segment to be mapped at.
  [[nodiscard]] std::byte* claim(std::size_t index);

 private:
  AddressWindow(Addresses addresses, std::size_t count)
      : addresses_(std::move(addresses)), stride_(addresses_.size() / count), claimed_(count) {}
  Addresses addresses_;
  std::size_t stride_;  // a place and its gap
  std::vector<bool> claimed_;
};

class Segment {
 public:
  enum class Mode : std::uint8_t { read_only, read_write };

  /// A fresh, sparse object, all zeros, mapped at `at`, a claimed place of a window that lives longer (or anywhere). No
  /// page is committed yet.
  /// Errors:  already_exists; system.
  static Result<Segment> create(const std::string& name, Bytes size, std::byte* at = nullptr);
  /// Errors:  not_found; permission (another owner, mode or kind of file); mismatch (another size, both figures); system.
  static Result<Segment> attach(const std::string& name, Bytes size, Mode mode, std::byte* at = nullptr);

  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) noexcept;
  ~Segment();

  [[nodiscard]] std::byte* data() const;
  [[nodiscard]] Bytes size() const;

  /// Backs [from, from + size) with pages, huge ones where they fit and can be had, so that touching them cannot fault
  /// for lack of space.
  /// Errors:  outside the object: broken contract; out_of_memory with what was asked for, what is free, and what to do;
  ///          system.
  Result<void> commit(Offset from, Bytes size);
  /// Huge pages for the whole areas of a range of which a part will be committed: more memory, so only where so many
  /// owners that do it take a small part of what /dev/shm has left.
  void spread(Offset from, Bytes size, std::int32_t owners);
  /// Why what was committed has small pages where it could have huge ones; nothing where it has.
  [[nodiscard]] const std::optional<std::string>& no_huge_pages() const;

  /// Removes the name; mappings stay. Harmless when repeated.
  void unlink();

 private:
  struct State;
  explicit Segment(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What is in /dev/shm under our prefix.
struct CleanReport {
  std::vector<std::string> removed;  // this user's, the owner is dead
  std::vector<std::string> live;     // in use, or just being created
  std::vector<std::string> foreign;  // another user's
  std::vector<std::string> odd;      // no segment: a folder, a pipe, a link, a file with another mode
};

/// Removes what dead owners left behind.
/// Errors:  system where /dev/shm cannot be read.
Result<CleanReport> clean_stale(bool dry_run);

}  // namespace shmoe::shmem
