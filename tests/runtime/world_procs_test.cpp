// One rank of a job of processes, for world_procs.sh. Says in one line how it went.
//
//   barriers N          N rounds of put, barrier, check; then finalize
//   overlap N           N rounds on two communicators of 4 ranks, {0 1 2} and {1 2 3}
//   shrunk RANK         as overlap, but RANK cuts the block of the second communicator off its own segment
//   across              two communicators of all ranks, the last of which calls their barriers in another order
//   twice N             N rounds on each of two worlds of this process, which live at the same time
//   fork N              as barriers, but before each round every rank forks a child, which tries to take part and ends
//   compact N           N rounds in which blocks come and go, all are moved together, and peers read them
//   die RANK ROUND      as barriers 1000000, but RANK kills itself before that round
//   leave RANK ROUND    the same, but RANK returns from main
//   die-at-start        kills itself where it would remove the names of its segments

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/world.hpp"
#include "runtime/zero_buffer_sync.hpp"

using namespace shmoe;
using namespace shmoe::runtime;

namespace {

bool die_at_unlink = false;

struct Plan {
  int rounds = 0;
  int odd_rank = -1;
  int odd_round = 0;
  bool odd_dies = false;
  bool overlap = false;
  int shrinks = -1;
  bool compact = false;
  bool across = false;
  bool twice = false;
  bool fork = false;
};

[[noreturn]] void die() {
  std::fflush(stdout);
  std::raise(SIGKILL);
  std::abort();
}

Plan plan_of(const std::vector<std::string>& args) {
  if (args.size() == 2 && args[0] == "barriers") return {.rounds = std::stoi(args[1])};
  if (args.size() == 2 && args[0] == "overlap") return {.rounds = std::stoi(args[1]), .overlap = true};
  if (args.size() == 2 && args[0] == "shrunk") {
    return {.rounds = 1'000'000, .overlap = true, .shrinks = std::stoi(args[1])};
  }
  if (args.size() == 2 && args[0] == "compact") return {.rounds = std::stoi(args[1]), .compact = true};
  if (args.size() == 2 && args[0] == "twice") return {.rounds = std::stoi(args[1]), .twice = true};
  if (args.size() == 2 && args[0] == "fork") return {.rounds = std::stoi(args[1]), .fork = true};
  if (args.size() == 1 && args[0] == "across") return {.across = true};
  if (args.size() == 1 && args[0] == "die-at-start") {
    die_at_unlink = true;
    return {};
  }
  if (args.size() == 3 && (args[0] == "die" || args[0] == "leave")) {
    return {.rounds = 1'000'000,
            .odd_rank = std::stoi(args[1]),
            .odd_round = std::stoi(args[2]),
            .odd_dies = args[0] == "die"};
  }
  std::fputs(
      "usage: barriers N | overlap N | shrunk RANK | compact N | across | twice N | fork N | die RANK ROUND | leave "
      "RANK ROUND | "
      "die-at-start\n",
      stderr);
  std::exit(2);
}

/// Every rank writes the round into its cell of everybody's table, and finds everybody's after the barrier.
Result<void> one_round(Communicator& comm, Offset table, std::uint64_t round) {
  std::vector<int> wrong(static_cast<std::size_t>(comm.cores()));
  const Result<void> launched = comm.launch("round", [&](CoreContext& context) {
    ZeroBufferSync sync(context);
    const Slice mine = context.slice(context.ranks());
    for (std::int64_t dst = mine.first; dst < mine.last; ++dst) {
      context.put(Rank{dst}, table + Bytes{8 * context.rank().index()}, std::span<const std::uint64_t>{&round, 1});
    }
    const shmem::Witness everyone = sync.barrier_all();
    std::vector<std::uint64_t> found(static_cast<std::size_t>(context.ranks()));
    context.get(context.rank(), table, std::span{found}, everyone);
    for (const std::uint64_t word : found) wrong[context.core().index()] += word != round;
    sync.barrier_all();
  });
  if (!launched) return launched;
  for (const int count : wrong) {
    if (count != 0) return Error{.code = Errc::io, .context = fmt::format("round {}: {} wrong words", round, count)};
  }
  return {};
}

struct Group {
  Communicator* comm;
  Offset table;
};

/// The groups that this rank is in.
Result<std::vector<Group>> make_groups(World& world) {
  std::vector<Group> groups;
  for (int id = 1; id <= 2; ++id) {
    const std::vector<Rank> members{Rank{id - 1}, Rank{id}, Rank{id + 1}};
    if (std::find(members.begin(), members.end(), world.rank()) == members.end()) continue;
    const Result<Communicator*> comm = world.communicator(CommunicatorId{id}, members);
    if (!comm) return comm.error();
    const Result<Offset> table = (*comm)->allocate(Bytes{8 * members.size()});
    if (!table) return table.error();
    groups.push_back({*comm, *table});
  }
  return groups;
}

/// Blocks lie one behind the other, that of the last communicator at last.
void shrink_own_memory(int communicators) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string object = std::filesystem::read_symlink(entry, gone).string();
    if (object.find("/shmoe.") == object.npos || object.find(".mem") == object.npos) continue;
    const int file = std::stoi(entry.path().filename().string());
    struct stat status {};
    if (fstat(file, &status) != 0) continue;
    const off_t size = status.st_size / communicators * (communicators - 1);
    std::printf("shrunk to %lld bytes\n", static_cast<long long>(size));
    std::fflush(stdout);
    if (ftruncate(file, size) != 0) std::perror("ftruncate");
  }
}

