#include "runtime/check/program.hpp"

#include <charconv>

#include "bootstrap/text.hpp"

namespace shmoe::runtime::check {
namespace {

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

template <class Number>
bool take_number(std::string_view& text, std::string_view prefix, Number& number) {
  if (!take(text, prefix)) return false;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return fault == std::errc{};
}

}  // namespace

std::string to_text(const Setting& setting) {
  std::string text = fmt::format("r{}c{}n{}", setting.ranks, setting.cores, setting.rounds);
  if (setting.profile != kSafe) text += fmt::format("-{}", name_of(setting.profile.id));
  if (!setting.views) text += "-noviews";
  if (!setting.weak) text += "-strong";
  if (setting.first_round != 0) text += fmt::format("-from{}", setting.first_round);
  return text;
}

Result<Setting> parse_setting(std::string_view text) {
  Setting setting;
  std::string_view rest = text;
  bool good = take_number(rest, "r", setting.ranks) && take_number(rest, "c", setting.cores) &&
              take_number(rest, "n", setting.rounds);
  for (const Profile& profile : kProfiles) {
    if (take(rest, fmt::format("-{}", name_of(profile.id)))) setting.profile = profile;
  }
  if (take(rest, "-noviews")) setting.views = false;
  if (take(rest, "-strong")) setting.weak = false;
  if (rest.starts_with("-from")) good = good && take_number(rest, "-from", setting.first_round);
  good = good && rest.empty() && setting.ranks >= 1 && setting.cores >= 1 && setting.rounds >= 1 &&
         setting.rounds <= kMostRounds;
  if (good) return setting;
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format("{} is no world: expected rRANKScCORESnROUNDS, as r2c1n3, and at most {} rounds",
                                      bootstrap::quoted(text), kMostRounds)};
}

Shape shape_of(const Program& program, const Setting& setting) {
  Shape shape{.ranks = setting.ranks,
              .cores = setting.cores,
              .profile = setting.profile,
              .views = setting.views,
              .weak = setting.weak,
              .first_round = setting.first_round};
  if (program.shape) program.shape(setting, shape);
  return shape;
}

}  // namespace shmoe::runtime::check
