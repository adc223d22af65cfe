// The low-latency operators, right and as published.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "apps/check/ep_problem.hpp"
#include "apps/check/operators.hpp"
#include "ops/low_latency/combine.hpp"
#include "ops/low_latency/dispatch.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::CoreContext;
using runtime::VerdictKind;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;
using runtime::check::Shape;

/// Where the rows of a call lie.
struct Room {
  Offset expand_x, expert_out, scales;
};

/// The low-latency path on one rank of a checked world, step by step; rounds use two rooms by turns.
class LowLatencySteps {
 public:
  LowLatencySteps(Communicator& comm, const EpProblem& problem) : comm_(&comm), problem_(&problem) {
    for (const EpRound& round : problem.rounds) capacity_ = std::max(capacity_, round.answer.total_recv_tokens);
  }

  Result<void> allocate() {
    for (Room& room : rooms_) {
      const std::pair<Offset*, std::size_t> parts[] = {
          {&room.expand_x, kCheckedRow}, {&room.expert_out, kCheckedRow}, {&room.scales, sizeof(float)}};
      for (const auto& [place, size] : parts) {
        Result<Offset> at =
            comm_->allocate(Bytes{size} * static_cast<std::uint64_t>(std::max<std::int64_t>(capacity_, 1)));
        if (!at) return std::move(at).error();
        *place = *at;
      }
    }
    return {};
  }

  Result<void> dispatch(std::size_t round) {
    Result<void> sent = ops::dispatch_low_latency(*comm_, dispatch_args(round), tables(round));
    return sent ? check_tables(round) : sent;
  }
  Result<void> dispatch_begin(std::size_t round) {
    return ops::dispatch_begin(*comm_, dispatch_args(round), tables(round));
  }
  Result<void> dispatch_finish(std::size_t round) {
    Result<void> received = ops::dispatch_finish(*comm_, tables(round));
    return received ? check_tables(round) : received;
  }

  /// The rows that have arrived, and an answer to each.
  Result<void> experts(std::size_t round) { return look(round, true); }
  /// The rows alone; combine copies the answers.
  Result<void> rows(std::size_t round) { return look(round, false); }

  Result<void> combine(std::size_t round) {
    clear_sums(round);
    Result<void> summed = ops::combine_low_latency(*comm_, combine_args(round));
    return summed ? check_sums(round) : summed;
  }
  /// The answers from own memory.
  Result<void> combine_copied(std::size_t round) {
    clear_sums(round);
    ops::CombineLowLatencyArgs args = combine_args(round);
    args.ori_x = at(round).answers[me()];
    Result<void> summed = ops::combine_low_latency(*comm_, args);
    return summed ? check_sums(round) : summed;
  }
  Result<void> combine_begin(std::size_t round) {
    clear_sums(round);
    return ops::combine_begin(*comm_, combine_args(round));
  }
  Result<void> combine_finish(std::size_t round) {
    Result<void> summed = ops::combine_finish(*comm_, combine_args(round));
    return summed ? check_sums(round) : summed;
  }

  [[nodiscard]] ops::DispatchLowLatencyArgs dispatch_args(std::size_t round) const {
    return {.x = at(round).x[me()],
            .dtype = kCheckedType,
            .hidden = kCheckedHidden,
            .expert_ids = at(round).routing[me()].topk_idx_i32(),
            .topk = kCheckedTopk,
            .experts = problem_->experts,
            .expand_x = room(round).expand_x,
            .capacity = capacity_,
            .quant = problem_->extras.quant,
            .dynamic_scales = room(round).scales};
  }
  [[nodiscard]] ops::CombineLowLatencyArgs combine_args(std::size_t round) {
    return {.expert_out = room(round).expert_out,
            .capacity = capacity_,
            .tables = tables(round),
            .expert_scales = at(round).routing[me()].weights(),
            .x = sums_[round % 2]};
  }
  [[nodiscard]] ops::LowLatencyTables& tables(std::size_t round) { return tables_[round % 2]; }

