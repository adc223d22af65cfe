// The worked examples of the published detour collectives, number by number: what each core sends, waits for and sums up,
// in whose window and where, and what lies there in the end.

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "ops/detour/published.hpp"
#include "ops/detour/window.hpp"
#include "runtime/world.hpp"
#include "shmem/number.hpp"
#include "shmem/passing_fabric.hpp"
#include "tests/runtime/support.hpp"

using namespace shmoe;

namespace {

constexpr std::int32_t kWorkedRanks = 4;
/// Of magic 1.
constexpr std::uint64_t first_word(std::uint64_t value = 1) { return (std::uint64_t{1} << 32) | value; }
constexpr std::uint16_t kUntouched = 0xA5A5;

using Halves = std::vector<std::uint16_t>;
using Numbers = std::vector<float>;

Numbers count_from(float first, float step, std::size_t count) {
  Numbers values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(first + step * static_cast<float>(i));
  return values;
}
Halves halves(const Numbers& values) {
  Halves bits;
  for (const float value : values) bits.push_back(shmem::float_to_fp16(value));
  return bits;
}
template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

/// What a core does in the windows, in order; offsets count from where a window begins.
using Deeds = std::vector<std::string>;
/// Rank and core.
using Seat = std::pair<std::int32_t, std::int32_t>;

/// In whose window, where.
using Place = std::pair<std::int32_t, std::uint64_t>;

std::string put_text(std::int32_t memory, std::uint64_t data, std::uint64_t bytes) {
  return fmt::format("puts {} bytes at {} of {}", bytes, data, memory);
}
std::string set_text(std::int32_t memory, std::uint64_t flag, std::uint64_t word) {
  return fmt::format("sets {} of {} to {:#x}", flag, memory, word);
}
std::string wait_text(std::int32_t memory, std::uint64_t flag, std::uint64_t word) {
  return fmt::format("awaits {:#x} at {} of {}", word, flag, memory);
}

/// A call as a fabric sees it.
struct Noted {
  enum class Kind : std::uint8_t { put, set, wait } kind;
  Rank memory;
  Offset at;            // of a put
  Slot slot;            // of the others
  std::uint64_t count;  // bytes, or the word
};
using Notes = std::map<Seat, std::vector<Noted>>;

/// Writes down the calls of one core.
class NotingFabric final : public shmem::PassingFabric {
 public:
  NotingFabric(std::unique_ptr<shmem::Fabric> next, std::vector<Noted>& notes)
      : PassingFabric(std::move(next)), notes_(&notes) {}

  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override {
    notes_->push_back({Noted::Kind::put, dst, to, {}, from.size()});
    next().put(dst, to, from, site);
  }
  void signal(Rank dst, Slot slot, shmem::SignalOp op, std::uint64_t value, SourceSite site) override {
    notes_->push_back({Noted::Kind::set, dst, {}, slot, value});
    next().signal(dst, slot, op, value, site);
  }
  Result<shmem::Arrival> wait(const shmem::WaitSpec& spec, SourceSite site) override {
    notes_->push_back({Noted::Kind::wait, spec.where, {}, spec.slots.front(), spec.value});
    return next().wait(spec, site);
  }

