// Members that know the secret and break the rules: the job ends on every rank with one error that names them.

#include <climits>
#include <random>

#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;
using namespace std::string_view_literals;

Blob& operator+=(Blob& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

Blob frame(std::uint32_t length, Kind kind, std::uint32_t sequence, std::span<const std::byte> payload = {},
           std::uint32_t remaining_ms = 40'000) {
  const auto header = encode(Header{length, kind, sequence, remaining_ms});
  Blob bytes(header.begin(), header.end());
  return bytes += payload;
}

Blob failure(std::span<const std::byte> payload) {
  return frame(static_cast<std::uint32_t>(payload.size()), Kind::failure, 1, payload);
}

Blob failure_of(std::uint32_t code, std::uint32_t where, std::uint32_t sys, std::string_view text,
                std::uint32_t text_length) {
  Packer out;
  for (const std::uint32_t number : {code, where, sys, text_length}) out.u32(number);
  out.bytes(std::as_bytes(std::span(text)));
  return failure(out.take());
}

enum class Then { hold, close, reset };

/// Ranks 0 and 1 in their first exchange with a rank 2 that sends `bytes` after its welcome.
struct Attack {
  Job job{3};
  std::string who;  // "rank 2 at ADDRESS"

  Attack(const Blob& bytes, Then then, std::chrono::milliseconds timeout = 40s) {
    const auto body = [&](int rank) {
      auto config = job.config(rank);
      config.timeout = timeout;
      auto exchange = SocketExchange::connect(config);
      job.of(rank) = exchange ? outcome(exchange->all_gather(blob("x"))) : outcome(exchange);
    };
    std::thread server(body, 0);
    std::thread member(body, 1);
    const Meeting meeting = await_meeting(job.file);
    RawClient client(meeting.port);
    who = fmt::format("rank 2 at 127.0.0.1:{}", client.port());
    say_hello(client, meeting, 2, 3);
    CHECK(client.receive(kHeaderBytes).size() == kHeaderBytes);
    client.send(bytes);
    if (then == Then::close) client.close();
    if (then == Then::reset) client.reset();
    server.join();
    member.join();
    job.outcomes.resize(2);
  }
};

/// The attacker comes as rank 2 of 3 with `bytes`; ranks 0 and 1 tell the same.
struct Entry {
  Job job{3};
  std::string address;

  explicit Entry(const std::function<Blob(const Meeting&)>& bytes) {
    const auto body = [&](int rank) {
      auto config = job.config(rank);
      config.linger = 1s;
      job.of(rank) = outcome(SocketExchange::connect(config));
    };
    std::thread server(body, 0);
    const Meeting meeting = await_meeting(job.file);
    const RawClient client(meeting.port);
    address = fmt::format("127.0.0.1:{}", client.port());
    client.send(bytes(meeting));
    body(1);
    server.join();
    job.outcomes.resize(2);
  }
};

}  // namespace

