#include "runtime/memory_watch.hpp"

namespace shmoe::runtime {
namespace {

using shmem::WatchedMemory;

constexpr const char* kMemory = ".mem";
constexpr const char* kControl = ".ctl";

WatchedMemory watched_by(const Job& job) {
  WatchedMemory watched{.self = job.rank};
  for (std::byte* memory : job.memory) {
    watched.last_words.push_back(reinterpret_cast<shmem::LastWords*>(memory + job.shape.map.last_words().value()));
  }
  return watched;
}

}  // namespace

shmem::BusErrorWatch watch_objects(const Job& job) {
  WatchedMemory watched = watched_by(job);
  for (Rank rank{0}; rank.value() < job.shape.ranks; ++rank) {
    watched.places.push_back(
        {.at = job.memory[rank.index()], .size = job.shape.memory(), .owner = rank, .object = kMemory});
    watched.places.push_back({.at = job.control[rank.index()] - shmem::kControlHeaderBytes,
                              .size = job.shape.control_memory(),
                              .owner = rank,
                              .object = kControl});
  }
  return shmem::BusErrorWatch(std::move(watched));
}

shmem::BusErrorWatch watch_communicator(const Job& job, CommunicatorId id, const shmem::Peers& peers,
                                        std::span<const Rank> members) {
  WatchedMemory watched = watched_by(job);
  WatchedMemory::GiveUp give_up{.text = peers.mem[peers.rank.index()] + peers.map->abort_text().value(),
                                .word = abort_word(peers.rank, Errc::system)};
  for (Rank member{0}; member.value() < peers.size(); ++member) {
    watched.places.push_back({.at = peers.meta->of(member),
                              .size = peers.meta->size(),
                              .owner = members[member.index()],
                              .object = kMemory,
                              .from = Offset{0} + peers.map->size * id.index()});
    give_up.words.push_back(peers.place(member, peers.slots->abort().at(0, Rank{0})));
  }
  watched.give_up = std::move(give_up);
  return shmem::BusErrorWatch(std::move(watched));
}

}  // namespace shmoe::runtime
