#include "runtime/check/explain.hpp"

#include <algorithm>
#include <utility>

#include "runtime/check/explore.hpp"
#include "runtime/check/links.hpp"

namespace shmoe::runtime::check {
namespace {

/// Shown of a failure that is neither a wait nor a race.
constexpr std::size_t kLastSteps = 8;

constexpr std::size_t kNone = Link::kNone;
using Kind = Step::Kind;
using Place = std::pair<Rank, Slot>;

bool is_on(const Step& step, Place place) {
  const bool of_slot = step.kind == Kind::signal || step.kind == Kind::signal_landed || step.kind == Kind::wait ||
                       step.kind == Kind::seen;
  return of_slot && step.rank == place.first && step.slot == place.second;
}

bool same_site(const SourceSite& a, const SourceSite& b) {
  return a.line == b.line && std::string_view{a.file} == b.file;
}

class Chooser {
 public:
  Chooser(const Run& run, const shmem::SlotPlan& slots, const Shape& shape)
      : story_(run.story), verdict_(run.verdict), slots_(slots), shape_(shape), keep_(run.story.size()) {}

  std::vector<std::size_t> chosen() {
    if (!verdict_.stuck.empty()) {
      choose_waits();
    } else if (verdict_.conflict) {
      choose_race(*verdict_.conflict);
    } else {
      const std::size_t end = before_abort();
      for (std::size_t i = end - std::min(end, kLastSteps); i < end; ++i) keep(i);
    }
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < keep_.size(); ++i) {
      if (keep_[i]) indices.push_back(i);
    }
    return indices;
  }

 private:
  void keep(std::size_t i) {
    if (i < keep_.size()) keep_[i] = true;
  }
  [[nodiscard]] std::size_t core_of(Rank rank, Core core) const {
    return rank.index() * static_cast<std::size_t>(shape_.cores) + core.index();
  }
  /// The last step before `end` that `holds`.
  template <class Predicate>
  [[nodiscard]] std::size_t last(std::size_t end, Predicate holds) const {
    for (std::size_t i = std::min(end, story_.size()); i > 0; --i) {
      if (holds(story_[i - 1])) return i - 1;
    }
    return kNone;
  }

  /// What a rank does to tell the others that it gives up explains nothing.
  [[nodiscard]] std::size_t before_abort() const {
    for (std::size_t i = 0; i < story_.size(); ++i) {
      if (story_[i].kind != Kind::signal || &slots_.family_of(story_[i].slot) != &slots_.abort()) continue;
      const SourceSite site = story_[i].site;
      while (i > 0 && same_site(story_[i - 1].site, site)) --i;
      return i;
    }
    return story_.size();
  }

  void keep_slot(Place place, std::size_t from) {
    for (std::size_t i = from; i < story_.size(); ++i) {
      if (is_on(story_[i], place)) keep(i);
    }
  }
  /// What the core has seen there before is another round's.
  [[nodiscard]] std::size_t after_last_seen(const StuckWait& wait) const {
    const std::size_t core = core_of(wait.rank, wait.core);
    const Place place{wait.where, wait.slot};
    const std::size_t seen =
        last(story_.size(), [&](const Step& s) { return s.kind == Kind::seen && s.core == core && is_on(s, place); });
    return seen == kNone ? 0 : seen + 1;
  }

  void choose_waits() {
    const StuckWait& root = verdict_.stuck.front();
    const std::size_t waits = verdict_.kind == VerdictKind::deadlock_cycle ? verdict_.stuck.size() : 1;
    for (std::size_t i = 0; i < waits; ++i) {
      const StuckWait& wait = verdict_.stuck[i];
      keep_slot({wait.where, wait.slot}, after_last_seen(wait));
    }
    if (verdict_.kind == VerdictKind::overrun) keep_answer(root);
    if (!verdict_.astray) return;
    const Place astray{verdict_.astray->where, verdict_.astray->slot};
    const std::size_t sent =
        last(story_.size(), [&](const Step& s) { return s.kind == Kind::signal && is_on(s, astray); });
    if (sent != kNone) keep_slot(astray, sent);
  }

  /// The word that goes the other way in the same buffer: it let the writer go on.
  void keep_answer(const StuckWait& root) {
    const shmem::SlotFamily& family = slots_.family_of(root.slot);
    if (family.writers != shmem::Writers::source_rank || root.writers.size() != 1) return;
    const auto dense = static_cast<std::uint32_t>(root.slot.index()) - family.first;
    const Place answer{root.writers.front(),
                       family.at(dense / (family.sources * family.events), root.rank, dense % family.events)};
    const std::size_t core = core_of(root.rank, root.core);
    for (std::size_t i = after_last_seen(root); i < story_.size(); ++i) {
      const bool sends = story_[i].kind == Kind::signal && story_[i].core == core;
      if (sends && is_on(story_[i], answer)) return keep_slot(answer, i);
    }
  }

