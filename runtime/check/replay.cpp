#include "runtime/check/replay.hpp"

#include <limits>
#include <optional>

#include "bootstrap/text.hpp"

namespace shmoe::runtime::check {
namespace {

constexpr std::string_view kVersion = "shmoe1:";
constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::uint64_t kMore = 16;

/// Numbers in groups of four bits, the low ones first; the fifth bit of a digit says that more follow.
void append(std::string& text, std::uint64_t number) {
  do {
    const std::uint64_t rest = number / kMore;
    text += kDigits[number % kMore + (rest != 0 ? kMore : 0)];
    number = rest;
  } while (number != 0);
}

std::optional<std::uint64_t> take(std::string_view& text) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 4) {
    const std::size_t digit = kDigits.find(text.front());
    if (digit == std::string_view::npos) return std::nullopt;
    text.remove_prefix(1);
    number |= (digit % kMore) << shift;
    if (digit < kMore) return number;
  }
  return std::nullopt;
}

Error refused(std::string_view text, std::string_view why) {
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("{} is no replay string: {}; expected shmoe1:PROGRAM:WORLD:CHOICES as printed by "
                                      "shmoe check run",
                                      bootstrap::quoted(text), why)};
}

}  // namespace

std::string to_text(const Recording& recording) {
  std::string text = fmt::format("{}{}:{}:", kVersion, recording.program, recording.world);
  std::uint64_t at = 0;
  for (const Deviation& deviation : recording.deviations) {
    append(text, deviation.decision - at);
    append(text, deviation.option);
    at = deviation.decision + 1;
  }
  return text;
}

Result<Recording> parse_recording(std::string_view text) {
  std::string_view rest = text;
  if (!rest.starts_with("shmoe")) return refused(text, "it does not begin with shmoe1:");
  if (!rest.starts_with(kVersion)) return refused(text, "another version wrote it");
  rest.remove_prefix(kVersion.size());
  const std::size_t program = rest.find(':');
  const std::size_t world = program == std::string_view::npos ? program : rest.find(':', program + 1);
  if (world == std::string_view::npos) return refused(text, "a part is missing");
  Recording recording{.program = std::string(rest.substr(0, program)),
                      .world = std::string(rest.substr(program + 1, world - program - 1)),
                      .deviations = {}};
  rest.remove_prefix(world + 1);
  std::uint64_t at = 0;
  while (!rest.empty()) {
    const auto gap = take(rest);
    const auto option = gap ? take(rest) : std::nullopt;
    const bool fits = option && *gap < std::numeric_limits<std::uint64_t>::max() - at;
    if (!fits || *option == 0 || *option > 0xFFFF'FFFFU) return refused(text, "its choices do not parse");
    recording.deviations.push_back({at + *gap, static_cast<std::uint32_t>(*option)});
    at += *gap + 1;
  }
  return recording;
}

}  // namespace shmoe::runtime::check
