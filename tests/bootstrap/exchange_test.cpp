#include "bootstrap/socket_exchange.hpp"

#include <csignal>
#include <fstream>
#include <latch>
#include <memory>

#include <doctest/doctest.h>

#include "bootstrap/wire.hpp"
#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

}  // namespace

TEST_CASE("everyone gets everyone's contribution, of any size, in rank order") {
  Job job(5);
  on_threads(0, job.size(), [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    job.of(rank) = outcome(exchange);
    for (int round = 0; exchange && round < 20; ++round) {
      const auto all =
          exchange->all_gather(Blob(static_cast<std::size_t>(rank * round * 100), static_cast<std::byte>(rank)));
      if (!all) job.of(rank) = outcome(all);
      for (int from = 0; all && from < job.size(); ++from) {
        if ((*all)[static_cast<std::size_t>(from)] !=
            Blob(static_cast<std::size_t>(from * round * 100), static_cast<std::byte>(from))) {
          job.of(rank) = "wrong bytes";
        }
      }
    }
  });
  job.check_same("ok");
  CHECK(job.folder.entries() == 0);
}

TEST_CASE("contributions far larger than socket buffers") {
  Job job(3);
  on_threads(0, job.size(), [&](int rank) {
    auto config = job.config(rank);
    config.max_contribution = 8U << 20;
    auto exchange = SocketExchange::connect(config);
    const Blob mine(8U << 20, static_cast<std::byte>(rank));
    const auto all = exchange ? exchange->all_gather(mine) : Result<std::vector<Blob>>(exchange.error());
    job.of(rank) = all && (*all)[static_cast<std::size_t>(rank)] == mine ? "ok" : outcome(all);
  });
  job.check_same("ok");
}

TEST_CASE("a job of one rank opens no socket") {
  auto exchange = SocketExchange::connect(config_of(0, 1, "/nowhere/at/all"));
  REQUIRE(exchange.has_value());
  CHECK(text_of(exchange->all_gather(blob("alone"))->front()) == "alone");
  exchange->close();
  CHECK_FALSE(exchange->all_gather({}).has_value());
}

TEST_CASE("two jobs at once do not meet") {
  const TemporaryFolder folder;
  std::vector<std::string> seen(6);
  on_threads(0, 6, [&](int thread) {
    const int rank = thread / 2;
    const std::string name = thread % 2 == 0 ? "even" : "odd";
    auto exchange = SocketExchange::connect(config_of(rank, 3, meeting_path(folder.path(), name)));
    const auto all = exchange ? exchange->all_gather(blob(name)) : Result<std::vector<Blob>>(exchange.error());
    auto& text = seen[static_cast<std::size_t>(thread)];
    if (!all) text = outcome(all);
    for (int from = 0; all && from < 3; ++from) text += test::text_of((*all)[static_cast<std::size_t>(from)]);
  });
  for (std::size_t thread = 0; thread < seen.size(); ++thread)
    CHECK(seen[thread] == (thread % 2 == 0 ? "eveneveneven" : "oddoddodd"));
}

