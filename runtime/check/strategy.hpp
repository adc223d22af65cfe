#pragma once
// Who goes next. A run is a pure function of the program and of the choices made here.
//
//   option 0 is always the default: the actor that ran last goes on, else the next one in a circle; of the units of a
//   channel the oldest lands. Every other choice is a deviation, and a run is written down as its list of deviations.

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shmem/result.hpp"

namespace shmoe::runtime::check {

/// A core or a channel.
using ActorId = std::uint32_t;

struct Decision {
  std::span<const ActorId> actors;  // who could go on; empty where a unit of a channel is chosen
  std::size_t options = 0;          // at least 2
  bool current_can_go_on = false;   // option 0 is the actor that ran last
  bool last_polls = false;          // the last option is an actor that has just looked in vain
};

class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  virtual void begin_run() = 0;
  [[nodiscard]] virtual std::size_t pick(const Decision& decision) = 0;
  /// The run is over; false where nothing is left to explore. `decisions` were made.
  virtual bool end_run(std::size_t decisions) = 0;
  /// Slots that were thought to be of one actor are not: what was explored does not count.
  virtual void start_again() {}
};

/// The n-th decision took another option than the default.
struct Deviation {
  std::uint64_t decision = 0;
  std::uint32_t option = 0;
  bool operator==(const Deviation&) const = default;
};
using Deviations = std::vector<Deviation>;

/// Each option with the same probability.
class RandomWalk final : public Strategy {
 public:
  explicit RandomWalk(std::uint64_t seed) : seed_(seed) {}
  void begin_run() override { random_.seed(seed_ + run_++); }
  std::size_t pick(const Decision& decision) override { return random_() % decision.options; }
  bool end_run(std::size_t /*decisions*/) override { return true; }

 private:
  std::uint64_t seed_;
  std::uint64_t run_ = 0;
  std::mt19937 random_;
};

/// Random priorities; the highest goes on, and drops to the bottom at depth-1 random places. After a budget of decisions
/// it chooses at random, so that unfair priorities do not look like a hang.
/// Source:  Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010; fair fallback as in Coyote
class Pct final : public Strategy {
 public:
  Pct(int depth, std::uint64_t seed) : depth_(depth), seed_(seed) {}
  void begin_run() override;
  std::size_t pick(const Decision& decision) override;
  bool end_run(std::size_t decisions) override;

 private:
  std::uint64_t& priority_of(ActorId actor);

  int depth_;
  std::uint64_t seed_;
  std::uint64_t run_ = 0;
  std::mt19937 random_;
  std::size_t longest_ = 32;  // decisions of the longest run so far
  std::size_t made_ = 0;
  std::uint64_t lowest_ = 0;
  std::vector<std::uint64_t> priorities_;  // by actor; 0: not drawn yet
  std::vector<std::size_t> changes_;
};

/// Every schedule whose price is within a bound, one after the other.
///   delays        option i costs i
///   preemptions   leaving an actor that could go on costs 1; units cost their number
class Bounded final : public Strategy {
 public:
  enum class Price : std::uint8_t { delays, preemptions };
  Bounded(Price price, std::uint32_t bound) : price_(price), bound_(bound) {}
  void begin_run() override;
  std::size_t pick(const Decision& decision) override;
  bool end_run(std::size_t decisions) override;
  void start_again() override;

 private:
  struct Branch {
    std::uint32_t chosen = 0;
    std::uint32_t options = 0;
    bool free_to_leave = false;  // every option costs nothing
    bool unit = false;
  };
  [[nodiscard]] std::uint32_t price(const Branch& branch) const;

  Price price_;
  std::uint32_t bound_;
  std::vector<Branch> path_;
  std::size_t depth_ = 0;
  std::uint32_t spent_ = 0;
};

/// A strategy by name: "random", "pct1" to "pct9", "delay0" to "delay9", "preempt0" to "preempt9".
/// Errors:  invalid_argument naming the strategies there are
Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name, std::uint64_t seed);

/// The deviations given, the default everywhere else.
class Replay final : public Strategy {
 public:
  explicit Replay(Deviations deviations) : deviations_(std::move(deviations)) {}
  void begin_run() override;
  std::size_t pick(const Decision& decision) override;
  bool end_run(std::size_t /*decisions*/) override { return false; }

 private:
  Deviations deviations_;
  std::uint64_t made_ = 0;
  std::size_t next_ = 0;
};

}  // namespace shmoe::runtime::check