TEST_CASE("frames that break the rules") {
  struct Case {
    Blob bytes;
    std::string part;
  };
  const std::string limit =
      " bytes to exchange 1, the limit is 1048576: contribute less, or raise the limit in "
      "ExchangeConfig on every rank";
  const std::string order = ", rank 0 in exchange 1: all ranks must make the same exchanges in the same order";
  const std::string none = " sent something that is no contribution: start the same build on every rank";
  Blob garbage(1U << 20, std::byte{0xa5});
  Blob wrong_magic = frame(1, Kind::contribution, 1, blob("x"));
  wrong_magic[0] ^= std::byte{1};
  const Case cases[] = {{frame(0xffff'ffffU, Kind::contribution, 1), " contributed 4294967295" + limit},
                        {frame(0x8000'0000U, Kind::contribution, 1), " contributed 2147483648" + limit},
                        {frame((1U << 20) + 1, Kind::contribution, 1), " contributed 1048577" + limit},
                        {frame(kLongestFailure + 1, Kind::failure, 1), " contributed 2065 bytes to exchange 1"},
                        {frame(0xffff'ffffU, Kind::failure, 1), " contributed 4294967295 bytes to exchange 1"},
                        {frame(1, Kind::contribution, 0, blob("x")), " is in exchange 0" + order},
                        {frame(1, Kind::contribution, 2, blob("x")), " is in exchange 2" + order},
                        {frame(1, Kind::contribution, UINT_MAX, blob("x")), " is in exchange 4294967295" + order},
                        {frame(1, Kind::result, 1, blob("x")), none},
                        {frame(0, Kind::welcome, 1), none},
                        {frame(1, static_cast<Kind>(0), 1, blob("x")), none},
                        {frame(1, static_cast<Kind>(9), 1, blob("x")), none},
                        {wrong_magic, none},
                        {garbage, none}};
  for (const auto& one : cases) {
    for (const Then then : {Then::hold, Then::close}) {
      const Attack attack(one.bytes, then);
      attack.job.check_same(attack.who + one.part);
    }
  }
}

TEST_CASE("frames with random changes end well or with one error that names their sender") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const Blob honest = frame(40, Kind::contribution, 1, Blob(40));
  const Blob sad = failure_of(6, 1, 0, "some text of a failure", 22);
  int ended_well = 0;
  for (int i = 0; i < 300; ++i) {
    Blob bytes = i % 3 == 0 ? sad : honest;
    for (std::size_t changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
    }
    if (i % 2 == 0) bytes.resize(random() % (bytes.size() + 1));
    const Attack attack(bytes, Then::close);
    const std::string& text = attack.job.outcomes[0];
    CHECK(text == attack.job.outcomes[1]);
    CHECK_MESSAGE((text == "ok" || text.find(attack.who) != std::string::npos), text);
    if (text == "ok") ++ended_well;
  }
  MESSAGE("seed " << seed << ": " << ended_well << " of 300 were a contribution all the same");
}

TEST_CASE("frames that break off") {
  const Blob whole = frame(100, Kind::contribution, 1, Blob(100));
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kHeaderBytes - 1, kHeaderBytes, whole.size() - 1}) {
    for (const Then then : {Then::close, Then::reset}) {
      const Attack attack(Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count)), then);
      attack.job.check_same("peer lost: " + attack.who + " left before exchange 1 was complete: see what it printed");
    }
  }
}

TEST_CASE("a contribution that never ends") {
  const Blob start = frame(100, Kind::contribution, 1, Blob(99));
  const Attack attack(start, Then::hold, 3s);
  attack.job.check_same("rank 2 of 3 did not contribute to exchange 1 within 3 s");
  attack.job.check_same("see where it is (at " + attack.who.substr(std::string_view("rank 2 at ").size()) +
                        "), or raise SHMOE_BOOTSTRAP_TIMEOUT_S");
}

TEST_CASE("a member with no time left is named, beside those that it does not wait for") {
  Job job(4);
  const auto body = [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    job.of(rank) = exchange ? outcome(exchange->all_gather(blob("x"))) : outcome(exchange);
  };
  std::thread server(body, 0);
  std::thread member(body, 1);
  const Meeting meeting = await_meeting(job.file);
  const RawClient hasty(meeting.port);
  const RawClient silent(meeting.port);
  say_hello(hasty, meeting, 2, 4);
  say_hello(silent, meeting, 3, 4);
  CHECK(hasty.receive(kHeaderBytes).size() == kHeaderBytes);
  hasty.send(frame(1, Kind::contribution, 1, blob("x"), 0));
  server.join();
  member.join();
  job.outcomes.resize(2);
  job.check_same("3 of 4 did not contribute to exchange 1 within ");
  job.check_same(fmt::format(", as long as rank 2 at 127.0.0.1:{} waits: see where ", hasty.port()));
}

TEST_CASE("a member that announces an absurd failure is named, and what it says is one line") {
  const std::string long_text(kMaxErrorText, 'x');
  struct Case {
    Blob bytes;
    std::string part;
  };
  const std::string unread =
      " gave up: a failure was announced that does not parse: start the same build on every rank";
  const Case cases[] = {
      {failure_of(6, 1, 0, "\x1b[2J\r\nrank 1 is \0the thief\x7f"sv, 27), " gave up: ?[2J??rank 1 is ?the thief?"},
      {failure_of(6, 0x7fff'ffff, 0, "no", 2), " gave up: no"},
      {failure_of(6, 0xffff'fffe, 0xffff'ffff, "no", 2), " gave up: no (Unknown error -1)"},
      {failure_of(6, 0, 0, "", 0), " gave up: "},
      {failure_of(3, 2, 0, long_text, kMaxErrorText), " gave up: xxxxxxxx"},
      {failure_of(6, 0, 0, "no", UINT_MAX), unread},
      {failure_of(0, 0, 0, "no", 2), unread},
      {failure_of(200, 0, 0, "no", 2), unread},
      {failure({}), unread},
      {failure(Blob(kLongestFailure, std::byte{0xff})), unread}};
  for (const auto& one : cases) {
    const Attack attack(one.bytes, Then::hold);
    attack.job.check_same(attack.who + one.part);
    CHECK(is_one_line(attack.job.outcomes[0]));
  }
}

TEST_CASE("hellos with the secret and something else wrong") {
  struct Case {
    std::function<void(Hello&)> spoil;
    std::string before;  // the address
    std::string after;
  };
  const std::string build = ": start the same build on every rank";
  const std::string own = "give every process its own rank";
  std::vector<Case> cases;
  for (const std::uint32_t protocol : {0U, 2U, UINT_MAX}) {
    cases.push_back({[=](Hello& hello) { hello.protocol = protocol; }, "version: rank 2 at ",
                     fmt::format(" speaks bootstrap protocol {}, rank 0 speaks 1{}", protocol, build)});
  }
  for (const std::uint32_t layout : {0U, 4U, UINT_MAX}) {
    cases.push_back({[=](Hello& hello) { hello.layout = layout; }, "version: rank 2 at ",
                     fmt::format(" has layout version {}, rank 0 has 3{}", layout, build)});
  }
  for (const std::int32_t size : {0, -1, 2, 4, INT_MAX, INT_MIN}) {
    cases.push_back(
        {[=](Hello& hello) { hello.size = size; }, "mismatch: rank 2 at ",
         fmt::format(" was started for {} ranks, rank 0 for 3: start every rank with the same size", size)});
  }
  for (const std::int32_t rank : {-1, 3, 4095, INT_MAX, INT_MIN}) {
    cases.push_back({[=](Hello& hello) { hello.rank = rank; }, "mismatch: the process at ",
                     fmt::format(" says it is rank {}, but the job has ranks 0 to 2: {}", rank, own)});
  }
  cases.push_back({[](Hello& hello) { hello.rank = 0; }, "mismatch: rank 0 was given twice, to the process at ",
                   " and to the one that listens: " + own});
  for (const auto& one : cases) {
    const Entry entry([&](const Meeting& meeting) {
      Hello hello = hello_of(meeting, 2, 3);
      one.spoil(hello);
      const auto bytes = encode(hello);
      return Blob(bytes.begin(), bytes.end());
    });
    entry.job.check_same(one.before + entry.address + one.after);
  }
}

TEST_CASE("a member that speaks before its welcome") {
  Job job(4);  // rank 3 never comes
  std::thread server([&] {
    auto config = job.config(0);
    config.linger = 1s;
    job.of(0) = outcome(SocketExchange::connect(config));
  });
  const Meeting meeting = await_meeting(job.file);
  std::thread member([&] { job.of(1) = outcome(SocketExchange::connect(job.config(1))); });
  const RawClient client(meeting.port);
  const auto hello = encode(hello_of(meeting, 2, 4));
  Blob bytes(hello.begin(), hello.end());
  client.send(bytes += frame(1, Kind::contribution, 1, blob("x")));
  server.join();
  member.join();
  job.outcomes.resize(2);
  job.check_same(
      fmt::format("peer lost: rank 2 at 127.0.0.1:{} spoke out of turn before all 4 ranks had arrived: start "
                  "the same build on every rank",
                  client.port()));
}

TEST_CASE("a hello that is replayed while ranks are missing names both addresses on every rank") {
  Job job(4);  // rank 3 never comes
  std::thread server([&] {
    auto config = job.config(0);
    config.linger = 1s;
    job.of(0) = outcome(SocketExchange::connect(config));
  });
  const Meeting meeting = await_meeting(job.file);
  const RawClient original(meeting.port);
  say_hello(original, meeting, 2, 4);
  const RawClient copy(meeting.port);
  say_hello(copy, meeting, 2, 4);
  job.of(1) = outcome(SocketExchange::connect(job.config(1)));
  server.join();
  job.outcomes.resize(2);
  const auto addresses = [](const RawClient& second, const RawClient& first) {
    return fmt::format(
        "rank 2 was given twice, to the process at 127.0.0.1:{} and to the one at 127.0.0.1:{}: give every "
        "process its own rank",
        second.port(), first.port());
  };
  job.check_same("rank 2 was given twice");
  const bool in_order = job.of(0).ends_with(addresses(copy, original));
  CHECK_MESSAGE((in_order || job.of(0).ends_with(addresses(original, copy))), job.of(0));
  CHECK(original.receive(kHeaderBytes).size() == kHeaderBytes);
  CHECK(copy.receive(kHeaderBytes).size() == kHeaderBytes);
}

TEST_CASE("a hello that is replayed when all have come finds the door shut, and the job goes on") {
  Job job(2);
  std::thread server([&] {
    auto exchange = SocketExchange::connect(job.config(0));
    job.of(0) = exchange ? outcome(exchange->all_gather(blob("0"))) : outcome(exchange);
  });
  const Meeting meeting = await_meeting(job.file);
  const RawClient original(meeting.port);
  say_hello(original, meeting, 1, 2);
  CHECK(original.receive(kHeaderBytes).size() == kHeaderBytes);
  for (int i = 0; i < 100; ++i) {
    const RawClient copy(meeting.port);
    CHECK_FALSE(copy.connected());
  }
  original.send(frame(1, Kind::contribution, 1, blob("x")));
  server.join();
  CHECK(job.of(0) == "ok");
}

TEST_CASE("a member that takes no result is named in the next exchange") {
  Job job(3);
  const auto body = [&](int rank) {
    auto config = job.config(rank);
    config.timeout = 3s;
    config.max_contribution = 16U << 20;
    auto exchange = SocketExchange::connect(config);
    const Blob mine(rank == 0 ? 16U << 20 : 1);
    const auto one = exchange ? exchange->all_gather(mine) : Result<std::vector<Blob>>(exchange.error());
    job.of(rank) = one ? outcome(exchange->all_gather(blob("x"))) : outcome(one);
  };
  std::thread server(body, 0);
  std::thread member(body, 1);
  const Meeting meeting = await_meeting(job.file);
  const RawClient client(meeting.port);
  say_hello(client, meeting, 2, 3);
  CHECK(client.receive(kHeaderBytes).size() == kHeaderBytes);
  client.send(frame(1, Kind::contribution, 1, blob("x")));
  server.join();
  member.join();
  job.outcomes.resize(2);
  job.check_same(
      fmt::format("deadline passed: rank 2 at 127.0.0.1:{} did not take the result of exchange 1 in time: see "
                  "where it is",
                  client.port()));
}

}  // namespace shmoe::bootstrap
