#include "shmem/team.hpp"

#include "shmem/futex.hpp"

namespace shmoe::shmem {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel sleeps on the word itself");

bool Doorbell::has_rung(std::uint32_t count) const {
  return static_cast<std::int32_t>(rings_.load(std::memory_order_seq_cst) - count) >= 0;
}

void Doorbell::ring() {
  // Sequentially consistent against the sleeper's {sleepers + 1, look again}: one of the two sees the other.
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    futex_wake(reinterpret_cast<std::uint32_t*>(&rings_), Sharing::threads);
  }
}

void Doorbell::wait(std::uint32_t count) {
  const auto ready = [&] { return has_rung(count); };
  if (spin(crowd_, ready) || yield(Crowd{}, ready)) return;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (true) {
    const std::uint32_t rings = rings_.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(rings - count) >= 0) break;
    futex_sleep(reinterpret_cast<std::uint32_t*>(&rings_), rings);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

void Team::begin(std::uint32_t members) {
  ++works_;
  inside_.store(members, std::memory_order_relaxed);
  begun_.ring();
}

void Team::join() { over_.wait(works_); }

void Team::leave() {
  if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) over_.ring();
}

}  // namespace shmoe::shmem
