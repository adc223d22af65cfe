// a2e and e2a: new batches, masks and answers in every round, against the sequential reference.

#include <algorithm>

#include "apps/check/operators.hpp"
#include "ops/afd/a2e.hpp"
#include "ops/afd/e2a.hpp"
#include "ops/afd/reference.hpp"
#include "ops/ep/reference.hpp"

namespace shmoe::apps {
namespace {

using ops::reference::AfdBatch;
using ops::reference::AfdProblem;
using ops::reference::AfdReceived;
using runtime::Communicator;
using runtime::check::Body;
using runtime::check::Program;
using runtime::check::Setting;
using runtime::check::Shape;

/// How the rounds go.
struct AfdWay {
  ops::Quant quant = ops::Quant::none;
  bool gate = true;
  bool masks = false;
  bool summed = true;
  int a2e_in_a_row = 1;
  int e2a_in_a_row = 1;
  std::int64_t hidden = 4;
  std::int64_t least = 0;  // rows of a batch
};

constexpr std::int64_t kAfdMostRows = 3;
constexpr std::int32_t kAfdTopk = 2;

float afd_number(std::int64_t round, std::int64_t place) {
  return static_cast<float>((round * 37 + place * 11) % 251 - 125);
}

std::vector<std::byte> afd_rows(std::int64_t round, std::int64_t owner, std::int64_t elements) {
  std::vector<std::byte> rows(static_cast<std::size_t>(elements) * 2);
  for (std::int64_t j = 0; j < elements; ++j) {
    ops::reference::store(DType::bf16, rows, j, afd_number(round, owner * 101 + j));
  }
  return rows;
}

/// A round of all attention ranks.
AfdProblem afd_problem(const AfdWay& way, const ops::Assignment& ranks, std::int64_t round) {
  AfdProblem problem{.experts = ranks.experts(),
                     .hidden = way.hidden,
                     .topk = kAfdTopk,
                     .dtype = DType::bf16,
                     .int8 = way.quant == ops::Quant::int8,
                     .gate = way.gate,
                     .attention = {}};
  for (std::int64_t a = 0; a < ranks.attention(); ++a) {
    const std::int64_t rows = way.least > 0 ? way.least : (round + 2 * a + 2) % (kAfdMostRows + 1);
    AfdBatch& batch = problem.attention.emplace_back();
    batch.x = afd_rows(round, a, rows * way.hidden);
    for (std::int64_t pair = 0; way.gate && pair < rows * kAfdTopk; ++pair) {
      batch.expert_ids.push_back((round + a + pair) % 5 == 0 ? -1 : static_cast<std::int32_t>(round * 8 + a + pair));
      batch.scales.push_back(static_cast<float>(1 + (round + pair) % 4) / 4);
    }
    for (std::int64_t row = 0; way.masks && round % 2 == 1 && row < rows; ++row) {
      batch.active_mask.push_back((round + row) % 3 == 0 ? 0 : 1);
    }
  }
  return problem;
}

class AfdRounds {
 public:
  AfdRounds(Communicator& comm, const AfdWay& way, const ops::AfdShape& shape, Offset window)
      : comm_(comm),
        way_(way),
        shape_(shape),
        signals_(ops::afd_signals(comm.slots())),
        place_{.shape = shape_, .window = window, .signals = signals_} {}

  Result<void> round(std::int64_t number) {
    AfdProblem problem;
    for (int call = 0; call < way_.a2e_in_a_row; ++call) {
      problem = afd_problem(way_, shape_.ranks, number * way_.a2e_in_a_row + call);
      if (auto done = bring(problem); !done) return done;
    }
    for (int call = 0; call < way_.e2a_in_a_row; ++call) {
      if (auto done = give_back(problem, number * way_.e2a_in_a_row + call); !done) return done;
    }
    return {};
  }

 private:
  [[nodiscard]] bool is_expert() const { return shape_.ranks.is_expert(comm_.rank()); }
  [[nodiscard]] std::size_t index() const {
    return comm_.rank().index() - (is_expert() ? 0 : static_cast<std::size_t>(shape_.ranks.experts()));
  }