  [[nodiscard]] bool is_side(const Step& step, const Conflict& conflict, const Conflict::Side& side) const {
    const std::uint64_t end = conflict.at.value() + conflict.size.value();
    return step.kind == (side.writes ? Kind::put : Kind::get) && step.core == core_of(side.rank, side.core) &&
           same_site(step.site, side.site) && step.rank == conflict.owner && step.at.value() < end &&
           conflict.at.value() < step.at.value() + step.size.value();
  }
  [[nodiscard]] std::size_t find_side(const Conflict& conflict, const Conflict::Side& side, std::size_t end) const {
    return last(end, [&](const Step& step) { return is_side(step, conflict, side); });
  }

  void choose_race(const Conflict& conflict) {
    const std::size_t second = find_side(conflict, conflict.second, story_.size());
    const std::size_t end = std::min(second, story_.size());
    const std::size_t first = find_side(conflict, conflict.first, end);
    for (const std::size_t access : {first, second}) {
      keep(access);
      if (access != kNone) keep(landing_of(access));
    }
    const std::size_t begin = first == kNone ? 0 : first;
    const std::size_t from = core_of(conflict.first.rank, conflict.first.core);
    const std::size_t to = core_of(conflict.second.rank, conflict.second.core);
    const std::vector<Link> chain =
        links_between(story_, shape_, {.from = from, .first = begin, .to = to, .last = end});
    if (chain.empty()) return keep_last_seen(to, end);
    for (const Link& link : chain) {
      for (const std::size_t i : {link.signal, link.landing, link.wait, link.seen}) keep(i);
    }
    for (std::size_t i = begin; i < chain.back().signal; ++i) {
      const bool orders = story_[i].kind == Kind::fence || story_[i].kind == Kind::quiet;
      if (orders && story_[i].core == from) keep(i);
    }
  }

  /// Nothing links the two: what the second core had waited for instead.
  void keep_last_seen(std::size_t core, std::size_t end) {
    const std::size_t seen = last(end, [&](const Step& s) { return s.kind == Kind::seen && s.core == core; });
    if (seen == kNone) return;
    keep(seen);
    const Place place{story_[seen].rank, story_[seen].slot};
    const std::uint64_t value = story_[seen].value;
    keep(last(seen, [&](const Step& s) { return s.kind == Kind::signal && s.value == value && is_on(s, place); }));
  }

  /// Writes of one core to one place land in their order.
  [[nodiscard]] std::size_t landing_of(std::size_t put) const {
    const Step& sent = story_[put];
    if (sent.kind != Kind::put) return kNone;
    const auto alike = [&](const Step& s) { return s.core == sent.core && s.rank == sent.rank && s.at == sent.at; };
    std::size_t before = 0;
    for (std::size_t i = 0; i < put; ++i) before += story_[i].kind == Kind::put && alike(story_[i]) ? 1 : 0;
    for (std::size_t i = 0; i < story_.size(); ++i) {
      if (story_[i].kind != Kind::put_landed || !alike(story_[i])) continue;
      if (before-- == 0) return i;
    }
    return kNone;
  }

  const Story& story_;
  const Verdict& verdict_;
  const shmem::SlotPlan& slots_;
  const Shape& shape_;
  std::vector<bool> keep_;
};

/// Whether the second of two steps that follow each other in the telling only completes the first.
bool completes(const Step& first, const Step& second) {
  if (first.core != second.core || first.rank != second.rank) return false;
  const bool one_slot = first.slot == second.slot;
  return (first.kind == Kind::signal && second.kind == Kind::signal_landed && one_slot) ||
         (first.kind == Kind::put && second.kind == Kind::put_landed && first.at == second.at) ||
         (first.kind == Kind::wait && second.kind == Kind::seen && one_slot);
}

std::string ending(const Step& first, const Step& second) {
  if (second.kind == Kind::seen) return fmt::format(" and sees {:#x}", second.value);
  if (second.kind == Kind::put_landed || first.value == second.value) return ", which lands";
  return fmt::format(", which lands: the word is {:#x}", second.value);
}

std::string lines(const Run& run, const shmem::SlotPlan& slots, const Shape& shape) {
  const std::vector<std::size_t> chosen = steps_that_matter(run, slots, shape);
  std::string text;
  std::size_t number = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Step& step = run.story[chosen[i]];
    text += fmt::format("\n{:>3}  {}", ++number, to_string(step, slots, shape.cores));
    if (i + 1 == chosen.size() || !completes(step, run.story[chosen[i + 1]])) continue;
    text += ending(step, run.story[chosen[++i]]);
  }
  return text;
}

}  // namespace

std::vector<std::size_t> steps_that_matter(const Run& run, const shmem::SlotPlan& slots, const Shape& shape) {
  return Chooser(run, slots, shape).chosen();
}

std::string explain(World& world, const Body& body, const Run& failure) {
  const Run run = Explorer(world, body).replay(failure.deviations, true);
  const Verdict& verdict = run.verdict.clean() ? failure.verdict : run.verdict;
  const std::string sentence = fmt::format("{}: {}", name_of(verdict.kind), verdict.text);
  return run.verdict.clean() ? sentence : sentence + lines(run, world.slots(), world.shape());
}

}  // namespace shmoe::runtime::check
