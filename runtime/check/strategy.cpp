#include "runtime/check/strategy.hpp"

#include <algorithm>
#include <optional>

#include "bootstrap/text.hpp"

namespace shmoe::runtime::check {
namespace {

// Priorities of actors lie above, those of the change points from here on, those of pollers below.
constexpr std::uint64_t kChanged = std::uint64_t{1} << 32;

}  // namespace

Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name, std::uint64_t seed) {
  const auto number = [&](std::string_view prefix) -> std::optional<std::uint32_t> {
    if (name.size() != prefix.size() + 1 || !name.starts_with(prefix)) return std::nullopt;
    const char digit = name.back();
    if (digit < '0' || digit > '9') return std::nullopt;
    return static_cast<std::uint32_t>(digit - '0');
  };
  if (name == "random") return std::unique_ptr<Strategy>(std::make_unique<RandomWalk>(seed));
  if (const auto depth = number("pct"); depth && *depth > 0) {
    return std::unique_ptr<Strategy>(std::make_unique<Pct>(static_cast<int>(*depth), seed));
  }
  if (const auto bound = number("delay")) {
    return std::unique_ptr<Strategy>(std::make_unique<Bounded>(Bounded::Price::delays, *bound));
  }
  if (const auto bound = number("preempt")) {
    return std::unique_ptr<Strategy>(std::make_unique<Bounded>(Bounded::Price::preemptions, *bound));
  }
  return Error{.code = Errc::invalid_argument,
               .context = fmt::format(
                   "there is no strategy {}: take random, pct1 to pct9, delay0 to delay9, preempt0 to preempt9, "
                   "or portfolio",
                   bootstrap::quoted(name))};
}

void Pct::begin_run() {
  random_.seed(seed_ + run_++);
  made_ = 0;
  lowest_ = kChanged;
  std::fill(priorities_.begin(), priorities_.end(), 0);
  changes_.clear();
  for (int i = 1; i < depth_; ++i) changes_.push_back(random_() % longest_);
}

std::uint64_t& Pct::priority_of(ActorId actor) {
  if (priorities_.size() <= actor) priorities_.resize(actor + 1);
  std::uint64_t& priority = priorities_[actor];
  if (priority == 0) priority = (std::uint64_t{1} << 33) + random_();
  return priority;
}

std::size_t Pct::pick(const Decision& decision) {
  const std::size_t made = made_++;
  const bool fair = made > 10 * longest_ + 1000;
  if (decision.actors.empty() || fair) return random_() % decision.options;
  if (decision.last_polls) priority_of(decision.actors.back()) = --lowest_;
  std::size_t best = 0;
  for (std::size_t i = 1; i < decision.options; ++i) {
    if (priority_of(decision.actors[i]) > priority_of(decision.actors[best])) best = i;
  }
  const auto change = std::find(changes_.begin(), changes_.end(), made);
  if (change == changes_.end()) return best;
  priority_of(decision.actors[best]) = kChanged + static_cast<std::uint64_t>(change - changes_.begin());
  best = 0;
  for (std::size_t i = 1; i < decision.options; ++i) {
    if (priority_of(decision.actors[i]) > priority_of(decision.actors[best])) best = i;
  }
  return best;
}

bool Pct::end_run(std::size_t decisions) {
  longest_ = std::max(run_ == 1 ? 1 : longest_, decisions);
  return true;
}

void Bounded::begin_run() {
  depth_ = 0;
  spent_ = 0;
}

std::uint32_t Bounded::price(const Branch& branch) const {
  if (price_ == Price::delays || branch.unit) return branch.chosen;
  return branch.free_to_leave || branch.chosen == 0 ? 0 : 1;
}

std::size_t Bounded::pick(const Decision& decision) {
  if (depth_ == path_.size()) {
    path_.push_back({.chosen = 0,
                     .options = static_cast<std::uint32_t>(decision.options),
                     .free_to_leave = !decision.current_can_go_on,
                     .unit = decision.actors.empty()});
  }
  Branch& branch = path_[depth_++];
  if (branch.chosen >= decision.options) branch.chosen = 0;  // the program is not the same any more
  spent_ += price(branch);
  return branch.chosen;
}

bool Bounded::end_run(std::size_t /*decisions*/) {
  path_.resize(depth_);
  while (!path_.empty()) {
    Branch& last = path_.back();
    spent_ -= price(last);
    if (++last.chosen < last.options && spent_ + price(last) <= bound_) return true;
    path_.pop_back();
  }
  return false;
}

void Bounded::start_again() { path_.clear(); }

void Replay::begin_run() {
  made_ = 0;
  next_ = 0;
}

std::size_t Replay::pick(const Decision& decision) {
  const std::uint64_t made = made_++;
  if (next_ == deviations_.size() || deviations_[next_].decision != made) return 0;
  const std::uint32_t option = deviations_[next_++].option;
  return option < decision.options ? option : 0;
}

}  // namespace shmoe::runtime::check
