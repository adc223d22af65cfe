// One rank of a job that goes on when ranks are lost, for survivors_test.py: the steps of a small layer, each compared with
// a sequential sum in which the terms of lost experts are missing. Faults come with SHMOE_FAULTS.
// usage: survivors_procs STEPS [RANK | rejoin]
//   RANK     kills itself where it has lost somebody and would go on
//   rejoin   all start again with whoever replaces the lost ones, started with SHMOE_GENERATION=1
//
//   rank 0: lost at 12.345678 in step 1: peer lost: ...       seconds of the steady clock
//   rank 0: goes on from step 1 as 0 of 3, without 1
//   rank 0: 4 steps are exact, without 1

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "apps/shmoe/collective.hpp"
#include "apps/shmoe/payload.hpp"
#include "ops/ep/combine_normal.hpp"
#include "ops/ep/dispatch_normal.hpp"
#include "ops/ep/layout.hpp"
#include "ops/ep/masked_experts.hpp"
#include "ops/ep/pipeline.hpp"
#include "ops/ep/reference.hpp"
#include "runtime/world.hpp"

using namespace shmoe;
using runtime::Communicator;
using runtime::CommunicatorId;
using runtime::World;

namespace {

constexpr std::int64_t kHidden = 24;
constexpr std::int64_t kTokens = 3;
constexpr std::int32_t kTopk = 2;
constexpr std::size_t kRow = kHidden * 4;  // fp32

void tell(Rank rank, const std::string& text) {
  fmt::print("rank {}: {}\n", rank, text);
  std::fflush(stdout);
}

std::string listed(const std::vector<Rank>& ranks) { return fmt::format("{}", fmt::join(ranks, " ")); }

/// Of a world rank. The experts of a token are different ones, and over the steps all come up.
ops::Routing routing_of(Rank rank, std::int64_t step, std::int32_t experts) {
  std::vector<std::int64_t> ids;
  std::vector<float> weights;
  for (std::int64_t pair = 0; pair < kTokens * kTopk; ++pair) {
    ids.push_back((step + rank.value() + 3 * pair) % experts);
    weights.push_back(0.25F + 0.125F * static_cast<float>(pair % 5));
  }
  return {kTopk, std::move(ids), std::move(weights)};
}

std::vector<std::byte> tokens_of(Rank rank, std::int64_t step) {
  std::vector<std::byte> x(kTokens * kRow);
  for (std::int64_t token = 0; token < kTokens; ++token) {
    apps::fill_token({7, step, rank, token}, DType::fp32,
                     std::span{x}.subspan(static_cast<std::size_t>(token) * kRow, kRow));
  }
  return x;
}

/// What a world rank must get: in order of k, terms of experts whose owners are left.
std::vector<std::byte> expected_of(Rank rank, std::int64_t step, std::int32_t ranks, const std::vector<Rank>& lost) {
  const std::int32_t experts = 2 * ranks;
  const ops::Routing routing = routing_of(rank, step, experts);
  const std::vector<std::byte> x = tokens_of(rank, step);
  std::vector<std::byte> out(x.size());
  std::vector<std::byte> y(kRow);
  for (std::size_t token = 0; token < kTokens; ++token) {
    std::vector<float> sum(kHidden);
    for (std::size_t k = 0; k < kTopk; ++k) {
      const std::int64_t expert = routing.topk_idx()[token * kTopk + k];
      if (std::ranges::count(lost, Rank{expert / 2}) != 0) continue;
      apps::run_expert(Expert{expert}, DType::fp32, std::span{x}.subspan(token * kRow, kRow), y);
      for (std::int64_t j = 0; j < kHidden; ++j) {
        const float term = ops::reference::load(DType::fp32, y, j) * routing.weights()[token * kTopk + k];
        sum[static_cast<std::size_t>(j)] += term;
      }
    }
    for (std::int64_t j = 0; j < kHidden; ++j) {
      ops::reference::store(DType::fp32, std::span{out}.subspan(token * kRow, kRow), j,
                            sum[static_cast<std::size_t>(j)]);
    }
  }
  return out;
}

/// The layer on the ranks that are left.
class Layer {
 public:
  static Result<Layer> make(Communicator& comm, std::int32_t ranks) {
    auto experts = ops::MaskedExperts::of(ops::ExpertMap::even(2 * ranks, ranks), comm.members());
    if (!experts) return experts.error();
    auto buffers = ops::EpBuffers::allocate(comm, 2 * ranks, DType::fp32, kHidden);
    if (!buffers) return buffers.error();
    return Layer(comm, *std::move(experts), *std::move(buffers));
  }

  Result<std::vector<std::byte>> step(Rank world_rank, std::int64_t number) {
    const ops::ExpertMap& experts = experts_.map();
    ops::Routing routing = routing_of(world_rank, number, experts.experts());
    experts_.apply(routing, routing);
    const std::vector<std::byte> x = tokens_of(world_rank, number);
    ops::LayoutTables layout;
    ops::NotifyTables notify;
    auto done = ops::layout(
        *comm_, {.routing = routing, .experts = experts, .num_tokens_per_expert = buffers_.next_counts()}, layout);
    if (done) done = ops::notify(*comm_, {.layout = layout, .experts = experts}, notify);
    if (done) done = buffers_.reserve(notify);
    if (done) {
      done = ops::dispatch_normal(*comm_, {.x = x,
                                           .dtype = DType::fp32,
                                           .hidden = kHidden,
                                           .topk_idx = routing.topk_idx_i32(),
                                           .experts = experts,
                                           .layout = layout,
                                           .notify = notify,
                                           .recv_x = buffers_.recv_x(),
                                           .capacity = buffers_.capacity()});
    }
    if (!done) return done.error();
    compute(notify);
    std::vector<std::byte> out(x.size());
    done = ops::combine_normal(*comm_, {.expert_out = buffers_.expert_out(),
                                        .capacity = buffers_.capacity(),
                                        .dtype = DType::fp32,
                                        .hidden = kHidden,
                                        .topk_idx = routing.topk_idx_i32(),
                                        .weights = routing.weights(),
                                        .experts = experts,
                                        .layout = layout,
                                        .notify = notify,
                                        .x = out});
    if (!done) return done.error();
    return out;
  }

