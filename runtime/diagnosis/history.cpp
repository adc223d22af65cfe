#include "runtime/diagnosis/history.hpp"

#include <algorithm>
#include <utility>

namespace shmoe::runtime {
namespace {

using shmem::Event;
using shmem::EventKind;

/// An operator is entered once more where it takes a round, and left once.
class CoreReader {
 public:
  CoreReader(const CoreSight& core, RankHistory& history) : core_(&core), history_(&history) {}

  void read(const std::vector<Event>& events) {
    const auto first = history_->launches.size();
    const auto first_signal = history_->signals.size();
    for (const Event& event : events) read(event);
    number(first, first_signal);
  }

 private:
  void read(const Event& event) {
    switch (event.kind) {
      case EventKind::enter: return enter(event);
      case EventKind::leave: inside_ = false; return;
      case EventKind::set:
      case EventKind::add: return sent(event);
      default: return;
    }
  }

  void enter(const Event& event) {
    const bool begins = !std::exchange(inside_, true);
    if (!begins) return history_->launches.back().rounds.push_back(event.round);
    history_->launches.push_back({.core = core_->core, .op = event.text.data()});
    ++entered_;
  }

  /// Counted from the oldest launch in the ring; of what came before nobody knows the operator.
  void sent(const Event& event) {
    history_->signals.push_back({.writer = core_->rank,
                                 .core = core_->core,
                                 .slot = event.slot,
                                 .first = event.rank,
                                 .destinations = event.count,
                                 .value = event.value,
                                 .op = entered_ == 0 ? std::string() : history_->launches.back().op,
                                 .launch = entered_,
                                 .at = shmem::Time{event.time_ns},
                                 .site = fmt::format("{}:{}", event.text.data(), event.line)});
  }

  /// The newest launch is the one that the record counts.
  void number(std::size_t first, std::size_t first_signal) {
    const std::uint64_t before = core_->launch - std::min(core_->launch, entered_);
    for (std::size_t i = first; i < history_->launches.size(); ++i) {
      history_->launches[i].number = before + (i - first) + 1;
    }
    for (std::size_t i = first_signal; i < history_->signals.size(); ++i) history_->signals[i].launch += before;
  }

  const CoreSight* core_;
  RankHistory* history_;
  bool inside_ = false;
  std::uint64_t entered_ = 0;
};

}  // namespace

bool SentSignal::reaches(Rank owner) const {
  if (destinations == 1) return owner == first;
  // Ranks in a row, and not the sender.
  const std::int32_t left_out = writer > first && writer.value() <= first.value() + destinations ? 1 : 0;
  return owner >= first && owner.value() < first.value() + destinations + left_out && owner != writer;
}

RankHistory history_of(const Sight& sight, Rank rank) {
  RankHistory history;
  if (!sight.events) return history;
  for (const CoreSight& core : sight.of(rank)) CoreReader(core, history).read(sight.events(rank, core.core));
  for (const CoreLaunch& launch : history.launches) {
    if (launch.core == Core{0}) history.operators.push_back(launch.op);
  }
  return history;
}

}  // namespace shmoe::runtime