  Result<void> bring(const AfdProblem& problem) {
    if (!is_expert()) {
      const AfdBatch& own = problem.attention[index()];
      return ops::a2e(comm_,
                      {.place = place_,
                       .x = own.x,
                       .expert_ids = own.expert_ids,
                       .scales = own.scales,
                       .active_mask = own.active_mask},
                      tables_);
    }
    const AfdReceived expected = ops::reference::received(problem)[index()];
    const std::int64_t rows = comm_.profile().handshake ? shape_.capacity(comm_.rank())
                                                        : static_cast<std::int64_t>(expected.x_active_mask.size());
    std::vector<std::byte> expand_x(static_cast<std::size_t>(rows) * shape_.sent_row_bytes());
    if (auto done = ops::a2e(comm_, {.place = place_, .expand_x = expand_x}, tables_); !done) return done;
    expand_x.resize(expected.expand_x.size());
    if (expand_x != expected.expand_x) return differs("expand_x");
    if (tables_.expert_ids != expected.expert_ids) return differs("expert_ids");
    if (tables_.expert_scales != expected.expert_scales) return differs("expert_scales");
    if (!comm_.profile().handshake) return {};
    if (tables_.atten_batch_size != expected.atten_batch_size) return differs("atten_batch_size");
    if (tables_.x_active_mask != expected.x_active_mask) return differs("x_active_mask");
    return tables_.row_scales == expected.row_scales ? Result<void>{} : differs("row_scales");
  }

  Result<void> give_back(const AfdProblem& problem, std::int64_t number) {
    std::vector<std::vector<std::byte>> answers;
    const std::int64_t a_row = way_.summed ? kAfdTopk : 1;
    for (const AfdReceived& expert : ops::reference::received(problem)) {
      answers.push_back(
          afd_rows(number + 7, std::ssize(answers) + 3, std::ssize(expert.x_active_mask) * a_row * way_.hidden));
    }
    ops::E2aArgs args{
        .place = place_, .a2e = tables_, .kind = way_.summed ? ops::Answers::one_each_k : ops::Answers::one};
    if (is_expert()) {
      args.answers = answers[index()];
      return ops::e2a(comm_, args);
    }
    const std::vector<std::byte> expected = ops::reference::returned(problem, answers, way_.summed)[index()];
    std::vector<std::byte> x(expected.size(), std::byte{0xFF});
    args.x = x;
    if (auto done = ops::e2a(comm_, args); !done) return done;
    return x == expected ? Result<void>{} : differs("x");
  }

  [[nodiscard]] Error differs(const char* what) const {
    return Error{
        .code = Errc::mismatch,
        .context = fmt::format("wrong result: {} of rank {} differs from the sequential reference", what, comm_.rank()),
        .where = comm_.rank()};
  }

  Communicator& comm_;
  const AfdWay& way_;
  ops::AfdShape shape_;
  ops::AfdSignals signals_;
  ops::AfdPlace place_;
  ops::A2eTables tables_;
};

Body afd_rounds(const Setting& setting, const AfdWay& way) {
  return [rounds = setting.rounds, way](Communicator& comm) -> Result<void> {
    const bool refused = !comm.profile().handshake && comm.cores() < 4;
    if (comm.ranks() == 1 || refused) return {};
    const ops::AfdShape shape{.ranks = ops::Assignment::of(comm.ranks() / 2, comm.ranks() - comm.ranks() / 2).value(),
                              .max_batch = kAfdMostRows,
                              .hidden = way.hidden,
                              .topk = kAfdTopk,
                              .quant = way.quant,
                              .compute_gate = way.gate,
                              .published = {.half = Bytes{64U << 10}, .flags = Bytes{4096}}};
    Result<Offset> window = comm.allocate(ops::afd_window_bytes(shape, comm.profile()));
    if (!window) return std::move(window).error();
    AfdRounds all(comm, way, shape, *window);
    for (std::int32_t round = 0; round < rounds; ++round) {
      if (auto done = all.round(round); !done) return done;
    }
    return {};
  };
}

void afd_slots(const Setting& /*setting*/, Shape& shape) {
  shape.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_afd(plan, map); };
}

Program afd_program(std::string name, std::string what, const AfdWay& way, const Setting& usual = {}) {
  return {.name = std::move(name),
          .what = std::move(what),
          .shape = afd_slots,
          .make = [way](const Setting& setting) { return afd_rounds(setting, way); },
          .usual = usual};
}

}  // namespace

std::vector<Program> afd_programs() {
  return {
      afd_program("a2e_e2a", "batches of different size to the experts, weighted sums back", {.masks = true}),
      afd_program("a2e_e2a_int8", "the same with int8 rows, and without a gate",
                  {.quant = ops::Quant::int8, .gate = false, .masks = true}),
      afd_program("a2e_e2a_copy", "one answer a row, as it is", {.masks = true, .summed = false}),
      afd_program("a2e_again", "three a2e in a row, then e2a twice on the tables of the last",
                  {.quant = ops::Quant::int8, .a2e_in_a_row = 3, .e2a_in_a_row = 2}),
      afd_program("published.a2e_e2a", "the published pair by turns: no barrier, two halves",
                  {.summed = false, .hidden = 1024, .least = 1}, {.ranks = 2, .cores = 4, .profile = kFaithful202607}),
  };
}

}  // namespace shmoe::apps
