#pragma once
// Programs of a few operations, and everything they may end with by rules W1 to W9 of runtime/check/memory.hpp: written
// from the rules alone and by going through all states, so that it shares nothing with the checker it is compared with.

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

namespace shmoe::runtime::check::test {

/// Each rank has two rows and two words; word 0 is set, word 1 is added to.
struct SmallOp {
  enum class Kind { put, put_signal, fence, signal, wait_at_least, wait_equal, wait_differs, test, get, quiet };
  Kind kind = Kind::quiet;
  int rank = 0;  // destination or source; a wait looks at its own rank
  int row = 0;
  int word = 0;
  int value = 0;
};
using SmallProgram = std::vector<std::vector<SmallOp>>;  // by core, those of rank 0 first

inline std::string to_text(const SmallProgram& program) {
  constexpr const char* kNames[] = {
      "put", "put_signal", "fence", "signal", "wait>=", "wait==", "wait!=", "test", "get", "quiet"};
  std::string text;
  for (const auto& core : program) {
    text += "\n core:";
    for (const SmallOp& op : core) {
      text += fmt::format(" {}(rank {} row {} word {} value {})", kNames[static_cast<int>(op.kind)], op.rank, op.row,
                          op.word, op.value);
    }
  }
  return text;
}

inline SmallProgram random_program(std::mt19937_64& random, std::size_t cores, std::size_t most_ops) {
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
  using Kind = SmallOp::Kind;
  constexpr Kind kKinds[] = {Kind::put,   Kind::put,   Kind::put,        Kind::put_signal,   Kind::put_signal,
                             Kind::fence, Kind::fence, Kind::signal,     Kind::signal,       Kind::wait_at_least,
                             Kind::test,  Kind::test,  Kind::wait_equal, Kind::wait_differs, Kind::get,
                             Kind::get,   Kind::get,   Kind::get,        Kind::quiet};
  SmallProgram program(cores);
  int written = 0;
  for (std::size_t core = 0; core < cores; ++core) {
    const int me = core < cores / 2 ? 0 : 1;
    for (int left = 2 + below(most_ops - 1); left > 0; --left) {
      SmallOp op{.kind = kKinds[random() % std::size(kKinds)], .row = below(2), .word = below(2), .value = 1};
      // Every write has a value of its own.
      if (op.kind == Kind::put || op.kind == Kind::put_signal || op.kind == Kind::signal) op.value = ++written;
      // Three of four go to the other rank.
      op.rank = below(4) == 0 ? me : 1 - me;
      program[core].push_back(op);
    }
  }
  return program;
}

/// What one execution ends with, as text: what each operation has seen, '-' where it saw nothing; the memory; who is stuck.
inline std::string small_outcome(const std::vector<std::vector<int>>& seen, const std::array<int, 8>& memory,
                                 bool stuck) {
  std::string text;
  for (const auto& core : seen) {
    for (const int value : core) text += value < 0 ? std::string("-") : std::to_string(value);
    text += ' ';
  }
  return text + fmt::format("{}{}", fmt::join(memory, ""), stuck ? " stuck" : "");
}

class SmallModel {
 public:
  explicit SmallModel(const SmallProgram& program) : program_(program) {}

  /// None where there are more states than that.
  std::set<std::string> outcomes(std::size_t most_states) {
    State start;
    start.next.resize(program_.size());
    start.half.resize(program_.size());
    start.ways.resize(program_.size() * 2);
    for (const auto& core : program_) start.seen.emplace_back(core.size(), -1);
    std::vector<State> open{start};
    while (!open.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      if (!known_.insert(key(state)).second) continue;
      if (known_.size() > most_states) return {};
      const std::size_t before = open.size();
      for (std::size_t core = 0; core < program_.size(); ++core) act(state, core, open);
      for (std::size_t way = 0; way < state.ways.size(); ++way) deliver(state, way, open);
      if (open.size() != before) continue;
      bool stuck = false;
      for (std::size_t core = 0; core < program_.size(); ++core) stuck |= state.next[core] < program_[core].size();
      ends_.insert(small_outcome(state.seen, state.memory, stuck));
    }
    return ends_;
  }