 private:
  [[nodiscard]] std::size_t me() const { return comm_->rank().index(); }
  [[nodiscard]] const EpRound& at(std::size_t round) const { return problem_->rounds[round]; }
  [[nodiscard]] const Room& room(std::size_t round) const { return rooms_[round % 2]; }

  [[nodiscard]] Result<void> differs(const char* what, std::size_t round) const {
    return Error{.code = Errc::mismatch,
                 .context = fmt::format("wrong result: {} of rank {} in round {} differs from the sequential reference",
                                        what, comm_->rank(), round),
                 .where = comm_->rank()};
  }

  [[nodiscard]] Result<void> check_tables(std::size_t round) const {
    const ops::LowLatencyTables& own = tables_[round % 2];
    const ops::reference::Answer& answer = at(round).answer;
    if (own.recv_data != answer.recv_data) return differs("recv_data", round);
    if (own.expand_idx != answer.send_token_idx[me()]) return differs("expand_idx", round);
    if (own.expert_token_nums != answer.recv_tokens_per_expert[me()]) return differs("expert_token_nums", round);
    if (own.recv_rows != std::ssize(answer.rows[me()])) return differs("recv_rows", round);
    std::vector<std::int64_t> ends = answer.put_offset;
    const std::size_t ranks = answer.rows.size();
    const std::size_t experts = ends.size() / ranks;
    for (std::size_t i = 0; i < ends.size(); ++i) ends[i] += answer.recv_data[i % ranks * experts + i / ranks];
    return own.ep_recv_count == ends ? Result<void>{} : differs("ep_recv_count", round);
  }
  void clear_sums(std::size_t round) { sums_[round % 2].assign(at(round).x[me()].size(), std::byte{0xFF}); }
  [[nodiscard]] Result<void> check_sums(std::size_t round) const {
    return sums_[round % 2] == at(round).combined[me()] ? Result<void>{} : differs("the combined rows", round);
  }

  Result<void> look(std::size_t round, bool answers) {
    std::vector<char> wrong(static_cast<std::size_t>(comm_->cores()));
    Result<void> done = comm_->launch("experts", [&](CoreContext& context) {
      const Slice own = context.slice(std::ssize(at(round).answer.rows[me()]));
      for (auto row = own.first; row < own.last; ++row) {
        check_row(context, round, static_cast<std::uint64_t>(row), wrong[context.core().index()]);
        if (answers) answer(context, round, static_cast<std::uint64_t>(row));
      }
    });
    const bool good = std::all_of(wrong.begin(), wrong.end(), [](char core) { return core == 0; });
    return good ? done : differs("expand_x", round);
  }

  void check_row(CoreContext& context, std::size_t round, std::uint64_t row, char& wrong) {
    const std::size_t size = ops::row_bytes(kCheckedType, kCheckedHidden, problem_->extras.quant);
    std::array<std::byte, kCheckedRow> bytes;
    const auto seen = std::span{bytes}.first(size);
    const auto expected = std::span{at(round).received[me()]}.subspan(row * size, size);
    context.get(context.rank(), room(round).expand_x + Bytes{row * size}, seen, shmem::Witness::own());
    if (!std::equal(seen.begin(), seen.end(), expected.begin())) wrong = 1;
    if (problem_->extras.quant == ops::Quant::int8) {
      float scale = 0;
      context.get(context.rank(), room(round).scales + Bytes{row * sizeof scale}, std::span{&scale, 1},
                  shmem::Witness::own());
      if (scale != at(round).scales[me()][row]) wrong = 1;
    }
  }

  void answer(CoreContext& context, std::size_t round, std::uint64_t row) {
    context.put(context.rank(), room(round).expert_out + Bytes{row * kCheckedRow},
                std::span{at(round).answers[me()]}.subspan(row * kCheckedRow, kCheckedRow));
  }

  Communicator* comm_;
  const EpProblem* problem_;
  std::int64_t capacity_ = 0;
  Room rooms_[2];
  ops::LowLatencyTables tables_[2];
  std::vector<std::byte> sums_[2];
};