/// Both groups use the same offsets and the same rounds, each with words of its own.
Result<void> overlap(World& world, const Plan& plan) {
  const Result<std::vector<Group>> groups = make_groups(world);
  if (!groups) return groups.error();
  if (Result<void> met = world.all().barrier(); !met) return met;
  if (world.rank() == Rank{plan.shrinks}) shrink_own_memory(world.config().communicators);
  for (int round = 1; round <= plan.rounds; ++round) {
    for (const Group& group : *groups) {
      const auto salt = static_cast<std::uint64_t>(group.comm->world_rank(Rank{0}).value() + 1) << 32;
      const Result<void> done = one_round(*group.comm, group.table, salt | static_cast<std::uint64_t>(round));
      if (!done) return done;
    }
    if (round % 20 != 0) continue;
    if (Result<void> met = world.all().barrier(); !met) return met;
  }
  return {};
}

Result<void> across(World& world) {
  std::vector<Rank> members;
  for (Rank rank{0}; rank.value() < world.ranks(); ++rank) members.push_back(rank);
  std::vector<Communicator*> batches;
  for (const int id : {1, 2}) {
    const Result<Communicator*> made = world.communicator(CommunicatorId{id}, members);
    if (!made) return made.error();
    batches.push_back(*made);
  }
  if (Result<void> met = world.all().barrier(); !met) return met;
  if (world.rank() == members.back()) std::swap(batches[0], batches[1]);
  for (Communicator* batch : batches) {
    if (Result<void> met = batch->barrier(); !met) return met;
  }
  return world.finalize();
}

struct Block {
  Offset at;
  std::uint64_t words;
  std::uint64_t round;  // it was allocated in

  [[nodiscard]] std::vector<std::uint64_t> content(Rank owner) const {
    std::vector<std::uint64_t> content(words);
    std::iota(content.begin(), content.end(), static_cast<std::uint64_t>(owner.value()) << 48 | round << 24);
    return content;
  }
};

/// Takes a movable block, and gives an old one back once there are eight.
Result<void> exchange_block(Communicator& comm, std::vector<Block>& blocks, std::uint64_t round) {
  if (blocks.size() == 8) {
    const auto old = blocks.begin() + static_cast<std::ptrdiff_t>(round * 5 % 8);
    if (Result<void> freed = comm.free(old->at); !freed) return freed;
    blocks.erase(old);
  }
  const std::uint64_t words = 1 + round * 7919 % 10'000;
  const Result<Offset> at = comm.allocate(shmem::bytes_of<std::uint64_t>(words), shmem::Mobility::movable);
  if (!at) return at.error();
  blocks.push_back({*at, words, round});
  std::ranges::copy(blocks.back().content(comm.rank()), comm.local<std::uint64_t>(*at, words).begin());
  return {};
}

/// Every rank reads all blocks of the next one.
Result<void> read_blocks(Communicator& comm, const std::vector<Block>& blocks) {
  int wrong = 0;
  const Result<void> launched = comm.launch("read", [&](CoreContext& context) {
    ZeroBufferSync sync(context);
    const shmem::Witness everyone = sync.barrier_all();
    const Rank next{(context.rank().value() + 1) % context.ranks()};
    for (const Block& block : blocks) {
      std::vector<std::uint64_t> found(block.words);
      context.get(next, block.at, std::span{found}, everyone);
      if (context.core() == Core{0}) wrong += found != block.content(next);
    }
    sync.barrier_all();
  });
  if (launched && wrong != 0) return Error{.code = Errc::io, .context = fmt::format("{} wrong blocks", wrong)};
  return launched;
}

