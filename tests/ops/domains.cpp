#include "tests/ops/domains.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>

#include "ops/detour/all_to_all_detour.hpp"
#include "ops/detour/reduce_scatter_detour.hpp"
#include "ops/detour/reference.hpp"
#include "ops/detour/window.hpp"
#include "tests/ops/ep_fixture.hpp"
#include "tests/ops/low_latency_fixture.hpp"

namespace shmoe::test {
namespace {

using ops::Element;
using runtime::Communicator;

/// Steps with inputs of their own; later ones repeat them.
constexpr std::size_t kCases = 3;

std::vector<EpCase> draw_cases(std::int32_t ranks, std::uint64_t seed) {
  std::vector<EpCase> cases;
  std::mt19937_64 random(seed);
  while (cases.size() < kCases) {
    std::vector<std::int64_t> tokens;
    for (std::int32_t rank = 0; rank < ranks; ++rank) tokens.push_back(static_cast<std::int64_t>(random() % 5));
    if (cases.empty()) tokens[0] = 0;
    cases.push_back(
        make_case(random(), {.experts = 6, .hidden = 8, .tokens = tokens, .dropped_percent = 10, .own_map = true}));
  }
  return cases;
}

class NormalPart final : public Part {
 public:
  NormalPart(Communicator& comm, std::vector<EpCase> cases, const Room& room)
      : comm_(&comm), cases_(std::move(cases)), room_(room) {
    for (const EpCase& input : cases_) expected_.push_back(expect(input));
  }

  Result<void> next() override {
    const std::size_t step = calls_ / operators_of(Work::normal);
    const EpCase& input = cases_[step % kCases];
    switch (calls_++ % operators_of(Work::normal)) {
      case 0: tables_.emplace(input, comm_->rank()); return run_layout(*comm_, room_.counts[step % 2], *tables_);
      case 1: return run_notify(*comm_, input, *tables_);
      case 2: return run_dispatch(*comm_, input, room_, *tables_, outcome_);
      default: break;
    }
    Result<void> summed = run_combine(*comm_, input, room_, *tables_, outcome_);
    if (summed && found_.empty()) {
      found_ = difference(input, expected_[step % kCases], comm_->rank().value(), outcome_);
    }
    return summed;
  }

 private:
  Communicator* comm_;
  std::vector<EpCase> cases_;
  std::vector<Expected> expected_;
  Room room_;
  std::size_t calls_ = 0;
  std::optional<Tables> tables_;
  Outcome outcome_;
};

class LowLatencyPart final : public Part {
 public:
  LowLatencyPart(Communicator& comm, std::vector<LowLatencyCase> cases, std::array<LowLatencyRoom, 2> rooms)
      : comm_(&comm), cases_(std::move(cases)), rooms_(rooms) {
    for (const LowLatencyCase& input : cases_) expected_.push_back(expect(input));
  }

  Result<void> next() override {
    const std::size_t step = calls_ / operators_of(Work::low_latency);
    switch (calls_++ % operators_of(Work::low_latency)) {
      case 0:
        own_.emplace(*comm_, cases_[step % kCases], expected_[step % kCases], rooms_[step % 2], tables_);
        own_->clear_rows();
        return ops::dispatch_begin(*comm_, own_->dispatch_args(), tables_);
      case 1: return receive();
      case 2: return ops::combine_begin(*comm_, own_->combine_args());
      default: break;
    }
    Result<void> summed = ops::combine_finish(*comm_, own_->combine_args());
    if (summed && found_.empty()) found_ = own_->sums_difference();
    return summed;
  }

 private:
  Result<void> receive() {
    if (Result<void> received = ops::dispatch_finish(*comm_, tables_); !received) return received;
    if (found_.empty()) found_ = own_->received_difference();
    own_->run_experts();
    own_->clear_sums();
    return {};
  }

  Communicator* comm_;
  std::vector<LowLatencyCase> cases_;
  std::vector<LowLatencyExpected> expected_;
  std::array<LowLatencyRoom, 2> rooms_;  // by turns, since peers may still read the answers of the step before
  std::size_t calls_ = 0;
  ops::LowLatencyTables tables_;
  std::optional<LowLatencyStep> own_;
};

class TensorPart final : public Part {
 public:
  using Tensor = std::vector<std::byte>;