using Script = std::function<Result<void>(LowLatencySteps&, std::size_t rounds)>;
using LowLatencyCall = Result<void> (LowLatencySteps::*)(std::size_t round);

Body low_latency_body(EpProblem made, Script script) {
  const auto problem = std::make_shared<const EpProblem>(std::move(made));
  return [problem, script = std::move(script)](Communicator& comm) -> Result<void> {
    LowLatencySteps steps(comm, *problem);
    if (Result<void> done = steps.allocate(); !done) return done;
    return script(steps, problem->rounds.size());
  };
}

/// The same calls in every round.
Script every(std::vector<LowLatencyCall> calls) {
  return [calls = std::move(calls)](LowLatencySteps& steps, std::size_t rounds) -> Result<void> {
    for (std::size_t round = 0; round < rounds; ++round) {
      for (const LowLatencyCall call : calls) {
        if (Result<void> done = (steps.*call)(round); !done) return done;
      }
    }
    return {};
  };
}

Result<void> in_order(LowLatencySteps& steps, std::initializer_list<std::pair<LowLatencyCall, std::size_t>> calls) {
  for (const auto& [call, round] : calls) {
    if (Result<void> done = (steps.*call)(round); !done) return done;
  }
  return {};
}

/// The next round is sent while the answers to this one are on their way.
Result<void> two_in_flight(LowLatencySteps& steps, std::size_t rounds) {
  using L = LowLatencySteps;
  if (Result<void> done = steps.dispatch_begin(0); !done) return done;
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) {
      if (Result<void> done = steps.dispatch_begin(round + 1); !done) return done;
    }
    Result<void> done =
        in_order(steps, {{&L::dispatch_finish, round}, {&L::experts, round}, {&L::combine_begin, round}});
    if (!done) return done;
    if (Result<void> summed = steps.combine_finish(round); !summed) return summed;
  }
  return {};
}

/// Two combines are under way at a time, after two dispatches.
Result<void> two_combines(LowLatencySteps& steps, std::size_t rounds) {
  using L = LowLatencySteps;
  for (std::size_t round = 0; round + 1 < rounds; round += 2) {
    Result<void> done = in_order(steps, {{&L::dispatch_begin, round},
                                         {&L::dispatch_begin, round + 1},
                                         {&L::dispatch_finish, round},
                                         {&L::experts, round},
                                         {&L::combine_begin, round},
                                         {&L::dispatch_finish, round + 1},
                                         {&L::experts, round + 1},
                                         {&L::combine_begin, round + 1},
                                         {&L::combine_finish, round},
                                         {&L::combine_finish, round + 1}});
    if (!done) return done;
  }
  return {};
}

bool is_told(const Result<void>& done, const Error& expected) {
  return !done && done.error().code == expected.code && done.error().where == expected.where &&
         done.error().context.find(expected.context) != std::string::npos;
}

Error not_told(const Communicator& comm, const Result<void>& done, const Error& expected) {
  return Error{.code = Errc::mismatch,
               .context = fmt::format("rank {} is told \"{}\" and not \"{}\"", comm.rank(),
                                      done ? "nothing" : to_string(done.error()), expected.context)};
}

/// The third of three calls in flight is refused on every rank, before it overtakes the first; both others go on.
Result<void> third_refused(const Communicator& comm, const char* call, const Result<void>& told) {
  if (!told && told.error().context.find("while an older one is in flight") != std::string::npos) return {};
  return Error{.code = Errc::mismatch,
               .context = fmt::format("rank {}: the third {} in flight is told \"{}\"", comm.rank(), call,
                                      told ? "nothing" : to_string(told.error()))};
}

