#include "runtime/link_speeds.hpp"

#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "bootstrap/text.hpp"
#include "shmem/hash.hpp"

namespace shmoe::runtime {
namespace {

constexpr double kMegabyte = 1e6;
constexpr std::int32_t kMostLinkedRanks = 4096;
/// MB/s. A slower link would hold a row of a token up for minutes, and its rank would look as if it hung.
constexpr double kLeastSpeed = 1e-5;
constexpr double kMostSpeed = 1e9;

template <class Number>
std::optional<Number> number_in(const std::string& word) {
  Number value{};
  const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || stopped != word.data() + word.size()) return std::nullopt;
  return value;
}

std::vector<std::string> words_in(std::string line) {
  std::istringstream words(line.substr(0, line.find('#')));
  return {std::istream_iterator<std::string>(words), {}};
}

/// "none", or a number in the limits.
std::optional<double> speed_in(const std::string& word) {
  if (word == "none") return 0.0;
  const auto speed = number_in<double>(word);
  if (!speed || !(*speed >= kLeastSpeed) || *speed > kMostSpeed) return std::nullopt;
  return *speed * kMegabyte;
}

std::optional<LinkSpeeds> ranks_line(const std::vector<std::string>& words) {
  if (words.size() != 2 || words[0] != "ranks") return std::nullopt;
  const auto ranks = number_in<std::int32_t>(words[1]);
  if (!ranks || *ranks < 1 || *ranks > kMostLinkedRanks) return std::nullopt;
  return LinkSpeeds(*ranks);
}

/// One rank, or all for a star; none where the word is neither.
std::vector<Rank> ranks_in(const std::string& word, std::int32_t ranks) {
  const auto one = number_in<std::int32_t>(word);
  std::vector<Rank> found;
  for (Rank rank{0}; rank.value() < ranks; ++rank) {
    if (word == "*" || (one && rank == Rank{*one})) found.push_back(rank);
  }
  return found;
}

bool set_link(LinkSpeeds& links, const std::vector<std::string>& words) {
  if (words.size() != 3) return false;
  const auto speed = speed_in(words[2]);
  const std::vector<Rank> targets = ranks_in(words[1], links.ranks());
  bool any = false;
  for (const Rank from : ranks_in(words[0], links.ranks())) {
    for (const Rank to : targets) {
      if (!speed || from == to) continue;
      links.set(from, to, *speed);
      any = true;
    }
  }
  return any;
}

}  // namespace

Result<LinkSpeeds> LinkSpeeds::parse(std::string_view text, std::string_view name) {
  std::optional<LinkSpeeds> links;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::vector<std::string> words = words_in(line);
    if (words.empty()) continue;
    const bool first = !links;
    if (first) links = ranks_line(words);
    if (!links) {
      return Error{.code = Errc::invalid_argument,
                   .context = fmt::format("{}:{}: {}: write \"ranks N\" first, N from 1 to {}", name, number,
                                          bootstrap::quoted(line), kMostLinkedRanks)};
    }
    if (first || set_link(*links, words)) continue;
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format(
                     "{}:{}: {}: write \"FROM TO SPEED\", two ranks of 0 to {}, or * for all, and MB/s from {} "
                     "to {}, or none; a remark begins with #",
                     name, number, bootstrap::quoted(line), links->ranks() - 1, kLeastSpeed, kMostSpeed)};
  }
  if (links) {
    links->name_ = name;
    return *std::move(links);
  }
  return Error{
      .code = Errc::invalid_argument,
      .context = fmt::format("{}: no links: write \"ranks N\", then \"FROM TO SPEED\" for each slow link", name)};
}

Result<LinkSpeeds> LinkSpeeds::load(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {  // before a pipe is waited for
    return Error{.code = Errc::invalid_argument,
                 .context = fmt::format("{}, which should hold links, is not a regular file: save them to one", path)};
  }
  std::ifstream file(path);
  if (!file) {
    return Error{.code = Errc::io,
                 .context = fmt::format("cannot read {}, the file of the links: give one that can be read", path),
                 .sys = errno};
  }
  return parse(std::string{std::istreambuf_iterator<char>(file), {}}, path);
}

double LinkSpeeds::seconds(Rank from, Rank to, Bytes size) const {
  if (from == to) return 0;
  if (!exists(from, to)) {
    contract_violated("", SourceSite::here(),
                      fmt::format("rank {} writes to rank {}, no link {} -> {} in {}: give it one there, or take an "
                                  "operator, a group or ranks that need none (`shmoe choose --links`)",
                                  from, to, from, to, name_));
  }
  const double speed = speeds_[index(from, to)];
  return speed == kNoLimit ? 0 : static_cast<double>(size.value()) / speed;
}

std::uint64_t LinkSpeeds::digest() const {
  std::uint64_t hash = shmem::fnv1a(shmem::kFnvStart, static_cast<std::uint64_t>(ranks_));
  for (const double speed : speeds_) hash = shmem::fnv1a(hash, std::bit_cast<std::uint64_t>(speed));
  return hash;
}

std::string to_string(const LinkSpeeds& links) {
  std::string text = fmt::format("ranks {}\n", links.ranks());
  for (Rank from{0}; from.value() < links.ranks(); ++from) {
    for (Rank to{0}; to.value() < links.ranks(); ++to) {
      const double speed = links.speeds_[links.index(from, to)];
      if (from == to || speed == LinkSpeeds::kNoLimit) continue;
      text +=
          speed > 0 ? fmt::format("{} {} {}\n", from, to, speed / kMegabyte) : fmt::format("{} {} none\n", from, to);
    }
  }
  return text;
}

}  // namespace shmoe::runtime