TEST_CASE("jobs one after the other on one given address") {
  // A port that was free a moment ago.
  std::uint16_t port = 0;
  {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port = ntohs(address.sin_port);
    ::close(fd);
  }
  Job job(4);
  const Endpoint endpoint{
      EndpointKind::given_address, "SHMOE_COMM_ID", Address{{127, 0, 0, 1}, port}, hashed_secret("s"), {}};
  on_threads(0, job.size(), [&](int rank) {
    for (int round = 0; round < 10 && (round == 0 || job.of(rank) == "ok"); ++round) {
      auto config = job.config(rank);
      config.endpoint = endpoint;
      auto exchange = SocketExchange::connect(config);
      job.of(rank) = exchange ? outcome(exchange->all_gather(blob("x"))) : outcome(exchange);
    }
  });
  job.check_same("ok");

  auto config = job.config(0);
  config.endpoint = endpoint;
  const int holder = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  ::setsockopt(holder, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  REQUIRE(::bind(holder, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(holder, 1) == 0);
  const auto taken = SocketExchange::connect(config);
  REQUIRE_FALSE(taken.has_value());
  CHECK(taken.error().code == Errc::already_exists);
  CHECK(taken.error().context.find(endpoint.address.text()) != std::string::npos);
  ::close(holder);
}

TEST_CASE("strangers are dropped and named, and the job goes on") {
  Job job(3);
  std::vector<std::string> strangers;
  std::thread server([&] {
    auto config = job.config(0);
    config.hello_timeout = 200ms;
    auto exchange = SocketExchange::connect(config);
    job.of(0) = exchange ? outcome(exchange->all_gather(blob("0"))) : outcome(exchange);
    if (exchange) strangers = exchange->strangers();
  });
  const Meeting meeting = await_meeting(job.file);
  {
    const RawClient garbage(meeting.port);
    garbage.send(Blob(64, std::byte{0x5a}));
    garbage.await_end();
    const RawClient flood(meeting.port);
    flood.send(Blob(1U << 20, std::byte{0xff}));
    flood.await_end();
    const RawClient silent(meeting.port);
    silent.await_end();
    const RawClient slow(meeting.port);
    slow.send(Blob(63, std::byte{1}));
    slow.await_end();
    RawClient brief(meeting.port);
    brief.close();
    const RawClient impostor(meeting.port);
    Meeting guess = meeting;
    guess.secret.bytes[15] ^= std::byte{1};
    say_hello(impostor, guess, 1, 3);
    impostor.await_end();
  }
  on_threads(1, 3, [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    job.of(rank) = exchange ? outcome(exchange->all_gather(blob("x"))) : outcome(exchange);
  });
  server.join();
  job.check_same("ok");
  std::string all;
  for (const auto& stranger : strangers) {
    CHECK(stranger.find("127.0.0.1:") == 0);
    all += stranger + "\n";
  }
  INFO(all);
  CHECK(strangers.size() == 6);
  CHECK(all.find("not a hello of shmoe") != std::string::npos);
  CHECK(all.find("sent no hello within 0.2 s") != std::string::npos);
  CHECK(all.find("hung up after 0 of 64 bytes") != std::string::npos);
  CHECK(all.find("claimed rank 1 with a wrong secret") != std::string::npos);
}

TEST_CASE("four hundred connections that say nothing do not keep the members out") {
  Job job(2);
  std::thread server([&] {
    auto exchange = SocketExchange::connect(job.config(0));
    job.of(0) = outcome(exchange);
    if (exchange) CHECK(exchange->strangers().size() == 65);
  });
  const Meeting meeting = await_meeting(job.file);
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 400; ++i) crowd.push_back(std::make_unique<RawClient>(meeting.port));
  auto exchange = SocketExchange::connect(job.config(1));
  job.of(1) = outcome(exchange);
  server.join();
  job.check_same("ok");
}

TEST_CASE("a member that does not fit fails the job on every rank with one error") {
  Job job(4);
  std::string code = "mismatch: ";
  std::string part;
  std::function<void(ExchangeConfig&)> spoil;
  SUBCASE("rank given twice") {
    spoil = [](ExchangeConfig& config) { config.launch.rank = Rank{2}; };
    part = "rank 2 was given twice, to the process at 127.0.0.1:";
  }
  SUBCASE("another size") {
    spoil = [](ExchangeConfig& config) { config.launch.size = 8; };
    part = "was started for 8 ranks, rank 0 for 4";
  }
  SUBCASE("a rank beyond the job") {
    spoil = [](ExchangeConfig& config) {
      config.launch.size = 9;
      config.launch.rank = Rank{7};
    };
    part = "rank 7 at 127.0.0.1:";
  }
  SUBCASE("another layout") {
    spoil = [](ExchangeConfig& config) { config.layout_version = 9; };
    code = "version: ";
    part = "has layout version 9, rank 0 has 3";
  }
  on_threads(0, job.size(), [&](int rank) {
    auto config = job.config(rank);
    if (rank == 3) spoil(config);
    config.linger = 1s;
    job.of(rank) = outcome(SocketExchange::connect(config));
  });
  CHECK(job.of(0).find(code) == 0);
  job.check_same(part);
  CHECK(job.folder.entries() == 0);
}

TEST_CASE("a rank that the job does not have") {
  Job job(2);
  std::thread server([&] { job.of(0) = outcome(SocketExchange::connect(job.config(0))); });
  const Meeting meeting = await_meeting(job.file);
  const RawClient client(meeting.port);
  say_hello(client, meeting, 2, 2);
  job.of(1) = outcome(SocketExchange::connect(job.config(1)));
  server.join();
  job.check_same("says it is rank 2, but the job has ranks 0 to 1");
}

TEST_CASE("missing ranks are listed on every rank that came") {
  Job job(16);
  on_threads(0, 10, [&](int rank) {
    if (rank == 3) return;
    auto config = job.config(rank);
    config.timeout = 1500ms;
    job.of(rank) = outcome(SocketExchange::connect(config));
  });
  job.outcomes.resize(10);
  job.outcomes.erase(job.outcomes.begin() + 3);
  job.check_same("ranks 3, 10-15 of 16 did not arrive at 127.0.0.1:");
}

TEST_CASE("without rank 0 the others say where they looked and how long") {
  const TemporaryFolder folder;
  auto config = config_of(1, 2, meeting_path(folder.path(), "j"));
  config.timeout = 200ms;
  auto by_file = SocketExchange::connect(config);
  REQUIRE_FALSE(by_file.has_value());
  CHECK(by_file.error().code == Errc::deadline);
  CHECK(by_file.error().context.find(config.endpoint.file.native() + " is not there") != std::string::npos);
  CHECK(by_file.error().context.find("within 0.2") != std::string::npos);

  config.endpoint = Endpoint{EndpointKind::given_address, "CAM_COMM_ID", Address{{127, 0, 0, 1}, 9}, {}, {}};
  auto by_address = SocketExchange::connect(config);
  REQUIRE_FALSE(by_address.has_value());
  CHECK(by_address.error().context.find("cannot connect to 127.0.0.1:9 (CAM_COMM_ID)") != std::string::npos);
}

TEST_CASE("a rank that leaves before all have arrived is named") {
  Job job(4);  // rank 3 never comes
  std::thread server([&] { job.of(0) = outcome(SocketExchange::connect(job.config(0))); });
  const Meeting meeting = await_meeting(job.file);
  std::thread member([&] { job.of(1) = outcome(SocketExchange::connect(job.config(1))); });
  RawClient client(meeting.port);
  say_hello(client, meeting, 2, 4);
  client.close();
  member.join();
  server.join();
  job.outcomes.resize(2);
  job.check_same("rank 2 at 127.0.0.1:");
  job.check_same("before all 4 ranks had arrived");
}

TEST_CASE("a rank that leaves between exchanges is named on every rank, then and later") {
  Job job(4);
  on_threads(0, job.size(), [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    if (!exchange || !exchange->all_gather(blob("first"))) return;
    if (rank == 2) return;
    const auto second = exchange->all_gather(blob("second"));
    const auto third = exchange->all_gather(blob("third"));
    job.of(rank) = outcome(second) == outcome(third) ? outcome(second) : "the third differs";
  });
  job.outcomes.erase(job.outcomes.begin() + 2);
  job.check_same("peer lost: rank 2 at 127.0.0.1:");
  job.check_same("left before exchange 2 was complete");
}

TEST_CASE("without rank 0 between exchanges the others name it") {
  Job job(3);
  on_threads(0, job.size(), [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    if (rank == 0 || !exchange) return;
    job.of(rank) = outcome(exchange->all_gather(blob("x")));
  });
  job.outcomes.erase(job.outcomes.begin());
  job.check_same("peer lost: rank 0 at 127.0.0.1:");
}

TEST_CASE("a silent rank is named on every other rank when the time is up") {
  Job job(3);
  std::latch done(job.size());
  on_threads(0, job.size(), [&](int rank) {
    auto config = job.config(rank);
    config.timeout = 5s;
    auto exchange = SocketExchange::connect(config);
    if (rank != 1) job.of(rank) = exchange ? outcome(exchange->all_gather(blob("x"))) : outcome(exchange);
    done.arrive_and_wait();
  });
  job.outcomes.erase(job.outcomes.begin() + 1);
  job.check_same("rank 1 of 3 did not contribute to exchange 1 within 5 s");
}

TEST_CASE("a contribution over the limit fails on every rank") {
  for (const int guilty : {0, 1}) {
    Job job(3);
    on_threads(0, job.size(), [&](int rank) {
      auto config = job.config(rank);
      config.max_contribution = 1000;
      auto exchange = SocketExchange::connect(config);
      job.of(rank) = exchange ? outcome(exchange->all_gather(Blob(rank == guilty ? 1001 : 1000))) : outcome(exchange);
    });
    job.check_same(fmt::format("rank {} contributed 1001 bytes to exchange 1, the limit is 1000", guilty));
  }
}

TEST_CASE("a member that breaks the framing is named on every rank") {
  Job job(3);
  Header header;
  std::string part;
  SUBCASE("giant length") {
    header = {0xffff'ffffU, Kind::contribution, 1, 40'000};
    part = "contributed 4294967295 bytes";
  }
  SUBCASE("wrong number") {
    header = {0, Kind::contribution, 2, 40'000};
    part = "is in exchange 2, rank 0 in exchange 1";
  }
  SUBCASE("wrong kind") {
    header = {0, Kind::result, 1, 40'000};
    part = "is no contribution";
  }
  const auto body = [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    job.of(rank) = exchange ? outcome(exchange->all_gather(blob("x"))) : outcome(exchange);
  };
  std::thread server(body, 0);
  std::thread member(body, 1);
  const Meeting meeting = await_meeting(job.file);
  const RawClient client(meeting.port);
  say_hello(client, meeting, 2, 3);
  CHECK(client.receive(kHeaderBytes).size() == kHeaderBytes);
  client.send(encode(header));
  server.join();
  member.join();
  job.outcomes.resize(2);
  job.check_same("rank 2 at 127.0.0.1:");
  job.check_same(part);
}

TEST_CASE("a write to a rank that was reset does not end the process") {
  std::signal(SIGPIPE, SIG_DFL);
  Job job(3);
  const auto body = [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    if (!exchange) return;
    for (int round = 0; round < 3; ++round) {
      const auto all = exchange->all_gather(Blob(100'000));
      if (!all) job.of(rank) = outcome(all);
    }
  };
  std::thread server(body, 0);
  std::thread member(body, 1);
  const Meeting meeting = await_meeting(job.file);
  RawClient client(meeting.port);
  say_hello(client, meeting, 2, 3);
  CHECK(client.receive(kHeaderBytes).size() == kHeaderBytes);
  client.send(encode(Header{1, Kind::contribution, 1, 40'000}));
  client.send(Blob(1));
  client.reset();
  server.join();
  member.join();
  job.outcomes.resize(2);
  job.check_same("rank 2 at 127.0.0.1:");
}

TEST_CASE("a program that is not shmoe on the given address is named") {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener, 8) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  std::thread other([&] {
    const int fd = ::accept(listener, nullptr, nullptr);
    const std::string_view reply = "HTTP/1.1 400 Bad Request\r\n\r\n";
    CHECK(::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL) > 0);
    std::byte byte{};
    while (::recv(fd, &byte, 1, 0) > 0) {
    }
    ::close(fd);
  });
  auto config = config_of(1, 2, "");
  config.endpoint =
      Endpoint{EndpointKind::given_address, "SHMOE_COMM_ID", Address{{127, 0, 0, 1}, ntohs(address.sin_port)}, {}, {}};
  const auto exchange = SocketExchange::connect(config);
  other.join();
  ::close(listener);
  REQUIRE_FALSE(exchange.has_value());
  CHECK(exchange.error().code == Errc::io);
  CHECK(exchange.error().context.find("not a frame of shmoe") != std::string::npos);
}

TEST_CASE("what a dead rank 0 left is neither believed nor in the way") {
  Job job(3);
  const Owner here = *this_process();
  std::ofstream(job.file) << fmt::format("shmoe-meeting 1\n9 {} {} {}\n", here.pid, here.start_time + 1,
                                         to_hex(Secret{}));
  std::filesystem::permissions(job.file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);

  auto config = job.config(1);
  config.timeout = 100ms;
  const auto alone = SocketExchange::connect(config);
  REQUIRE_FALSE(alone.has_value());
  CHECK(alone.error().context.find(fmt::format("was left by process {}, which is gone", here.pid)) !=
        std::string::npos);

  on_threads(0, job.size(), [&](int rank) { job.of(rank) = outcome(SocketExchange::connect(job.config(rank))); });
  job.check_same("ok");
  CHECK(job.folder.entries() == 0);
}

TEST_CASE("a second rank 0 of the same job is refused while the first one waits") {
  Job job(2);
  std::thread server([&] { job.of(0) = outcome(SocketExchange::connect(job.config(0))); });
  await_meeting(job.file);
  const auto second = SocketExchange::connect(job.config(0));
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == Errc::already_exists);
  job.of(1) = outcome(SocketExchange::connect(job.config(1)));
  server.join();
  job.check_same("ok");
}

}  // namespace shmoe::bootstrap
