#include <memory>

#include "apps/check/ep_steps.hpp"
#include "apps/check/operators.hpp"
#include "ops/skeleton.hpp"

namespace shmoe::apps {
namespace {

using runtime::Communicator;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;

using StepCall = Result<void> (EpSteps::*)(std::size_t round);

/// The first `once` steps only in the first round, the others in every one.
Body ep_body(EpProblem made, std::vector<StepCall> once, std::vector<StepCall> always) {
  const auto problem = std::make_shared<const EpProblem>(std::move(made));
  return [problem, once = std::move(once), always = std::move(always)](Communicator& comm) -> Result<void> {
    EpSteps steps(comm, *problem);
    const auto run = [&](const std::vector<StepCall>& list, std::size_t round) -> Result<void> {
      for (const StepCall step : list) {
        if (Result<void> done = (steps.*step)(round); !done) return done;
      }
      return {};
    };
    if (Result<void> done = steps.allocate(); !done) return done;
    if (Result<void> done = run(once, 0); !done) return done;
    for (std::size_t round = 0; round < problem->rounds.size(); ++round) {
      if (Result<void> done = run(always, round); !done) return done;
    }
    return steps.release();
  };
}

Program ep_program(std::string name, std::string what, Load load, std::vector<StepCall> always,
                   const Extras& extras = {}) {
  return {.name = std::move(name),
          .what = std::move(what),
          .make = [load, extras, always = std::move(always)](const Setting& setting) {
            return ep_body(make_ep_problem(setting, load, Tables::new_every_round, extras), {}, always);
          }};
}

/// The program to copy. Results are read by `get`, which the checker sees, and compared with the reference.
Body rotate(const Setting& setting) {
  return [rounds = setting.rounds](Communicator& comm) -> Result<void> {
    const Result<Offset> inbox = comm.allocate(Bytes{64});
    if (!inbox) return inbox.error();
    for (int round = 1; round <= rounds; ++round) {
      std::vector<std::vector<std::byte>> rows;
      for (int rank = 0; rank < comm.ranks(); ++rank) {
        rows.push_back({std::byte(round), std::byte(rank), std::byte(round + rank)});
      }
      if (Result<void> done = ops::rotate(comm, {.row = rows[comm.rank().index()], .inbox = *inbox}); !done)
        return done;
      const std::vector<std::byte> expected = ops::rotate_reference(rows)[comm.rank().index()];
      std::vector<std::byte> seen(expected.size());
      const Result<void> read = comm.launch("look", [&](runtime::CoreContext& context) {
        if (context.core() == Core{0}) context.get(context.rank(), *inbox, std::span{seen}, shmem::Witness::own());
      });
      if (!read) return read;
      if (seen != expected) {
        return Error{.code = Errc::mismatch, .context = fmt::format("wrong row on rank {}", comm.rank())};
      }
    }
    return {};
  };
}

}  // namespace

std::vector<Program> operator_programs() {
  const StepCall layout = &EpSteps::layout;
  const StepCall notify = &EpSteps::notify;
  const StepCall make_room = &EpSteps::make_room;
  const StepCall dispatch = &EpSteps::dispatch;
  const StepCall experts = &EpSteps::experts;
  const StepCall combine = &EpSteps::combine;
  const std::vector<StepCall> whole = {layout, notify, dispatch, experts, combine};
  return {
      ep_program("layout", "counts and places of a rank's own tokens", Load::uneven, {layout}),
      ep_program("notify", "layout, then every rank learns everybody's counts", Load::uneven, {layout, notify}),
      ep_program("dispatch", "layout, notify, and the rows to their experts", Load::even,
                 {layout, notify, dispatch, experts}),
      {.name = "dispatch_again",
       .what = "one set of tables, new payload in every round",
       .make =
           [=](const Setting& setting) {
             return ep_body(make_ep_problem(setting, Load::even, Tables::of_the_first_round),
                            {layout, notify, make_room}, {dispatch, experts});
           }},
      ep_program("pipeline", "layout, notify, dispatch, experts, combine", Load::even, whole),
      ep_program("pipeline_uneven", "the same, with no, few or many tokens and rows", Load::uneven, whole),
      ep_program("pipeline_int8", "the same with int8 rows and their scales, and costs of waiting", Load::even, whole,
                 {.quant = ops::Quant::int8, .wait_costs = true}),
      ep_program("pipeline_gradients", "the same with gradients, and groups of rows at multiples of two", Load::uneven,
                 whole, {.alignment = 2, .gradients = true}),
      {.name = "combine_again",
       .what = "one set of tables: answers and gradients are read twice, then new rows come",
       .make =
           [=](const Setting& setting) {
             return ep_body(make_ep_problem(setting, Load::even, Tables::of_the_first_round,
                                            {.gradients = true, .wait_costs = true}),
                            {layout, notify, make_room}, {dispatch, experts, combine, combine});
           }},
      {.name = "rotate", .what = "every rank hands a row to its right neighbour", .make = rotate},
  };
}

}  // namespace shmoe::apps
