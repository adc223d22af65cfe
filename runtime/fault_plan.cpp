#include "runtime/fault_plan.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <fmt/ranges.h>

#include "bootstrap/text.hpp"

namespace shmoe::runtime {
namespace {

using bootstrap::parse_whole;

constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

// In the order of FaultCall.
constexpr std::array<std::string_view, 8> kCalls{"put", "get", "signal", "put_signal", "fence", "quiet", "wait", "any"};

enum class Amount : std::uint8_t { none, bytes, rank, shift, times };

struct ActionWord {
  FaultAction action;
  std::string_view text;
  Amount amount;
  std::string_view calls;  // that it is for; empty: all
};

// In the order of FaultAction.
constexpr std::array kActions{
    ActionWord{FaultAction::drop, "drop", Amount::none, "put signal put_signal"},
    ActionWord{FaultAction::late, "late", Amount::none, "wait"},
    ActionWord{FaultAction::skip, "skip", Amount::none, "get fence quiet wait"},
    ActionWord{FaultAction::tear, "tear", Amount::bytes, "put get put_signal"},
    ActionWord{FaultAction::twice, "double", Amount::none, "signal put_signal"},
    ActionWord{FaultAction::redirect, "to", Amount::rank, "put signal put_signal"},
    ActionWord{FaultAction::slot, "slot", Amount::shift, "signal put_signal"},
    ActionWord{FaultAction::value, "value", Amount::shift, "signal put_signal"},
    ActionWord{FaultAction::weak, "weak", Amount::none, "put signal put_signal any"},
    ActionWord{FaultAction::hold, "hold", Amount::none, "put signal put_signal any"},
    ActionWord{FaultAction::delay, "delay", Amount::times, ""},
    ActionWord{FaultAction::stall, "stall", Amount::none, ""},
    ActionWord{FaultAction::stop, "stop", Amount::none, ""},
    ActionWord{FaultAction::kill, "kill", Amount::none, ""},
};

struct TimeUnit {
  std::string_view suffix;
  std::int64_t nanoseconds;
};
// The longest suffix first, since "s" ends them all.
constexpr std::array kTimeUnits{TimeUnit{"us", 1'000}, TimeUnit{"ms", 1'000'000}, TimeUnit{"s", 1'000'000'000}};
constexpr std::int64_t kLongestDelay = 86'400'000'000'000;  // a day

std::string_view text_of(FaultCall call) { return kCalls[static_cast<std::size_t>(call)]; }
const ActionWord& word_of(FaultAction action) { return kActions[static_cast<std::size_t>(action)]; }

bool is_listed(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

std::string listed(std::string_view words) {
  std::string text{words};
  for (std::size_t at = 0; (at = text.find(' ', at)) != std::string::npos; at += 2) text.replace(at, 1, ", ");
  return text;
}

struct Word {
  std::string_view text;
  bool quoted = false;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Splits a line; a colon is a word of its own.
class Words {
 public:
  /// Errors:  invalid_argument: a quotation mark without its partner, or a control character.
  static Result<Words> of(std::string_view line) {
    Words words;
    while (!line.empty() && line.front() != '#') {
      const char c = line.front();
      std::size_t taken = 1;
      if (c == '"') {
        const std::size_t end = line.find('"', 1);
        if (end == std::string_view::npos) return refused(fmt::format("{} has no end", bootstrap::quoted(line)));
        words.words_.push_back({line.substr(1, end - 1), true});
        taken = end + 1;
      } else if (!is_blank(c)) {
        while (c != ':' && taken < line.size() && !ends_word(line[taken])) ++taken;
        words.words_.push_back({line.substr(0, taken)});
      }
      line.remove_prefix(taken);
    }
    for (const Word& word : words.words_) {
      if (std::ranges::any_of(word.text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }))
        return refused(fmt::format("{} has a control character", bootstrap::quoted(word.text)));
    }
    return words;
  }

  [[nodiscard]] bool empty() const { return at_ == words_.size(); }
  [[nodiscard]] Word peek() const { return empty() ? Word{} : words_[at_]; }
  Word take() { return empty() ? Word{} : words_[at_++]; }
  /// The next word, if it is this one.
  bool take(std::string_view word) {
    const bool there = !empty() && !peek().quoted && peek().text == word;
    at_ += there ? 1 : 0;
    return there;
  }

  static Error refused(std::string text) { return Error{.code = Errc::invalid_argument, .context = std::move(text)}; }

 private:
  static bool ends_word(char c) { return is_blank(c) || c == ':' || c == '#' || c == '"'; }

  std::vector<Word> words_;
  std::size_t at_ = 0;
};

std::string shown(Word word) {
  return word.text.empty() && !word.quoted ? "the end of the line" : bootstrap::quoted(word.text);
}

/// "'x' stands where the rank should be: a number from 0 on"
Error misplaced(Word word, std::string_view what, std::string_view takes) {
  return Words::refused(fmt::format("{} stands where {} should be: {}", shown(word), what, takes));
}

template <class Target>
Result<void> take_number(Words& words, std::string_view what, Target& target) {
  const Word word = words.take();
  const auto number = word.quoted ? std::nullopt : parse_whole<std::int32_t>(word.text);
  if (!number || *number < 0) return misplaced(word, what, "a number from 0 to 2147483647");
  target = Target{*number};
  return {};
}

Result<void> take_count(Words& words, std::string_view what, std::uint64_t& target) {
  const Word word = words.take();
  const auto number = word.quoted ? std::nullopt : parse_whole<std::uint64_t>(word.text);
  if (!number || *number == 0) return misplaced(word, what, "a number from 1 on");
  target = *number;
  return {};
}

Result<void> take_name(Words& words, std::string_view what, std::optional<std::string>& target) {
  const Word word = words.take();
  if (word.text.empty() || (!word.quoted && word.text == ":"))
    return misplaced(word, what, "a name, in quotation marks if it has a blank");
  target = std::string{word.text};
  return {};
}

/// "3", "*" or "2-4"
Result<void> take_occurrence(Words& words, FaultPoint& at) {
  const Word word = words.take();
  if (!word.quoted && word.text == "*") return {};
  const std::size_t dash = word.text.find('-');
  const auto first = parse_whole<std::uint64_t>(word.text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_whole<std::uint64_t>(word.text.substr(dash + 1));
  if (word.quoted || !first || !last || *first == 0 || *last < *first || *last == kNoEnd)
    return misplaced(word, "which of the calls is meant", "a number from 1 on, two such as 2-4, or * for all");
  at.first = *first;
  at.last = *last;
  return {};
}

Result<void> take_call(Words& words, FaultPoint& at) {
  const Word word = words.take();
  const auto* const call = std::ranges::find(kCalls, word.text);
  if (word.quoted || call == kCalls.end())
    return misplaced(word, "a call", fmt::format("one of {}", fmt::join(kCalls, ", ")));
  at.call = static_cast<FaultCall>(call - kCalls.begin());
  if (Result<void> taken = take_occurrence(words, at); !taken) return taken;
  if (words.empty() || (!words.peek().quoted && words.peek().text == ":")) return {};
  if (!is_listed("signal put_signal wait", text_of(at.call)))
    return misplaced(words.peek(), "the colon",
                     fmt::format("{} has no slot; signal, put_signal and wait have", text_of(at.call)));
  return take_name(words, "a family of slots", at.family);
}

/// [rank N] [core N] [in NAME [launch N]] CALL OCCURRENCE [FAMILY]
Result<FaultPoint> take_point(Words& words) {
  FaultPoint at;
  Result<void> taken;
  if (words.take("rank")) taken = take_number(words, "the rank", at.rank.emplace());
  if (taken && words.take("core")) taken = take_number(words, "the core", at.core.emplace());
  if (taken && words.take("in")) {
    taken = take_name(words, "an operator", at.op);
    if (taken && words.take("launch")) taken = take_count(words, "the number of the launch", at.launch.emplace());
  }
  if (taken) taken = take_call(words, at);
  if (!taken) return std::move(taken).error();
  return at;
}

std::optional<shmem::Time> time_of(std::string_view number, const TimeUnit& unit) {
  const auto count = parse_whole<std::int64_t>(number);
  if (!count || *count < 0 || *count > kLongestDelay / unit.nanoseconds) return std::nullopt;
  return shmem::Time{*count * unit.nanoseconds};
}

/// "200ms" or "0-5ms"
Result<void> take_times(Words& words, Fault& fault) {
  const Word word = words.take();
  const auto* const unit = std::ranges::find_if(
      kTimeUnits, [&](const TimeUnit& candidate) { return word.text.ends_with(candidate.suffix); });
  std::optional<shmem::Time> shortest;
  std::optional<shmem::Time> longest;
  if (!word.quoted && unit != kTimeUnits.end()) {
    const std::string_view numbers = word.text.substr(0, word.text.size() - unit->suffix.size());
    const std::size_t dash = numbers.find('-');
    shortest = time_of(numbers.substr(0, dash), *unit);
    longest = dash == std::string_view::npos ? shortest : time_of(numbers.substr(dash + 1), *unit);
  }
  if (!shortest || !longest || *longest < *shortest)
    return misplaced(word, "a time", "such as 200ms or 0-5ms, in us, ms or s, up to a day");
  fault.shortest = *shortest;
  fault.longest = *longest;
  return {};
}

/// "+1" or "-256"
Result<void> take_shift(Words& words, Fault& fault) {
  const Word word = words.take();
  const bool plus = word.text.starts_with('+');
  const auto number = parse_whole<std::int64_t>(word.text.substr(plus ? 1 : 0));
  if (word.quoted || !number || *number == 0 || (plus ? *number < 0 : *number > 0))
    return misplaced(word, "a difference", "such as +1 or -256");
  fault.amount = *number;
  return {};
}

Result<void> take_amount(Words& words, Amount amount, Fault& fault) {
  std::int32_t number = 0;
  Result<void> taken;
  switch (amount) {
    case Amount::none: return {};
    case Amount::shift: return take_shift(words, fault);
    case Amount::times: return take_times(words, fault);
    case Amount::bytes: taken = take_number(words, "the number of bytes", number); break;
    case Amount::rank:
      if (!words.take("rank")) return misplaced(words.peek(), "the receiver", "to rank and a number");
      taken = take_number(words, "the rank", number);
      break;
  }
  fault.amount = number;
  return taken;
}

Result<void> take_action(Words& words, Fault& fault) {
  const Word word = words.take();
  const auto* const action = std::ranges::find(kActions, word.text, &ActionWord::text);
  if (word.quoted || action == kActions.end()) {
    std::vector<std::string_view> texts;
    texts.reserve(kActions.size());
    for (const ActionWord& known : kActions) texts.push_back(known.text);
    return misplaced(word, "what goes wrong", fmt::format("one of {}", fmt::join(texts, ", ")));
  }
  const std::string_view call = text_of(fault.at.call);
  if (!action->calls.empty() && !is_listed(action->calls, call))
    return Words::refused(fmt::format("{} is for {}, not for {}", word.text, listed(action->calls), call));
  fault.action = action->action;
  return take_amount(words, action->amount, fault);
}

Result<Fault> take_fault(Words& words) {
  Result<FaultPoint> at = take_point(words);
  if (!at) return std::move(at).error();
  Fault fault;
  fault.at = *std::move(at);
  if (!words.take(":")) return misplaced(words.peek(), "a colon", "and behind it what goes wrong");
  if (Result<void> taken = take_action(words, fault); !taken) return std::move(taken).error();
  return fault;
}

Result<void> parse_line(std::string_view line, std::size_t number, FaultPlan& plan) {
  Result<Words> words = Words::of(line);
  if (!words) return std::move(words).error();
  if (words->empty()) return {};
  if (words->take("seed")) {
    const Word word = words->take();
    const auto seed = word.quoted ? std::nullopt : parse_whole<std::uint64_t>(word.text);
    if (!seed) return misplaced(word, "the seed", "a number from 0 to 18446744073709551615");
    plan.seed = *seed;
  } else {
    Result<Fault> fault = take_fault(*words);
    if (!fault) return std::move(fault).error();
    fault->line = number;
    plan.faults.push_back(*std::move(fault));
  }
  if (!words->empty()) return misplaced(words->peek(), "the end of the line", "one fault a line");
  return {};
}

std::string written(std::string_view name) {
  const bool plain = std::ranges::none_of(name, [](char c) { return is_blank(c) || c == ':' || c == '#'; });
  return plain ? std::string{name} : fmt::format("\"{}\"", name);
}

std::string occurrence_of(const FaultPoint& at) {
  if (at.last == kNoEnd) return "*";
  return at.first == at.last ? fmt::to_string(at.first) : fmt::format("{}-{}", at.first, at.last);
}

std::string written(shmem::Time shortest, shmem::Time longest) {
  const auto whole = [&](const TimeUnit& unit) {
    return shortest.count() % unit.nanoseconds == 0 && longest.count() % unit.nanoseconds == 0;
  };
  const auto unit = std::find_if(kTimeUnits.rbegin(), kTimeUnits.rend(), whole);
  const std::string last = fmt::format("{}{}", longest.count() / unit->nanoseconds, unit->suffix);
  return shortest == longest ? last : fmt::format("{}-{}", shortest.count() / unit->nanoseconds, last);
}

std::string amount_of(const Fault& fault) {
  switch (word_of(fault.action).amount) {
    case Amount::none: return {};
    case Amount::bytes: return fmt::format(" {}", fault.amount);
    case Amount::rank: return fmt::format(" rank {}", fault.amount);
    case Amount::shift: return fmt::format(" {:+}", fault.amount);
    case Amount::times: return " " + written(fault.shortest, fault.longest);
  }
  return {};
}

/// What of a fault the job does not have.
std::optional<std::string> missing(const Fault& fault, const FaultWorld& world) {
  const FaultPoint& at = fault.at;
  const std::int64_t receiver = fault.action == FaultAction::redirect ? fault.amount : 0;
  if ((at.rank && at.rank->value() >= world.ranks) || receiver >= world.ranks) {
    const std::int64_t rank = receiver >= world.ranks ? receiver : at.rank->value();
    return fmt::format("rank {} is none of the {} ranks", rank, world.ranks);
  }
  if (at.core && at.core->value() >= world.cores)
    return fmt::format("core {} is none of the {} cores of a rank", *at.core, world.cores);
  std::vector<std::string> families;
  for (const shmem::SlotFamily& family : world.slots.families()) {
    if (family.name != world.slots.abort().name) families.push_back(family.name);  // whoever gives up meets no fault
  }
  if (at.family && std::ranges::count(families, *at.family) == 0)
    return fmt::format("no slots are called {}: there are {}", bootstrap::quoted(*at.family),
                       fmt::join(families, ", "));
  const auto slots = static_cast<std::int64_t>(world.slots.size());
  if (fault.action == FaultAction::slot && (fault.amount >= slots || fault.amount <= -slots))
    return fmt::format("slot {:+} leads nowhere: the {} slots of a rank are at most {} apart", fault.amount, slots,
                       slots - 1);
  const bool of_process = fault.action == FaultAction::stop || fault.action == FaultAction::kill;
  if (world.threads && of_process) {
    return fmt::format("{} would end all ranks, which are threads of one process: run them as processes",
                       word_of(fault.action).text);
  }
  return std::nullopt;
}

}  // namespace

Result<FaultPlan> FaultPlan::parse(std::string_view text, std::string name) {
  FaultPlan plan;
  plan.name = std::move(name);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (Result<void> line = parse_line(text.substr(0, end), number, plan); !line)
      return std::move(line).error().within(fmt::format("{}:{}", plan.name, number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return plan;
}

Result<FaultPlan> FaultPlan::load(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))  // before a pipe is waited for
    return Words::refused(fmt::format("{}, which should hold faults, is not a regular file", bootstrap::quoted(path)));
  std::ifstream file{path};
  if (!file) {
    return Error{
        .code = Errc::not_found,
        .context = fmt::format("cannot read faults from {}: give a file that can be read", bootstrap::quoted(path)),
        .sys = errno};
  }
  return parse(std::string{std::istreambuf_iterator<char>(file), {}}, path);
}

Result<void> FaultPlan::check(const FaultWorld& world) const {
  for (const Fault& fault : faults) {
    if (const auto lacks = missing(fault, world))
      return Words::refused(fmt::format("{}:{}: {}", name, fault.line, *lacks));
  }
  return {};
}

std::string to_string(const Fault& fault) {
  const FaultPoint& at = fault.at;
  std::string text;
  if (at.rank) text += fmt::format("rank {} ", *at.rank);
  if (at.core) text += fmt::format("core {} ", *at.core);
  if (at.op) text += fmt::format("in {} ", written(*at.op));
  if (at.launch) text += fmt::format("launch {} ", *at.launch);
  text += fmt::format("{} {}", text_of(at.call), occurrence_of(at));
  if (at.family) text += " " + written(*at.family);
  return fmt::format("{}: {}{}", text, word_of(fault.action).text, amount_of(fault));
}

std::string to_string(const FaultPlan& plan) {
  std::string text = fmt::format("seed {}\n", plan.seed);
  for (const Fault& fault : plan.faults) text += to_string(fault) + '\n';
  return text;
}

}  // namespace shmoe::runtime