 private:
  /// A write that is under way. place: 0, 1 rows, 2, 3 words.
  struct Write {
    int epoch, place, value, call;  // call: of the put_signal it belongs to, or 0
  };
  struct Way {
    std::vector<Write> writes;
    int epoch = 0;
    int calls = 0;
  };
  struct State {
    std::vector<std::size_t> next;  // operation of each core
    std::vector<char> half;         // its put_signal to the own rank has written the row
    std::vector<std::vector<int>> seen;
    std::array<int, 8> memory{};  // rank * 4 + place
    std::vector<Way> ways;        // core * 2 + destination
  };

  static std::string key(const State& state) {
    std::string text =
        fmt::format("{} {} ", fmt::join(state.next, ","), small_outcome(state.seen, state.memory, false));
    text.append(state.half.begin(), state.half.end());
    for (const Way& way : state.ways) {
      // Only the differences of epochs matter.
      text += fmt::format("|{}", way.writes.empty() ? 0 : way.epoch - way.writes.front().epoch);
      for (const Write& w : way.writes) {
        text += fmt::format(";{},{},{},{}", w.epoch - way.writes.front().epoch, w.place, w.value, w.call);
      }
    }
    return text;
  }

  static void store(State& state, int rank, int place, int value) {
    int& cell = state.memory[static_cast<std::size_t>(rank * 4 + place)];
    cell = place == 3 ? cell + value : value;
  }

  void act(const State& from, std::size_t core, std::vector<State>& open) const {
    if (from.next[core] == program_[core].size()) return;
    const SmallOp& op = program_[core][from.next[core]];
    const int me = core < program_.size() / 2 ? 0 : 1;
    const bool own = op.rank == me;
    const auto at = [&](int place) { return static_cast<std::size_t>(me * 4 + place); };
    State to = from;
    Way& way = to.ways[core * 2 + static_cast<std::size_t>(op.rank)];
    int& seen = to.seen[core][from.next[core]];
    const int word = from.memory[at(2 + op.word)];
    bool finished = true;
    using Kind = SmallOp::Kind;
    switch (op.kind) {
      case Kind::put:
        if (own)
          store(to, me, op.row, op.value);
        else
          way.writes.push_back({way.epoch, op.row, op.value, 0});
        break;
      case Kind::signal:
        if (own)
          store(to, me, 2 + op.word, op.value);
        else
          way.writes.push_back({way.epoch, 2 + op.word, op.value, 0});
        break;
      case Kind::put_signal:
        if (!own) {
          const int call = ++way.calls;
          way.writes.push_back({way.epoch, op.row, op.value, call});
          way.writes.push_back({way.epoch, 2 + op.word, op.value, -call});
        } else {
          finished = from.half[core] != 0;
          store(to, me, finished ? 2 + op.word : op.row, op.value);
          to.half[core] = finished ? 0 : 1;
        }
        break;
      case Kind::fence: ++way.epoch; break;
      case Kind::quiet:
        if (!from.ways[core * 2].writes.empty() || !from.ways[core * 2 + 1].writes.empty()) return;
        break;
      case Kind::get: seen = from.memory[static_cast<std::size_t>(op.rank * 4 + op.row)]; break;
      case Kind::test: seen = word >= op.value ? 1 : 0; break;
      case Kind::wait_at_least:
      case Kind::wait_equal:
      case Kind::wait_differs: {
        const bool holds = op.kind == Kind::wait_equal     ? word == op.value
                           : op.kind == Kind::wait_differs ? word != op.value
                                                           : word >= op.value;
        if (!holds) return;
        seen = word;
        break;
      }
    }
    if (finished) ++to.next[core];
    open.push_back(std::move(to));
  }

  static void deliver(const State& from, std::size_t way, std::vector<State>& open) {
    const auto& writes = from.ways[way].writes;
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const Write& w = writes[i];
      const bool free =
          std::none_of(writes.begin(), writes.begin() + static_cast<std::ptrdiff_t>(i), [&](const Write& e) {
            return e.epoch != w.epoch || e.place == w.place || (w.call < 0 && e.call == -w.call);
          });
      if (!free) continue;
      State to = from;
      store(to, static_cast<int>(way % 2), w.place, w.value);
      auto& left = to.ways[way].writes;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
      open.push_back(std::move(to));
    }
  }

  const SmallProgram& program_;
  std::set<std::string> known_;
  std::set<std::string> ends_;
};

}  // namespace shmoe::runtime::check::test