Body three_in_flight(const Setting& setting) {
  const auto problem = std::make_shared<const EpProblem>(make_ep_problem(setting, Load::even, Tables::new_every_round));
  return [problem](Communicator& comm) -> Result<void> {
    using L = LowLatencySteps;
    LowLatencySteps steps(comm, *problem);
    if (Result<void> done = steps.allocate(); !done) return done;
    for (std::size_t round = 0; round + 1 < problem->rounds.size(); round += 2) {
      Result<void> sent = in_order(steps, {{&L::dispatch_begin, round}, {&L::dispatch_begin, round + 1}});
      if (!sent) return sent;
      ops::LowLatencyTables other;
      Result<void> third = ops::dispatch_low_latency(comm, steps.dispatch_args(round), other);
      if (Result<void> refused = third_refused(comm, "dispatch", third); !refused) return refused;
      Result<void> told = in_order(steps, {{&L::dispatch_finish, round},
                                           {&L::dispatch_finish, round + 1},
                                           {&L::experts, round},
                                           {&L::experts, round + 1},
                                           {&L::combine_begin, round},
                                           {&L::combine_begin, round + 1}});
      if (!told) return told;
      ops::CombineLowLatencyArgs sums = steps.combine_args(round);
      other = steps.tables(round);
      other.stage = ops::LowLatencyStage::received;
      third = ops::combine_low_latency(comm, {.expert_out = sums.expert_out,
                                              .capacity = sums.capacity,
                                              .tables = other,
                                              .expert_scales = sums.expert_scales,
                                              .x = sums.x});
      if (Result<void> refused = third_refused(comm, "combine", third); !refused) return refused;
      Result<void> summed = in_order(steps, {{&L::combine_finish, round}, {&L::combine_finish, round + 1}});
      if (!summed) return summed;
    }
    return {};
  };
}

/// A rank passes an id that is no expert, another one too large a hidden, by turns also to combine; a good step follows.
Body refused(const Setting& setting) {
  const auto problem = std::make_shared<const EpProblem>(make_ep_problem(setting, Load::even, Tables::new_every_round));
  return [problem](Communicator& comm) -> Result<void> {
    LowLatencySteps steps(comm, *problem);
    if (Result<void> done = steps.allocate(); !done) return done;
    const std::vector<std::int32_t> bad(2, 99);
    const std::vector<float> weights(7);
    for (std::size_t round = 0; round < problem->rounds.size(); ++round) {
      const Rank odd{static_cast<std::int32_t>(round) % comm.ranks()};
      const bool mine = comm.rank() == odd;
      ops::DispatchLowLatencyArgs args = steps.dispatch_args(round);
      if (mine) args.expert_ids = bad;
      Error expected{.code = Errc::invalid_argument,
                     .context = fmt::format("rank {}: token 0, k 0: expert id 99 is not in", odd),
                     .where = odd};
      Result<void> told = ops::dispatch_low_latency(comm, args, steps.tables(round));
      if (!is_told(told, expected)) return not_told(comm, told, expected);
      ops::DispatchLowLatencyArgs other = steps.dispatch_args(round);
      other.capacity += mine ? 1 : 0;
      expected = {.code = Errc::mismatch, .context = "capacity is", .where = odd == Rank{0} ? Rank{1} : odd};
      told = ops::dispatch_low_latency(comm, other, steps.tables(round));
      if (comm.ranks() > 1 && !is_told(told, expected)) return not_told(comm, told, expected);
      if (Result<void> done = steps.dispatch(round); !done) return done;
      if (Result<void> done = steps.experts(round); !done) return done;
      ops::CombineLowLatencyArgs sums = steps.combine_args(round);
      std::vector<std::byte> x(static_cast<std::size_t>(steps.tables(round).tokens) * kCheckedRow);
      const std::vector<std::byte> untouched = x;
      sums.x = x;
      if (mine) sums.expert_scales = weights;
      expected = {.code = Errc::invalid_argument, .context = fmt::format("rank {}: 7 weights for", odd), .where = odd};
      told = ops::combine_low_latency(comm, sums);
      if (!is_told(told, expected)) return not_told(comm, told, expected);
      sums.expert_scales = {};
      sums.capacity += mine ? 1 : 0;
      expected = {.code = Errc::mismatch, .context = "capacity is", .where = odd == Rank{0} ? Rank{1} : odd};
      told = ops::combine_low_latency(comm, sums);
      if (comm.ranks() > 1 && !is_told(told, expected)) return not_told(comm, told, expected);
      if (comm.ranks() > 1 && x != untouched) return not_told(comm, told, expected);
      if (Result<void> done = steps.combine(round); !done) return done;
    }
    return {};
  };
}

