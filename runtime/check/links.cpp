#include "runtime/check/links.hpp"

#include <deque>
#include <map>
#include <tuple>
#include <utility>

namespace shmoe::runtime::check {
namespace {

using Kind = Step::Kind;

/// Goes through the steps and keeps, for every core, the chain that has reached it.
class Follower {
 public:
  Follower(const Story& story, const Shape& shape, const Span& span)
      : story_(story),
        shape_(shape),
        span_(span),
        reach_(static_cast<std::size_t>(shape.ranks * shape.cores), Link::kNone) {}

  std::vector<Link> chain() {
    for (std::size_t i = 0; i < span_.last; ++i) follow(i);
    std::vector<Link> found;
    for (std::size_t link = reach_[span_.to]; link != Link::kNone; link = links_[link].before)
      found.push_back(links_[link]);
    return found;
  }

 private:
  using Place = std::pair<Rank, Slot>;
  using Way = std::tuple<std::size_t, Rank, Slot>;  // core, slot

  void follow(std::size_t i) {
    const Step& step = story_[i];
    const Place place{step.rank, step.slot};
    const Way way{step.core, step.rank, step.slot};
    switch (step.kind) {
      case Kind::signal: return send(i, place, way);
      case Kind::signal_landed: return land(i, place, way);
      case Kind::wait: waits_[way] = i; return;
      case Kind::seen: return see(i, place, way);
      default: return;
    }
  }

  void send(std::size_t i, Place place, const Way& way) {
    const std::size_t core = story_[i].core;
    const bool own = core / static_cast<std::size_t>(shape_.cores) == place.first.index();
    Link link{.signal = i, .length = 0};
    if (core == span_.from) {
      link.length = i > span_.first ? 1 : 0;
    } else if (reach_[core] != Link::kNone) {
      link.before = reach_[core];
      link.length = links_[link.before].length + 1;
    }
    if (own || !shape_.weak) {
      hold(place, link);
    } else {
      on_the_way_[way].push_back(link);
    }
  }

  /// Signals of one core to one slot land in their order.
  void land(std::size_t i, Place place, const Way& way) {
    auto& queue = on_the_way_[way];
    if (queue.empty()) return;
    Link link = queue.front();
    queue.pop_front();
    link.landing = i;
    hold(place, link);
  }

  void hold(Place place, const Link& link) {
    if (link.length > 0) held_[place] = link;
  }

  void see(std::size_t i, Place place, const Way& way) {
    const auto wait = waits_.extract(way);
    const auto held = held_.find(place);
    const std::size_t core = story_[i].core;
    if (held == held_.end() || core == span_.from) return;
    if (reach_[core] != Link::kNone && links_[reach_[core]].length < held->second.length) return;
    Link link = held->second;
    link.wait = wait.empty() ? Link::kNone : wait.mapped();
    link.seen = i;
    links_.push_back(link);
    reach_[core] = links_.size() - 1;
  }

  const Story& story_;
  const Shape& shape_;
  const Span& span_;
  std::vector<Link> links_;
  std::vector<std::size_t> reach_;  // by core: the last link to it
  std::map<Way, std::deque<Link>> on_the_way_;
  std::map<Way, std::size_t> waits_;
  std::map<Place, Link> held_;
};

}  // namespace

std::vector<Link> links_between(const Story& story, const Shape& shape, const Span& span) {
  return Follower(story, shape, span).chain();
}

}  // namespace shmoe::runtime::check