 private:
  std::vector<Noted>* notes_;
};

Deeds deeds_of(const runtime::Communicator& comm, const std::vector<Noted>& notes) {
  const shmem::Region window = comm.map().ipc_data;
  Deeds deeds;
  for (const Noted& note : notes) {
    const Offset at = note.kind == Noted::Kind::put ? note.at : comm.slots().offset_of(note.slot);
    if (at < window.at || at >= window.end()) continue;
    const std::uint64_t offset = (at - window.at).value();
    if (note.kind == Noted::Kind::put) deeds.push_back(put_text(note.memory.value(), offset, note.count));
    if (note.kind == Noted::Kind::set) deeds.push_back(set_text(note.memory.value(), offset, note.count));
    if (note.kind == Noted::Kind::wait) deeds.push_back(wait_text(note.memory.value(), offset, note.count));
  }
  return deeds;
}

/// A line of the tables: shard or own chunk -> data in the window of `memory`, then the flag there.
struct Send {
  Seat seat;
  std::int32_t memory;
  std::uint64_t flag, data, bytes;
};
/// Where a source's shard lies and its flag.
struct Source {
  std::int32_t memory;
  std::uint64_t flag;
};
struct Reduce {
  Seat seat;
  std::vector<Source> sources;  // one a step
  std::uint64_t start, progress, sums, bytes;
};

struct Worked {
  std::vector<Rank> members;
  std::size_t elements = 0;
  std::function<float(Rank, std::size_t)> input;
  bool reduces = false;
  std::map<std::int32_t, Halves> outputs = {};  // of the members
  bool any_deeds = false;                       // what the cores do is not looked at
  std::map<Seat, Deeds> deeds = {};             // nothing: it does nothing
  std::map<Place, std::vector<std::byte>> rows = {};
  std::map<Place, std::uint64_t> words = {};
};

void add(Worked& worked, const Send& send) {
  Deeds& deeds = worked.deeds[send.seat];
  deeds.push_back(put_text(send.memory, send.data, send.bytes));
  deeds.push_back(set_text(send.memory, send.flag, first_word()));
}

void add(Worked& worked, const Reduce& reduce) {
  Deeds& deeds = worked.deeds[reduce.seat];
  const std::int32_t own = reduce.seat.first;
  std::uint64_t step = 0;
  for (const Source& source : reduce.sources) {
    deeds.push_back(step == 0 ? wait_text(own, reduce.start, first_word())
                              : wait_text(own, reduce.progress, first_word(step)));
    deeds.push_back(wait_text(source.memory, source.flag, first_word()));
    deeds.push_back(put_text(own, reduce.sums, reduce.bytes));
    deeds.push_back(set_text(own, reduce.progress, first_word(++step)));
  }
  deeds.push_back(wait_text(own, reduce.progress, first_word(step)));
}

/// More than any of the examples has work for.
constexpr std::int32_t kLaunched = 7;

runtime::Config worked_config() {
  runtime::Config config = runtime::test::small_config(kLaunched, kFaithful202607);
  config.ipc_data = Bytes{204 * shmem::kMiB};
  config.communicators = 1;
  config.declare_slots = ops::declare_published_detours;
  return config;
}

Result<void> call_worked(runtime::Communicator& comm, const Worked& worked, Halves& y) {
  const Result<shmem::Region> window = ops::allocate_window(comm);
  if (!window) return window.error();
  const ops::DetourShape shape{.members = worked.members,
                               .type = ops::Element::fp16,
                               .elements = static_cast<std::int64_t>(worked.elements),
                               .window = *window};
  Numbers input;
  for (std::size_t i = 0; i < worked.elements; ++i) input.push_back(worked.input(comm.rank(), i));
  const Halves x = halves(input);
  const auto from = std::as_bytes(std::span{x});
  const auto to = std::as_writable_bytes(std::span{y});
  return worked.reduces ? ops::reduce_scatter_detour(comm, {.shape = shape, .x = from, .y = to})
                        : ops::all_to_all_detour(comm, {.shape = shape, .x = from, .y = to});
}

void check_windows(runtime::Communicator& comm, const Worked& worked) {
  const Offset window = comm.map().ipc_data.at;
  for (const auto& entry : worked.rows) {
    const std::int32_t rank = entry.first.first;
    const std::uint64_t offset = entry.first.second;
    const std::vector<std::byte>& row = entry.second;
    if (rank != comm.rank().value()) continue;
    CAPTURE(rank);
    CAPTURE(offset);
    const auto seen = comm.local<std::byte>(window + Bytes{offset}, row.size() + 8);
    CHECK(std::equal(row.begin(), row.end(), seen.begin()));
    for (const std::byte behind : seen.last(8)) CHECK(behind == std::byte{0});  // no byte more
  }
  for (const auto& entry : worked.words) {
    const std::int32_t rank = entry.first.first;
    const std::uint64_t offset = entry.first.second;
    if (rank != comm.rank().value()) continue;
    CAPTURE(rank);
    CAPTURE(offset);
    CHECK(comm.local<std::uint64_t>(window + Bytes{offset}, 1)[0] == entry.second);
  }
}

/// One call with magic 1. What each core did.
std::map<Seat, Deeds> check_worked(const Worked& worked) {
  Notes notes;
  std::map<Seat, Deeds> seen;
  for (std::int32_t rank = 0; rank < kWorkedRanks; ++rank) {
    for (std::int32_t core = 0; core < kLaunched; ++core) {
      notes[{rank, core}];
      seen[{rank, core}];
    }
  }
  runtime::test::HostBarrier meet(kWorkedRanks);
  const auto body = [&](runtime::World& world) -> Result<void> {
    runtime::Communicator& comm = world.all();
    runtime::test::start_from_zero(comm, meet);
    const auto expected = worked.outputs.find(comm.rank().value());
    Halves y(expected == worked.outputs.end() ? 0 : expected->second.size(), kUntouched);
    if (Result<void> done = call_worked(comm, worked, y); !done) return done;
    if (expected != worked.outputs.end()) CHECK(y == expected->second);
    meet.arrive_and_wait();
    for (std::int32_t core = 0; core < kLaunched; ++core) {
      const Seat seat{comm.rank().value(), core};
      seen.at(seat) = deeds_of(comm, notes.at(seat));
      if (worked.any_deeds) continue;
      const auto planned = worked.deeds.find(seat);
      CHECK(seen.at(seat) == (planned == worked.deeds.end() ? Deeds{} : planned->second));
    }
    check_windows(comm, worked);
    meet.arrive_and_wait();
    return {};
  };
  const auto decorate = [&](std::unique_ptr<shmem::Fabric> next, Rank rank,
                            Core core) -> std::unique_ptr<shmem::Fabric> {
    return std::make_unique<NotingFabric>(std::move(next), notes.at({rank.value(), core.value()}));
  };
  runtime::test::check_all_well(runtime::test::run_ranks(kWorkedRanks, worked_config(), body, decorate));
  return seen;
}

/// Of a rank: cores that send, cores that reduce, and those that have anything to do.
struct Roles {
  std::ptrdiff_t in2 = 0, red = 0, need = 0;
  bool operator==(const Roles&) const = default;
};
Roles roles_of(const std::map<Seat, Deeds>& deeds, std::int32_t rank) {
  Roles roles{.in2 = 0, .red = 1, .need = 0};  // core 0 counts among those that reduce
  for (const auto& [seat, own] : deeds) {
    if (seat.first != rank || own.empty()) continue;
    ++roles.need;
    if (own.front().starts_with("puts")) ++roles.in2;
    if (std::ranges::any_of(own, [](const std::string& deed) { return deed.starts_with("awaits"); })) ++roles.red;
  }
  return roles;
}

float hundreds(Rank rank, std::size_t i) { return static_cast<float>(100 * rank.index() + i); }

/// Of two ranks out of four: chunks of `per`, the rest of each output untouched.
Halves exchanged(std::int32_t rank, std::size_t per, std::size_t elements) {
  Numbers values = count_from(static_cast<float>(per) * static_cast<float>(rank), 1, per);
  const Numbers other = count_from(100 + values.front(), 1, per);
  values.insert(values.end(), other.begin(), other.end());
  Halves y = halves(values);
  y.resize(elements, kUntouched);
  return y;
}

}  // namespace