 private:
  Layer(Communicator& comm, ops::MaskedExperts experts, ops::EpBuffers buffers)
      : comm_(&comm), experts_(std::move(experts)), buffers_(std::move(buffers)) {}

  void compute(const ops::NotifyTables& notify) {
    const std::span<const Expert> own = experts_.map().experts_of(comm_->rank());
    std::size_t row = 0;
    for (std::size_t local = 0; local < own.size(); ++local) {
      for (std::int64_t i = 0; i < notify.recv_tokens_per_expert[local]; ++i, ++row) {
        apps::run_expert(own[local], DType::fp32, buffers_.received(notify.recv_rows).subspan(row * kRow, kRow),
                         buffers_.answers(notify.recv_rows).subspan(row * kRow, kRow));
      }
    }
  }

  Communicator* comm_;
  ops::MaskedExperts experts_;
  ops::EpBuffers buffers_;
};

struct Options {
  std::int64_t steps = 0;
  Rank second{-1};
  bool rejoin = false;
};

class Member {
 public:
  Member(World& world, const Options& options) : world_(world), options_(options), comm_(&world.all()) {}

  /// `step`: the first that this rank has not ended.
  Result<void> run(std::int64_t& step) {
    if (world_.config().generation > 0) {
      auto first = agree_on(step);
      if (!first) return first.error();
      step = *first;
    }
    auto layer = Layer::make(*comm_, world_.ranks());
    if (!layer) return layer.error();
    while (step < options_.steps) {
      auto out = layer->step(world_.rank(), step);
      if (out) {
        if (*out != expected_of(world_.rank(), step, world_.ranks(), world_.lost()))
          return Error{.code = Errc::mismatch, .context = fmt::format("step {} is not exact", step)};
        ++step;
        continue;
      }
      tell_loss(out.error(), step);
      if (options_.rejoin) return out.error();
      if (world_.rank() == options_.second) static_cast<void>(std::raise(SIGKILL));
      auto from = recover(step);
      if (!from) return from.error();
      step = *from;
      layer = Layer::make(*comm_, world_.ranks());
      if (!layer) return layer.error();
    }
    if (auto ended = world_.finalize(); !ended) return ended;
    tell(world_.rank(), fmt::format("{} steps are exact, without {}", options_.steps, listed(world_.lost())));
    return {};
  }

 private:
  void tell_loss(const Error& error, std::int64_t step) const {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    tell(world_.rank(), fmt::format("lost at {:.6f} in step {}: {}", now.count(), step, to_string(error)));
  }

  /// Where all go on: with the earliest step that one of them has not ended.
  Result<std::int64_t> recover(std::int64_t step) {
    Result<std::int64_t> from = Error{.code = Errc::peer_lost, .context = "too many losses"};
    while (!from && next_ < world_.config().communicators) from = go_on(step);
    return from;
  }

  Result<std::int64_t> go_on(std::int64_t step) {
    auto left = world_.without_lost(CommunicatorId{next_++}, *comm_);
    if (!left) return left.error();
    comm_ = *left;
    return agree_on(step);
  }

  Result<std::int64_t> agree_on(std::int64_t step) {
    auto place = comm_->allocate(Bytes{sizeof step});
    if (!place) return place.error();
    auto steps = apps::gather(*comm_, *place, step);
    if (!steps) return steps.error();
    const std::int64_t first = *std::ranges::min_element(*steps);
    tell(world_.rank(), fmt::format("goes on from step {} as {} of {}, without {}", first, comm_->rank(),
                                    comm_->ranks(), listed(world_.lost())));
    return first;
  }

  World& world_;
  Options options_;
  Communicator* comm_;
  std::int32_t next_ = 1;
};

Options options_of(const std::vector<std::string>& args) {
  Options options{.steps = std::stoll(args[0])};
  if (args.size() == 2 && args[1] == "rejoin") {
    options.rejoin = true;
  } else if (args.size() == 2) {
    options.second = Rank{std::stoi(args[1])};
  }
  return options;
}

Result<void> run(const Options& options) {
  auto config = runtime::Config::load();
  if (!config) return config.error();
  std::int64_t step = config->generation > 0 ? options.steps : 0;  // whoever comes later has no step to repeat
  for (;;) {
    const auto world = World::create(*config);
    if (!world) return world.error();
    Result<void> done = Member{**world, options}.run(step);
    if (done || !options.rejoin || config->generation > 0) return done;
    ++config->generation;
    config->faults = {};
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args.size() > 2) {
    std::fputs("usage: survivors_procs STEPS [RANK | rejoin]\n", stderr);
    return 2;
  }
  const Result<void> done = run(options_of(args));
  if (done) return 0;
  std::fputs(fmt::format("{}\n", to_string(done.error())).c_str(), stderr);
  return 1;
}
