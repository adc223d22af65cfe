#pragma once
// The base of fabrics that change a few calls of another one.

#include <memory>
#include <utility>

#include "shmem/fabric.hpp"

namespace shmoe::shmem {

/// Passes everything on.
/// Order:   as the wrapped fabric.
/// Errors:  as the wrapped fabric.
class PassingFabric : public Fabric {
 public:
  explicit PassingFabric(Fabric& next) : next_(&next) {}
  explicit PassingFabric(std::unique_ptr<Fabric> next) : owned_(std::move(next)), next_(owned_.get()) {}

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
  void signal(Rank dst, Slot slot, SignalOp op, std::uint64_t value, SourceSite site) override {
    next_->signal(dst, slot, op, value, site);
  }
  void put_signal(Rank dst, Offset to, std::span<const std::byte> from, Slot slot, SignalOp op, std::uint64_t value,
                  SourceSite site) override {
    next_->put_signal(dst, to, from, slot, op, value, site);
  }
  void fence(Rank dst, SourceSite site) override { next_->fence(dst, site); }
  void quiet(SourceSite site) override { next_->quiet(site); }
  Result<Arrival> wait(const WaitSpec& spec, SourceSite site) override { return next_->wait(spec, site); }
  std::optional<Arrival> test(const WaitSpec& spec, SourceSite site) override { return next_->test(spec, site); }
  void touch(Access access, Rank owner, Offset at, Bytes size, SourceSite site) override {
    next_->touch(access, owner, at, size, site);
  }
  void actor(const ActorEvent& event, SourceSite site) override { next_->actor(event, site); }
  Time now() override { return next_->now(); }

 protected:
  [[nodiscard]] Fabric& next() { return *next_; }

 private:
  std::unique_ptr<Fabric> owned_;  // nothing where somebody else owns it
  Fabric* next_;
};

}  // namespace shmoe::shmem