TEST_CASE("published all-to-all: 22 elements between ranks 0 and 1 of four, core by core") {
  Worked worked{.members = {Rank{0}, Rank{1}}, .elements = 22, .input = hundreds};
  worked.outputs = {{0, exchanged(0, 11, 22)}, {1, exchanged(1, 11, 22)}};
  constexpr std::uint64_t kFlag01 = 20'054'016, kData01 = 22'151'168;
  constexpr std::uint64_t kFlag10 = 60'162'080, kData10 = 62'259'200;
  const Send table[] = {{{0, 1}, 1, kFlag01, kData01, 8}, {{0, 2}, 2, kFlag01, kData01, 8},
                        {{0, 3}, 3, kFlag01, kData01, 6}, {{1, 1}, 0, kFlag10, kData10, 8},
                        {{1, 2}, 2, kFlag10, kData10, 8}, {{1, 3}, 3, kFlag10, kData10, 6}};
  for (const Send& send : table) {
    add(worked, send);
    const bool first = send.seat.first == 0;
    // The same shard of the other rank.
    const std::int32_t memory = send.seat.second == 1 ? send.seat.first : send.memory;
    worked.deeds[send.seat].push_back(wait_text(memory, first ? kFlag10 : kFlag01, first_word()));
  }
  worked.rows = {
      {{1, kData01}, bytes_of(halves({11, 12, 13, 14}))},     {{2, kData01}, bytes_of(halves({15, 16, 17, 18}))},
      {{3, kData01}, bytes_of(halves({19, 20, 21}))},         {{0, kData10}, bytes_of(halves({100, 101, 102, 103}))},
      {{2, kData10}, bytes_of(halves({104, 105, 106, 107}))}, {{3, kData10}, bytes_of(halves({108, 109, 110}))}};
  worked.words = {{{0, kFlag01}, 0}, {{1, kFlag10}, 0}, {{0, kFlag10}, first_word()}, {{1, kFlag01}, first_word()}};
  for (const std::int32_t lender : {2, 3}) {
    for (const std::uint64_t flag : {kFlag01, kFlag10}) {
      worked.words[{lender, flag}] = first_word();
    }
  }
  check_worked(worked);
}