Result<void> compact(Communicator& comm, int rounds) {
  std::vector<Block> blocks;
  std::size_t moved = 0;
  for (int round = 1; round <= rounds; ++round) {
    if (Result<void> taken = exchange_block(comm, blocks, static_cast<std::uint64_t>(round)); !taken) return taken;
    const Result<std::vector<shmem::Move>> moves = comm.compact();
    if (!moves) return moves.error();
    moved += moves->size();
    for (Block& block : blocks) block.at = shmem::place_after(*moves, block.at);
    if (Result<void> read = read_blocks(comm, blocks); !read) return read;
  }
  if (moved == 0) return Error{.code = Errc::io, .context = "nothing was ever moved"};
  return {};
}

Result<Group> with_table(Communicator& comm) {
  const Result<Offset> table = comm.allocate(Bytes{8 * static_cast<std::uint64_t>(comm.ranks())});
  if (!table) return table.error();
  return Group{&comm, *table};
}

/// Rounds of both worlds by turns. The second one ends first.
Result<void> twice(World& first, const Config& config, int rounds) {
  const Result<std::unique_ptr<World>> second = World::create(config);
  if (!second) return second.error();
  std::vector<Group> groups;
  for (World* world : {&first, second->get()}) {
    const Result<Group> group = with_table(world->all());
    if (!group) return group.error();
    groups.push_back(*group);
  }
  for (int round = 1; round <= rounds; ++round) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::uint64_t value = static_cast<std::uint64_t>(round) << i * 32;
      if (Result<void> done = one_round(*groups[i].comm, groups[i].table, value); !done) return done;
    }
  }
  return (*second)->finalize();
}

/// A child is no rank: a launch is refused there, and the end of its World leaves that of the parent as it is.
Result<void> fork_child(std::unique_ptr<World>& world) {
  const pid_t child = fork();
  if (child == 0) {
    bool refused = false;
    try {
      static_cast<void>(world->all().barrier());
    } catch (const ContractViolation& violation) {
      refused =
          std::string(violation.what()).find("a launch in a process that was forked from a rank") != std::string::npos;
    }
    world.reset();
    std::exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) return Error{.code = Errc::io, .context = fmt::format("a forked child ends with {}", status)};
  return {};
}

Result<std::string> run(const Plan& plan) {
  const Result<Config> config = Config::load();
  if (!config) return config.error();
  Result<std::unique_ptr<World>> world = World::create(*config);
  if (!world) return world.error();
  if (plan.overlap) {
    if (Result<void> done = overlap(**world, plan); !done) return done.error();
    if (Result<void> ended = (*world)->finalize(); !ended) return ended.error();
    return fmt::format("rank {} of {}: {} rounds", (*world)->rank(), (*world)->ranks(), plan.rounds);
  }
  if (plan.across) {
    if (Result<void> done = across(**world); !done) return done.error();
    return std::string("no deadlock");
  }
  if (plan.twice) {
    if (Result<void> done = twice(**world, *config, plan.rounds); !done) return done.error();
    if (Result<void> ended = (*world)->finalize(); !ended) return ended.error();
    return fmt::format("rank {} of {}: {} rounds", (*world)->rank(), (*world)->ranks(), plan.rounds);
  }
  Communicator& all = (*world)->all();
  if (plan.compact) {
    if (Result<void> done = compact(all, plan.rounds); !done) return done.error();
    if (Result<void> ended = (*world)->finalize(); !ended) return ended.error();
    return fmt::format("rank {} of {}: {} rounds", all.rank(), all.ranks(), plan.rounds);
  }
  const Result<Group> group = with_table(all);
  if (!group) return group.error();
  for (int round = 1; round <= plan.rounds; ++round) {
    if (plan.fork) {
      if (Result<void> alone = fork_child(*world); !alone) return alone.error();
    }
    if (round == plan.odd_round && all.rank() == Rank{plan.odd_rank}) {
      if (plan.odd_dies) die();
      return fmt::format("rank {} leaves", all.rank());
    }
    if (Result<void> done = one_round(all, group->table, static_cast<std::uint64_t>(round)); !done) return done.error();
  }
  if (Result<void> ended = (*world)->finalize(); !ended) return ended.error();
  return fmt::format("rank {} of {}: {} rounds", (*world)->rank(), (*world)->ranks(), plan.rounds);
}

}  // namespace

/// Stands in for the C library's, so that a rank can die between the creation of its segments and the end of their names.
extern "C" int shm_unlink(const char* name) {
  const std::string path = std::string("/dev/shm/") + (*name == '/' ? name + 1 : name);
  if (die_at_unlink) {
    if (access(path.c_str(), F_OK) == 0) std::printf("leaves %s\n", path.c_str());
    die();
  }
  return unlink(path.c_str());
}

int main(int argc, char** argv) {
  const Plan plan = plan_of({argv + 1, argv + argc});
  const Result<std::string> result = run(plan);
  std::puts(result ? result->c_str() : to_string(result.error()).c_str());
  return result ? 0 : 1;
}
