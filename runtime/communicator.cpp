#include "runtime/communicator.hpp"

#include <array>
#include <cstring>
#include <utility>

#include "runtime/zero_buffer_sync.hpp"
#include "shmem/wait.hpp"

namespace shmoe::runtime {
namespace {

constexpr Rank aborting_rank(std::uint64_t word) { return Rank{(word >> 8) - 1}; }

/// A token row of any usual length is kept, not given back; one block at a time, since a core asks for one of a size.
constexpr std::pmr::pool_options kWorkspace{.max_blocks_per_chunk = 1, .largest_required_pool_block = 4U << 20};

/// Of the exception that is being handled. `rank`: its world rank.
Error thrown_in(Rank rank, Core core) {
  const auto error = [&](Errc code, std::string text) {
    return Error{.code = code, .context = std::move(text), .where = rank};
  };
  try {
    throw;
  } catch (const ContractViolation& broken) {
    return error(Errc::broken_contract, broken.what());
  } catch (const std::exception& e) {
    return error(Errc::aborted,
                 fmt::format("rank {} core {}: exception in a kernel: {}; catch it there", rank, core, e.what()));
  } catch (...) {
    return error(Errc::aborted,
                 fmt::format("rank {} core {}: exception of an unknown type in a kernel; catch it there", rank, core));
  }
}

std::span<std::optional<Error>> cleared(std::span<std::optional<Error>> errors, std::int32_t count) {
  const auto first = errors.first(static_cast<std::size_t>(count));
  for (std::optional<Error>& error : first) error.reset();
  return first;
}

}  // namespace

Communicator::Communicator(Parts parts)
    : peers_(std::move(parts.peers)),
      members_(std::move(parts.members)),
      id_(parts.id),
      profile_(parts.profile),
      grid_(parts.grid),
      deadlocked_(std::move(parts.deadlocked)),
      heap_(peers_.map->heap.at, peers_.map->heap.size) {
  // The wait asks the communicator first, then whoever was there before.
  peers_.overseer = [this, inner = std::move(peers_.overseer)](const shmem::SleepingWait& wait) {
    if (std::optional<Error> error = aborted()) return error;
    std::optional<Error> found = inner ? inner(wait) : std::nullopt;
    // Whoever gives up may end before its peers have seen why.
    if (found) {
      if (std::optional<Error> error = aborted()) return error;
    }
    return found;
  };
  for (std::int32_t core = 0; core < grid_->cores(); ++core) {
    fabrics_.push_back(parts.make_fabric(peers_, members_, Core{core}));
    workspaces_.emplace_back(kWorkspace);
  }
  tell_inspectors();
}

Communicator::~Communicator() = default;

std::span<std::byte> Communicator::local_bytes(Offset at, Bytes size) const {
  const std::uint64_t block = map().size.value();
  SHMOE_EXPECTS(size.value() <= block && at.value() <= block - size.value(),
                "bytes [{:#x}, +{}) lie outside the block of {} bytes: see the offset and the length", at.value(), size,
                block);
  return {peers_.mem[rank().index()] + at.value(), size.value()};
}

std::uint64_t abort_word(Rank rank, Errc code) {
  return (static_cast<std::uint64_t>(rank.value()) + 1) << 8 | static_cast<std::uint64_t>(code);
}

std::optional<Error> abort_seen_by(Rank member, const shmem::Peers& peers, std::span<const Rank> members) {
  const std::uint64_t word = shmem::load_slot(peers, member, peers.slots->abort().at(0, Rank{0}));
  if (word == 0) return std::nullopt;
  const Rank origin = aborting_rank(word);
  const bool proven = shmem::error_in(word) == Errc::deadlock;  // it is everybody's verdict
  const Errc code = proven ? Errc::deadlock : Errc::aborted;
  if (origin.index() >= members.size()) {
    return Error{.code = code,
                 .context = fmt::format("member {} of {} gave up, which there is not: something else than shmoe has "
                                        "written into rank {}",
                                        origin, members.size(), members[member.index()]),
                 .where = members[member.index()]};
  }
  const auto* reason = reinterpret_cast<const char*>(peers.mem[origin.index()] + peers.map->abort_text().value());
  const std::string_view text(reason, ::strnlen(reason, shmem::kErrorTextBytes));
  return Error{.code = code,
               .context = fmt::format("rank {} gave up: {}", members[origin.index()], text),
               .where = members[origin.index()]};
}

std::optional<Error> Communicator::aborted() const {
  const Slot slot = slots().abort().at(0, Rank{0});
  if (shmem::load_slot(peers_, rank(), slot) == 0) return std::nullopt;
  const std::lock_guard lock(abort_mutex_);
  if (!first_abort_) first_abort_ = abort_seen_by(rank(), peers_, members_);
  return first_abort_;
}

void Communicator::abort(const Error& reason, Core core) {
  if (aborted()) return;
  {
    // Two cores may fail at the same time; the text has room for one of them.
    const std::lock_guard lock(abort_mutex_);
    if (std::exchange(gave_up_, true)) return;
  }
  shmem::Fabric& fabric = *fabrics_[core.index()];
  char text[shmem::kErrorTextBytes] = {};
  to_string(reason).copy(text, sizeof text - 1);
  fabric.put(rank(), map().abort_text(), std::as_bytes(std::span{text}), reason.site);
  fabric.quiet(reason.site);
  const Slot slot = slots().abort().at(0, Rank{0});
  for (Rank member{0}; member.value() < ranks(); ++member) {
    fabric.signal(member, slot, shmem::SignalOp::set, abort_word(rank(), reason.code), reason.site);
  }
  for (Rank member{0}; !peers_.controls.empty() && member.value() < ranks(); ++member)
    shmem::wake_waiters(peers_, member);
}

void Communicator::run_block(Launch& launch, std::int32_t block, std::int32_t physical_core, Kernel kernel,
                             std::optional<Error>& failure) {
  shmem::Fabric& fabric = *fabrics_[static_cast<std::size_t>(physical_core)];
  CoreContext context(fabric, slots(), map(), profile_,
                      {.rank = rank(), .ranks = ranks(), .core = Core{block}, .cores = launch.blocks}, launch,
                      workspaces_[static_cast<std::size_t>(physical_core)]);
  fabric.actor({.kind = shmem::ActorEvent::Kind::enter,
                .op = launch.op,
                .round = Round{},
                .block = block,
                .blocks = launch.blocks},
               SourceSite::here());
  try {
    kernel(context);
  } catch (const Interrupted& interrupted) {
    failure = interrupted.error();
    // Whoever leaves alone would leave its peers waiting.
    if (!interrupted.agreed() && failure->code != Errc::aborted) abort(*failure, Core{physical_core});
    if (failure->code == Errc::deadlock && deadlocked_) deadlocked_(*failure, Core{physical_core});
  } catch (...) {
    failure = thrown_in(members_[rank().index()], Core{block});
    abort(*failure, Core{physical_core});
  }
}

void Communicator::keep_in_step(std::int32_t blocks) {
  if (profile_.idle_cores_catch_up) {
    std::array<std::byte, 16> rounds;
    shmem::Fabric& fabric = *fabrics_[0];
    for (Core core{cores_in_step_}; core.value() < blocks; ++core) {
      fabric.get(rank(), map().magic_of(Core{0}), rounds, SourceSite::here());
      fabric.put(rank(), map().magic_of(core), rounds, SourceSite::here());
    }
  }
  cores_in_step_ = blocks;
}

Result<void> Communicator::launch(std::string_view op, std::int32_t blocks, Kernel kernel) {
  SHMOE_EXPECTS(blocks >= 1 && blocks <= shmem::kMaxCores, "a launch of {} cores; 1 to {} are possible", blocks,
                shmem::kMaxCores);
  if (std::optional<Error> dead = aborted()) return *std::move(dead);
  const Grid::Claim grid = grid_->claim();
  keep_in_step(blocks);
  Launch state{.op = op,
               .communicator = id_,
               .blocks = blocks,
               .physical = cores(),
               .sync_base = shmem::load_slot(peers_, rank(), slots().sync_all().at(0, Rank{0})),
               .strict = peers_.strict,
               .sync_limit = peers_.wait_limit ? std::optional(2 * *peers_.wait_limit) : std::nullopt,
               .faults = cleared(faults_, blocks)};
  const std::span<std::optional<Error>> failures = cleared(failures_, blocks);
  // Whoever looks at the records must not take a core that has not begun yet for one that will never act.
  const auto tell = [&](Core core, shmem::ActorEvent::Kind kind) {
    const std::int32_t begun = kind == shmem::ActorEvent::Kind::start ? blocks : 0;
    fabrics_[core.index()]->actor({.kind = kind, .op = op, .round = Round{}, .block = core.value(), .blocks = begun},
                                  SourceSite::here());
  };
  for (Core core{0}; core.value() < std::min(blocks, cores()); ++core) tell(core, shmem::ActorEvent::Kind::start);
  grid.run([&](Core core) {
    if (core.value() >= blocks) return;
    for (std::int32_t block = core.value(); block < blocks; block += cores()) {
      run_block(state, block, core.value(), kernel, failures[static_cast<std::size_t>(block)]);
    }
    tell(core, shmem::ActorEvent::Kind::leave);
  });
  // The root cause before those that it only aborted.
  const std::optional<Error>* worst = nullptr;
  for (const std::optional<Error>& failure : failures) {
    if (!failure) continue;
    if (worst == nullptr || ((*worst)->code == Errc::aborted && failure->code != Errc::aborted)) worst = &failure;
  }
  if (worst == nullptr) return {};
  return Error(**worst).within(op);
}

Result<void> Communicator::barrier(std::int64_t agreement) {
  CallCard card("barrier");
  card.with("heap history", static_cast<std::int64_t>(heap_history())).with("agreement", agreement);
  return launch("barrier", [&](CoreContext& context) {
    ZeroBufferSync sync(context);
    sync.enter(card, std::nullopt);
  });
}

}  // namespace shmoe::runtime