TEST_CASE("published all-to-all: the table of lengths: shards of two detours, and the tail that is lost (H24)") {
  struct Line {
    std::size_t elements, per, shards[3], lost;
  };
  const Line table[] = {{2, 1, {1, 0, 0}, 0}, {3, 1, {1, 0, 0}, 1}, {4, 2, {1, 1, 0}, 0},  {5, 2, {1, 1, 0}, 1},
                        {6, 3, {1, 1, 1}, 0}, {8, 4, {2, 2, 0}, 0}, {10, 5, {2, 2, 1}, 0}, {23, 11, {4, 4, 3}, 1}};
  for (const Line& line : table) {
    CAPTURE(line.elements);
    CHECK(line.elements - 2 * line.per == line.lost);
    Worked worked{.members = {Rank{0}, Rank{1}}, .elements = line.elements, .input = hundreds};
    worked.outputs = {{0, exchanged(0, line.per, line.elements)}, {1, exchanged(1, line.per, line.elements)}};
    for (std::int32_t shard = 0; shard < 3; ++shard) {
      const std::size_t length = line.shards[shard];
      if (length == 0) continue;
      const std::int32_t lender = shard + 1;  // of shard 0 there is none
      add(worked, Send{{0, shard + 1}, shard == 0 ? 1 : lender, 20'054'016, 22'151'168, 2 * length});
      add(worked, Send{{1, shard + 1}, shard == 0 ? 0 : lender, 60'162'080, 62'259'200, 2 * length});
      worked.deeds[{0, shard + 1}].push_back(wait_text(shard == 0 ? 0 : lender, 60'162'080, first_word()));
      worked.deeds[{1, shard + 1}].push_back(wait_text(shard == 0 ? 1 : lender, 20'054'016, first_word()));
    }
    check_worked(worked);
  }
}

