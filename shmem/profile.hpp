#pragma once
// A profile names each protocol choice that differs between our corrected protocol and the published kernels.

#include <cstdint>
#include <optional>
#include <string_view>

namespace shmoe {

/// How a wait compares a flag word with the expected one.
enum class Compare : std::uint8_t { equal, at_least, not_equal, at_most };

/// As a programmer writes it.
constexpr const char* sign_of(Compare compare) {
  switch (compare) {
    case Compare::equal: return "==";
    case Compare::at_least: return ">=";
    case Compare::not_equal: return "!=";
    case Compare::at_most: return "<=";
  }
  return "?";
}

/// sequence56_error8: a monotone count and the error a rank raises in this handshake.
/// magic32_value32: the published word, uint32(magic) << 32 | value.
enum class FlagWord : std::uint8_t { sequence56_error8, magic32_value32 };

/// Which of the two ping-pong buffers a barrier uses.
enum class BarrierBuffer : std::uint8_t { by_count, by_magic, by_magic_and_sequence };

enum class ProfileId : std::uint8_t { safe, faithful_2026_07, faithful_2026_08 };

struct Profile {
  ProfileId id = ProfileId::safe;
  FlagWord flag_word = FlagWord::sequence56_error8;
  Compare compare = Compare::at_least;
  BarrierBuffer barrier_buffer = BarrierBuffer::by_count;
  /// Calls, inputs and capacities are compared across ranks before any row is written.
  bool handshake = true;
  /// The low-latency region lies over the user data and the magic slots, as published.
  bool low_latency_overlays = false;
  /// Cores that sat out a launch take over the rounds of core 0 before they run again; as published they stay behind,
  /// and the next full launch hangs.
  bool idle_cores_catch_up = true;

  constexpr bool operator==(const Profile&) const = default;
};

inline constexpr Profile kSafe{};
inline constexpr Profile kFaithful202607{ProfileId::faithful_2026_07,
                                         FlagWord::magic32_value32,
                                         Compare::equal,
                                         BarrierBuffer::by_magic,
                                         false,
                                         true,
                                         false};
inline constexpr Profile kFaithful202608{ProfileId::faithful_2026_08,
                                         FlagWord::magic32_value32,
                                         Compare::equal,
                                         BarrierBuffer::by_magic_and_sequence,
                                         false,
                                         true,
                                         false};
inline constexpr Profile kProfiles[] = {kSafe, kFaithful202607, kFaithful202608};

constexpr std::string_view name_of(ProfileId id) {
  switch (id) {
    case ProfileId::safe: return "safe";
    case ProfileId::faithful_2026_07: return "faithful-2026-07";
    case ProfileId::faithful_2026_08: return "faithful-2026-08";
  }
  return "unknown";
}

constexpr std::optional<Profile> find_profile(std::string_view name) {
  for (const Profile& profile : kProfiles) {
    if (name_of(profile.id) == name) return profile;
  }
  return std::nullopt;
}

}  // namespace shmoe