  TensorPart(Communicator& comm, std::uint64_t seed, const shmem::Region& window)
      : comm_(&comm), seed_(seed), window_(window) {}

  Result<void> next() override {
    const std::size_t step = calls_ / operators_of(Work::tensors);
    switch (calls_++ % operators_of(Work::tensors)) {
      case 0: return reduce_scatter(step);
      case 1: return all_to_all(step);
      default: return comm_->barrier(static_cast<std::int64_t>(step));
    }
  }

 private:
  /// The last and the first, or all.
  [[nodiscard]] std::vector<Rank> members(std::size_t step) const {
    const std::int32_t last = comm_->ranks() - 1;
    if (step % 2 == 1 && last >= 2) return {Rank{last}, Rank{0}};
    std::vector<Rank> all;
    for (Rank rank{0}; rank.value() <= last; ++rank) all.push_back(rank);
    return all;
  }
  static std::int64_t elements(std::size_t step) { return static_cast<std::int64_t>(17 + 5 * (step % 7)); }

  /// Numbers of every sign and several sizes in fp32, in int32 any.
  [[nodiscard]] Tensor input(std::size_t step, Rank rank) const {
    std::mt19937_64 random(seed_ + 1000 * step + rank.index());
    Tensor x(static_cast<std::size_t>(elements(step)) * 4);
    for (std::size_t i = 0; i < x.size(); i += 4) {
      auto bits = static_cast<std::uint32_t>(random());
      bits = (bits & 0x807F'FFFFU) | ((120 + bits % 16) << 23);
      std::memcpy(x.data() + i, &bits, 4);
    }
    return x;
  }
  [[nodiscard]] std::vector<Tensor> inputs(std::size_t step) const {
    std::vector<Tensor> all;
    for (const Rank rank : members(step)) all.push_back(input(step, rank));
    return all;
  }

  /// Calls call(x, y) with the own tensors, which are empty where this rank only lends memory, and compares y.
  template <class Call>
  Result<void> compared(const char* op, std::size_t step, const std::vector<Tensor>& answers, const Call& call) {
    const std::vector<Rank> group = members(step);
    const auto found = std::ranges::find(group, comm_->rank());
    if (found == group.end()) return call(Tensor{}, std::span<std::byte>{});
    const Tensor& answer = answers[static_cast<std::size_t>(found - group.begin())];
    Tensor y(answer.size(), kCanary);
    Result<void> done = call(input(step, comm_->rank()), std::span<std::byte>{y});
    if (done && found_.empty() && y != answer) {
      found_ =
          fmt::format("rank {} of {}: {} of step {}: wrong (seed {})", comm_->rank(), comm_->ranks(), op, step, seed_);
    }
    return done;
  }

  Result<void> reduce_scatter(std::size_t step) {
    const std::vector<Rank> group = members(step);
    const auto answers = ops::reduce_scatter_reference(Element::fp32, ops::Reduction::sum, inputs(step));
    return compared("reduce_scatter", step, answers, [&](const Tensor& x, std::span<std::byte> y) {
      return ops::reduce_scatter_detour(*comm_, {.shape = shape(group, Element::fp32, step), .x = x, .y = y});
    });
  }
  Result<void> all_to_all(std::size_t step) {
    const std::vector<Rank> group = members(step);
    const auto answers = ops::all_to_all_reference(Element::int32, inputs(step));
    return compared("all_to_all", step, answers, [&](const Tensor& x, std::span<std::byte> y) {
      return ops::all_to_all_detour(*comm_, {.shape = shape(group, Element::int32, step), .x = x, .y = y});
    });
  }
  [[nodiscard]] ops::DetourShape shape(const std::vector<Rank>& group, Element type, std::size_t step) const {
    return {.members = group, .type = type, .elements = elements(step), .window = window_};
  }

  Communicator* comm_;
  std::uint64_t seed_;
  shmem::Region window_;
  std::size_t calls_ = 0;
};

Result<std::unique_ptr<Part>> normal_part(Communicator& comm, std::uint64_t seed) {
  std::vector<EpCase> cases = draw_cases(comm.ranks(), seed);
  const Result<Room> room = allocate_room(comm, cases);
  if (!room) return room.error();
  return std::unique_ptr<Part>(new NormalPart(comm, std::move(cases), *room));
}

Result<std::unique_ptr<Part>> low_latency_part(Communicator& comm, std::uint64_t seed) {
  std::vector<LowLatencyCase> cases;
  for (EpCase& input : draw_cases(comm.ranks(), seed)) cases.push_back({.base = std::move(input)});
  std::array<LowLatencyRoom, 2> rooms;
  for (LowLatencyRoom& room : rooms) {
    const Result<LowLatencyRoom> made = allocate_low_latency_room(comm, cases);
    if (!made) return made.error();
    room = *made;
  }
  return std::unique_ptr<Part>(new LowLatencyPart(comm, std::move(cases), rooms));
}

Result<Communicator*> joined(runtime::World& world, const Domain& domain) {
  if (domain.id == runtime::CommunicatorId{0}) return &world.all();
  return world.communicator(domain.id, domain.members);
}

}  // namespace

std::vector<Domain> ep_and_tp(std::int32_t ep, std::int32_t tp) {
  std::vector<Rank> everyone;
  for (Rank rank{0}; rank.value() < ep * tp; ++rank) everyone.push_back(rank);
  std::vector<Domain> domains{{.id = runtime::CommunicatorId{0}, .members = everyone, .works = {Work::tensors}}};
  for (std::int32_t column = 0; column < tp; ++column) {
    Domain domain{.id = runtime::CommunicatorId{1}, .members = {}, .works = {Work::normal, Work::low_latency}};
    for (std::int32_t row = 0; row < ep; ++row) domain.members.emplace_back(row * tp + column);
    domains.push_back(std::move(domain));
  }
  for (std::int32_t row = 0; row < ep; ++row) {
    Domain domain{.id = runtime::CommunicatorId{2}, .members = {}, .works = {Work::tensors}};
    for (std::int32_t column = 0; column < tp; ++column) domain.members.emplace_back(row * tp + column);
    domains.push_back(std::move(domain));
  }
  return domains;
}

std::size_t operators_of(Work work) { return work == Work::tensors ? 3 : 4; }

Result<std::unique_ptr<Part>> make_part(Work work, Communicator& comm, std::uint64_t seed) {
  if (work == Work::normal) return normal_part(comm, seed);
  if (work == Work::low_latency) return low_latency_part(comm, seed);
  const Result<shmem::Region> window = ops::allocate_window(comm);
  if (!window) return window.error();
  return std::unique_ptr<Part>(new TensorPart(comm, seed, *window));
}

Result<std::string> run_domains(runtime::World& world, const std::vector<Domain>& domains, std::uint64_t seed,
                                int rounds) {
  std::vector<std::unique_ptr<Part>> parts;  // of all works; nothing where this rank takes no part
  std::vector<std::size_t> turns;
  for (const Domain& domain : domains) {
    const bool member = std::ranges::find(domain.members, world.rank()) != domain.members.end();
    const Result<Communicator*> comm = member ? joined(world, domain) : nullptr;
    if (!comm) return comm.error();
    for (const Work work : domain.works) {
      turns.insert(turns.end(), operators_of(work), parts.size());
      parts.emplace_back();
      if (!member) continue;
      Result<std::unique_ptr<Part>> part = make_part(work, **comm, seed + parts.size());
      if (!part) return std::move(part).error();
      parts.back() = *std::move(part);
    }
  }
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(turns.begin(), turns.end(), random);
    for (const std::size_t turn : turns) {
      if (!parts[turn]) continue;
      Result<void> done = parts[turn]->next();
      if (!done) return std::move(done).error().within(fmt::format("round {}", round));
    }
  }
  std::string found;
  for (const auto& part : parts) found += part ? part->found() : "";
  return found;
}

runtime::Config domains_config(runtime::Config config) {
  config.declare_slots = [](shmem::SlotPlan& plan, const shmem::BlockMap& map) { ops::declare_low_latency(plan, map); };
  return config;
}

}  // namespace shmoe::test