TEST_CASE("published reduce-scatter: 20 elements between ranks 0 and 1 of four, core by core") {
  Worked worked{.members = {Rank{0}, Rank{1}}, .elements = 20, .input = hundreds, .reduces = true};
  worked.outputs = {{0, halves(count_from(100, 2, 10))}, {1, halves(count_from(120, 2, 10))}};
  constexpr std::uint64_t kFlag01 = 20'054'016, kData01 = 22'151'168;
  constexpr std::uint64_t kFlag10 = 60'162'080, kData10 = 62'259'200;
  const Send sends[] = {{{0, 0}, 0, 6'684'672, 8'781'824, 40},   {{0, 1}, 1, kFlag01, kData01, 8},
                        {{0, 2}, 2, kFlag01, kData01, 8},        {{0, 3}, 3, kFlag01, kData01, 4},
                        {{1, 0}, 1, 73'531'424, 75'628'544, 40}, {{1, 1}, 0, kFlag10, kData10, 8},
                        {{1, 2}, 2, kFlag10, kData10, 8},        {{1, 3}, 3, kFlag10, kData10, 4}};
  for (const Send& send : sends) add(worked, send);
  const Reduce reduces[] = {{{0, 1}, {{0, kFlag10}}, 6'684'672, 6'686'336, 8'781'824, 16},
                            {{0, 2}, {{2, kFlag10}}, 6'684'672, 6'686'336, 8'781'840, 16},
                            {{0, 3}, {{3, kFlag10}}, 6'684'672, 6'686'336, 8'781'856, 8},
                            {{1, 1}, {{1, kFlag01}}, 73'531'424, 73'533'088, 75'628'544, 16},
                            {{1, 2}, {{2, kFlag01}}, 73'531'424, 73'533'088, 75'628'560, 16},
                            {{1, 3}, {{3, kFlag01}}, 73'531'424, 73'533'088, 75'628'576, 8}};
  for (const Reduce& reduce : reduces) add(worked, reduce);
  worked.rows = {{{0, 8'781'824}, bytes_of(count_from(100, 2, 10))},
                 {{1, 75'628'544}, bytes_of(count_from(120, 2, 10))},
                 {{1, kData01}, bytes_of(halves({10, 11, 12, 13}))},
                 {{2, kData01}, bytes_of(halves({14, 15, 16, 17}))},
                 {{3, kData01}, bytes_of(halves({18, 19}))},
                 {{0, kData10}, bytes_of(halves({100, 101, 102, 103}))},
                 {{2, kData10}, bytes_of(halves({104, 105, 106, 107}))},
                 {{3, kData10}, bytes_of(halves({108, 109}))}};
  worked.words = {{{0, 6'686'336}, first_word()}, {{1, 73'533'088}, first_word()}};
  for (const Send& send : sends) worked.words[{send.memory, send.flag}] = first_word();
  const auto deeds = check_worked(worked);
  for (const std::int32_t rank : {0, 1}) CHECK(roles_of(deeds, rank) == Roles{.in2 = 4, .red = 4, .need = 4});
}

TEST_CASE("published reduce-scatter: elements behind the last whole chunk are left out (H24)") {
  // 8 elements of ranks 0, 1 and 3: chunks of 2, and elements 6 and 7 go nowhere.
  Worked worked{.members = {Rank{0}, Rank{1}, Rank{3}}, .elements = 8, .input = hundreds, .reduces = true};
  worked.outputs = {{0, halves({400, 403})}, {1, halves({406, 409})}, {3, halves({412, 415})}};
  worked.any_deeds = true;
  check_worked(worked);
}

