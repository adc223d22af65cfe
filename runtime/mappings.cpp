#include "runtime/mappings.hpp"

#include <algorithm>
#include <utility>

#include "runtime/control_header.hpp"

namespace shmoe::runtime {
namespace {

using shmem::AddressWindow;
using shmem::Segment;

shmem::ControlHeader& header_in(const Segment& control) {
  return *reinterpret_cast<shmem::ControlHeader*>(control.data());
}

/// A job that declares slots in the ipc window will use it.
bool uses_window(const JobShape& shape) {
  return std::ranges::any_of(shape.slots.families(), [&](const shmem::SlotFamily& family) {
    return family.base >= shape.map.ipc_data.at && family.base < shape.map.ipc_data.end();
  });
}

}  // namespace

Result<std::shared_ptr<Mappings>> Mappings::create(const JobShape& shape, Rank rank, const std::string& name,
                                                   std::uint64_t job) {
  Result<AddressWindow> window = AddressWindow::reserve(static_cast<std::size_t>(shape.ranks), shape.memory());
  if (!window) return std::move(window).error();
  std::shared_ptr<Mappings> mappings(new Mappings(shape, *std::move(window)));
  if (Result<void> created = mappings->create_own(rank, name, job); !created) return std::move(created).error();
  return mappings;
}

Result<void> Mappings::create_own(Rank rank, const std::string& name, std::uint64_t job) {
  Result<Segment> memory = Segment::create(name + ".mem", shape_.memory(), window_.claim(rank.index()));
  if (!memory) return std::move(memory).error();
  Result<Segment> control = Segment::create(name + ".ctl", shape_.control_memory());
  if (!control) return std::move(control).error();
  if (Result<void> pages = control->commit(Offset{0}, Bytes{shmem::kControlHeaderBytes}); !pages) return pages;
  write_header(header_in(*control), shape_, rank, job);
  own_ = rank;
  memory_.push_back(*std::move(memory));
  control_.emplace(rank, *std::move(control));
  return commit_block(0);
}

Result<void> Mappings::attach(Rank peer, const std::string& name) {
  const std::string whose = fmt::format("rank {}", peer);
  Result<Segment> memory =
      Segment::attach(name + ".mem", shape_.memory(), Segment::Mode::read_write, window_.claim(peer.index()));
  if (!memory) return std::move(memory).error().within(whose);
  Result<Segment> control = Segment::attach(name + ".ctl", shape_.control_memory(), Segment::Mode::read_only);
  if (!control) return std::move(control).error().within(whose);
  if (Result<void> header = check_header(header_in(*control), shape_, peer); !header) return header;
  memory_.push_back(*std::move(memory));
  control_.emplace(peer, *std::move(control));
  return {};
}

void Mappings::unlink() {
  for (Segment& segment : memory_) segment.unlink();
  control_.at(own_).unlink();
}

std::byte* Mappings::control_of(Rank rank) const { return control_.at(rank).data() + shmem::kControlHeaderBytes; }

/// Where the words end that operators use: the low-latency region is backed where slots are declared in it.
Offset Mappings::end_of_words() const {
  const shmem::BlockMap& map = shape_.map;
  const auto& families = shape_.slots.families();
  const bool low_latency = std::any_of(families.begin(), families.end(),
                                       [&](const auto& family) { return family.base >= map.low_latency.at; });
  return low_latency ? std::max(map.roll_calls.end(), map.low_latency.end()) : map.roll_calls.end();
}

Result<void> Mappings::commit_block(std::uint64_t block) {
  const Offset memory = Offset{0} + shape_.map.size * block;
  memory_.front().spread(memory, shape_.map.meta_window(), shape_.ranks);  // everybody touches it on every peer
  const Bytes meta = end_of_words() - Offset{0};
  if (Result<void> pages = commit(memory, meta); !pages) return pages;
  if (uses_window(shape_)) {
    const shmem::Region& window = shape_.map.ipc_data;
    if (Result<void> pages = commit(memory + (window.at - Offset{0}), window.size); !pages) return pages;
  }
  const Offset control = Offset{shmem::kControlHeaderBytes} + shape_.control.size() * block;
  return control_.at(own_).commit(control, shape_.control.size());
}

}  // namespace shmoe::runtime
