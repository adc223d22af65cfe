#pragma once
// Whether the other processes of a job are still there.

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

/// Of an id card: the namespace in which its pid counts.
inline constexpr const char* kPidsFact = "pid namespace";

/// "pid:[4026531836]" of this process.
///
/// Errors:  system: /proc does not tell
Result<std::string> pid_namespace();

/// Pids of another namespace are nobody's here, or somebody else's.
///
/// Errors:  invalid_argument, the same on every rank, names the ranks that are not in the namespace of rank 0
Result<void> check_pid_namespaces(std::span<const bootstrap::IdCard> cards);

/// A pidfd a process that was ever asked after sees its end at once, also where nobody has waited for it, and is cheap to
/// ask. Where there are none (Linux before 5.3, no file left), its entry in /proc is read each time.
class ProcessWatch {
 public:
  explicit ProcessWatch(std::span<const bootstrap::IdCard> cards);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  /// "pid 4711 has ended", or nothing while it lives. Any thread may ask.
  std::optional<std::string> gone(Rank rank);

 private:
  struct Seat {
    bootstrap::Owner owner;
    int pidfd = -1;
    bool asked = false;
    bool ended = false;
  };
  static bool has_ended(Seat& seat);

  std::mutex mutex_;
  std::vector<Seat> seats_;
};

}  // namespace shmoe::runtime