TEST_CASE("published reduce-scatter: 24 elements between ranks 0, 1 and 3 of four, core by core") {
  Worked worked{.members = {Rank{0}, Rank{1}, Rank{3}},
                .elements = 24,
                .input = [](Rank rank, std::size_t i) { return static_cast<float>((i + 1) * (rank.index() + 1)); },
                .reduces = true};
  worked.outputs = {
      {0, halves(count_from(7, 7, 8))}, {1, halves(count_from(63, 7, 8))}, {3, halves(count_from(119, 7, 8))}};
  const Send sends[] = {{{0, 0}, 0, 6'684'672, 8'781'824, 32},     {{0, 1}, 1, 20'054'016, 22'151'168, 8},
                        {{0, 2}, 2, 20'054'016, 22'151'168, 8},    {{0, 3}, 3, 46'792'704, 48'889'856, 8},
                        {{0, 4}, 2, 46'792'704, 48'889'856, 8},    {{1, 0}, 1, 73'531'424, 75'628'544, 32},
                        {{1, 1}, 0, 60'162'080, 62'259'200, 8},    {{1, 2}, 2, 60'162'080, 62'259'200, 8},
                        {{1, 3}, 3, 100'270'112, 102'367'232, 8},  {{1, 4}, 2, 100'270'112, 102'367'232, 8},
                        {{3, 0}, 3, 207'224'928, 209'321'984, 32}, {{3, 1}, 0, 167'116'896, 169'213'952, 8},
                        {{3, 2}, 2, 167'116'896, 169'213'952, 8},  {{3, 3}, 1, 180'486'240, 182'583'296, 8},
                        {{3, 4}, 2, 180'486'240, 182'583'296, 8}};
  for (const Send& send : sends) {
    add(worked, send);
    worked.words[{send.memory, send.flag}] = first_word();
    if (send.seat.second == 0) continue;
    // Cores 1 and 2 send to the first of the others, 3 and 4 to the second; positions 0, 1, 2 get inputs from 0, 8, 16 on.
    const std::int32_t position = std::min(send.seat.first, 2);
    const std::int32_t other = (send.seat.second - 1) / 2;
    const std::int32_t target = other < position ? other : other + 1;
    const auto first = static_cast<float>(8 * target + 4 * ((send.seat.second - 1) % 2) + 1);
    const auto factor = static_cast<float>(send.seat.first + 1);
    worked.rows[{send.memory, send.data}] = bytes_of(halves(count_from(first * factor, factor, 4)));
  }
  const Reduce reduces[] = {{{0, 1}, {{0, 60'162'080}, {0, 167'116'896}}, 6'684'672, 6'686'336, 8'781'824, 16},
                            {{0, 2}, {{2, 60'162'080}, {2, 167'116'896}}, 6'684'672, 6'686'336, 8'781'840, 16},
                            {{1, 1}, {{1, 180'486'240}, {1, 20'054'016}}, 73'531'424, 73'533'088, 75'628'544, 16},
                            {{1, 2}, {{2, 180'486'240}, {2, 20'054'016}}, 73'531'424, 73'533'088, 75'628'560, 16},
                            {{3, 1}, {{3, 46'792'704}, {3, 100'270'112}}, 207'224'928, 207'226'592, 209'321'984, 16},
                            {{3, 2}, {{2, 46'792'704}, {2, 100'270'112}}, 207'224'928, 207'226'592, 209'322'000, 16}};
  for (const Reduce& reduce : reduces) {
    add(worked, reduce);
    worked.words[{reduce.seat.first, reduce.progress}] = first_word(2);
  }
  worked.rows[{0, 8'781'824}] = bytes_of(count_from(7, 7, 8));
  worked.rows[{1, 75'628'544}] = bytes_of(count_from(63, 7, 8));
  worked.rows[{3, 209'321'984}] = bytes_of(count_from(119, 7, 8));
  const auto deeds = check_worked(worked);
  for (const std::int32_t rank : {0, 1, 3}) CHECK(roles_of(deeds, rank) == Roles{.in2 = 5, .red = 3, .need = 5});
}