void low_latency_slots(const Setting& /*setting*/, Shape& shape) {
  shape.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_low_latency(plan, map); };
}

/// The published combine flag is the word in which a core counts rounds, so none may have been counted (S5).
void published_slots(const Setting& setting, Shape& shape) {
  low_latency_slots(setting, shape);
  shape.first_round = 0;
}

/// With more cores the published rows are not waited for.
void published_slots_of_one_core(const Setting& setting, Shape& shape) {
  published_slots(setting, shape);
  shape.cores = 1;
}

Program low_latency_program(std::string name, std::string what, Load load, Script script, const Extras& extras = {}) {
  return {.name = std::move(name),
          .what = std::move(what),
          .shape = low_latency_slots,
          .make = [load, extras, script = std::move(script)](const Setting& setting) {
            return low_latency_body(make_ep_problem(setting, load, Tables::new_every_round, extras), script);
          }};
}

/// The world and the end of a program that shows a hole of the published kernels, or, clean, that there is none.
Program as_published(Program program, VerdictKind expected, std::int32_t cores) {
  program.expected = expected;
  program.shape = cores == 1 ? published_slots_of_one_core : published_slots;
  program.usual = {.ranks = 2, .cores = cores, .rounds = 3, .profile = kFaithful202607};
  return program;
}

}  // namespace

std::vector<Program> low_latency_programs() {
  using L = LowLatencySteps;
  const std::vector<LowLatencyCall> step = {&L::dispatch, &L::experts, &L::combine};
  return {
      low_latency_program("low_latency", "low-latency dispatch, experts, combine", Load::even, every(step)),
      low_latency_program("low_latency_uneven", "the same, with no, few or many tokens and rows", Load::uneven,
                          every(step)),
      low_latency_program("low_latency_int8", "the same with int8 rows and their scales", Load::even, every(step),
                          {.quant = ops::Quant::int8}),
      low_latency_program("low_latency_copied", "the same with answers in own memory, which combine copies", Load::even,
                          every({&L::dispatch, &L::rows, &L::combine_copied})),
      low_latency_program("low_latency_again", "three combines in a row on the same answers", Load::even,
                          every({&L::dispatch, &L::experts, &L::combine, &L::combine, &L::combine})),
      low_latency_program("low_latency_dispatches", "dispatch after dispatch", Load::even,
                          every({&L::dispatch, &L::experts})),
      low_latency_program("low_latency_deferred", "the next dispatch is begun before the last one is finished",
                          Load::even, two_in_flight),
      low_latency_program("low_latency_pairs", "two dispatches, then two combines in flight", Load::uneven,
                          two_combines),
      {.name = "low_latency_refused",
       .what = "bad arguments of one rank, and calls that differ: all ranks are told the same, and go on",
       .shape = low_latency_slots,
       .make = refused},
      {.name = "low_latency_third",
       .what = "two calls may be in flight: the third is refused on every rank, and the two go on",
       .shape = low_latency_slots,
       .make = three_in_flight},
      as_published(low_latency_program("published.low_latency", "the published low-latency path, on one core a rank",
                                       Load::even, every(step)),
                   VerdictKind::clean, 1),
      as_published(low_latency_program("published.low_latency_counts",
                                       "published dispatch after dispatch, as far as the tables: two cores share them",
                                       Load::uneven, every({&L::dispatch})),
                   VerdictKind::clean, 2),
      as_published(
          low_latency_program("published.low_latency_rows",
                              "the same on two cores: the flag of a core says nothing about the rows of another",
                              Load::even, every(step)),
          VerdictKind::unordered_read, 2),
      as_published(
          low_latency_program("published.low_latency_combines", "two published combines in a row: one flag is lost",
                              Load::even, every({&L::dispatch, &L::experts, &L::combine, &L::combine})),
          VerdictKind::deadlock_cycle, 1),
  };
}

}  // namespace shmoe::apps
