// In the place of rank 0: programs that are none, and a rank 0 that breaks the rules. Every client ends with one error.

#include <climits>
#include <random>

#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

enum class Next { hold, close, reset };

/// What is sent, and what happens to the connection then.
struct Reply {
  Blob bytes;
  Next next = Next::hold;
  std::string part;  // of the client's error, after the address
};

Blob answer(Kind kind, std::uint32_t sequence, std::span<const std::byte> payload,
            std::optional<std::uint32_t> length = {}) {
  const auto header =
      encode(Header{length.value_or(static_cast<std::uint32_t>(payload.size())), kind, sequence, 40'000});
  Blob bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

Blob numbers(std::initializer_list<std::uint32_t> values) {
  Packer out;
  for (const std::uint32_t value : values) out.u32(value);
  return out.take();
}

Blob front(const Blob& bytes, std::size_t count) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

void give(RawClient& guest, const Reply& reply) {
  guest.send(reply.bytes);
  if (reply.next == Next::reset) return guest.reset();
  if (reply.next == Next::hold) guest.await_end();
}

ExchangeConfig client_of(const RawServer& server, std::chrono::milliseconds timeout) {
  auto config = config_of(1, 2, "");
  config.timeout = timeout;
  config.endpoint =
      Endpoint{EndpointKind::given_address, "SHMOE_COMM_ID", Address{{127, 0, 0, 1}, server.port()}, {}, {}};
  return config;
}

void check_error(const Error& error, const RawServer& server, const Reply& reply) {
  const std::string text = to_string(error);
  CHECK_MESSAGE(text.find(fmt::format("rank 0 at 127.0.0.1:{}{}", server.port(), reply.part)) != std::string::npos,
                text);
  CHECK(is_one_line(text));
  CHECK((!error.where || error.where->value() < 2));
}

/// Answers the hello with the reply.
void check_hello(const Reply& reply, std::chrono::milliseconds timeout = 40s) {
  const RawServer server([&](RawClient& guest) {
    (void)guest.receive(kHelloBytes);
    give(guest, reply);
  });
  const auto exchange = SocketExchange::connect(client_of(server, timeout));
  REQUIRE_FALSE(exchange.has_value());
  check_error(exchange.error(), server, reply);
}

/// Welcomes, and answers the first contribution with the reply.
void check_gather(const Reply& reply, std::chrono::milliseconds timeout = 40s) {
  const RawServer server([&](RawClient& guest) {
    (void)guest.receive(kHelloBytes);
    guest.send(answer(Kind::welcome, 0, {}));
    (void)guest.receive(kHeaderBytes + 1);
    give(guest, reply);
  });
  auto exchange = SocketExchange::connect(client_of(server, timeout));
  REQUIRE_MESSAGE(exchange.has_value(), outcome(exchange));
  const auto all = exchange->all_gather(blob("x"));
  REQUIRE_FALSE(all.has_value());
  check_error(all.error(), server, reply);
  CHECK(outcome(exchange->all_gather(blob("x"))) == outcome(all));
}

const std::string kNoFrame = " answered with something that is not a frame of shmoe: see which program listens there";
const std::string kUnread = " announced a failure that does not parse: start the same build on every rank";

}  // namespace

TEST_CASE("what is no welcome ends the client at once") {
  const std::string other =
      " answered the hello with something else than a welcome: start the same build on every rank, and see which "
      "program listens there";
  Blob wrong_magic = answer(Kind::welcome, 0, {});
  wrong_magic[3] ^= std::byte{0x80};
  const Reply replies[] = {{blob("SSH-2.0-OpenSSH_9.2p1 Debian\r\n"), Next::hold, kNoFrame},
                           {blob("HTTP/1.1 400 Bad Request\r\n\r\n"), Next::hold, kNoFrame},
                           {Blob(1U << 20, std::byte{0}), Next::hold, kNoFrame},
                           {Blob(1U << 20, std::byte{0xff}), Next::hold, kNoFrame},
                           {wrong_magic, Next::hold, kNoFrame},
                           {answer(static_cast<Kind>(0), 0, {}), Next::hold, kNoFrame},
                           {answer(static_cast<Kind>(5), 0, {}), Next::hold, kNoFrame},
                           {answer(Kind::welcome, 0, {}, UINT_MAX), Next::hold, kNoFrame},
                           {answer(Kind::failure, 0, {}, UINT_MAX), Next::hold, kNoFrame},
                           {answer(Kind::failure, 0, {}, kLongestFailure + 1), Next::hold, kNoFrame},
                           {answer(Kind::result, 0, blob("x")), Next::hold, other},
                           {answer(Kind::contribution, 0, {}), Next::hold, other},
                           {answer(Kind::welcome, 0, blob("x")), Next::hold, other},
                           {answer(Kind::failure, 0, {}), Next::hold, kUnread},
                           {answer(Kind::failure, 0, numbers({6, 0, 0, UINT_MAX})), Next::hold, kUnread},
                           {answer(Kind::failure, 0, numbers({0, 0, 0, 0})), Next::hold, kUnread},
                           {answer(Kind::failure, 0, Blob(kLongestFailure, std::byte{0xff})), Next::hold, kUnread}};
  for (const auto& reply : replies) check_hello(reply);
}

TEST_CASE("a rank 0 that says nothing, breaks off or closes ends the client when its time is up") {
  const Blob welcome = answer(Kind::welcome, 0, {});
  const Blob failure = answer(Kind::failure, 0, numbers({6, 0, 0, 0}));
  const std::string silent = " did not answer rank 1 within 1 s: see where it is";
  const std::string closed =
      " closed the connection: see what it printed: see whether rank 0 runs, or raise "
      "SHMOE_BOOTSTRAP_TIMEOUT_S";
  const Reply replies[] = {{{}, Next::hold, silent},
                           {front(welcome, kHeaderBytes - 1), Next::hold, silent},
                           {front(failure, failure.size() - 1), Next::hold, silent},
                           {{}, Next::close, closed},
                           {{}, Next::reset, closed},
                           {front(welcome, kHeaderBytes - 1), Next::close, closed},
                           {front(failure, failure.size() - 1), Next::close, closed}};
  for (const auto& reply : replies) check_hello(reply, 1s);
}

TEST_CASE("an announced failure is shown as one line") {
  Packer text;
  for (const std::uint32_t number : {6U, 0x7fff'ffffU, 0U}) text.u32(number);
  text.text("\x1b]0;pwned\x07 line\nbreak");
  const RawServer server([&](RawClient& guest) {
    (void)guest.receive(kHelloBytes);
    give(guest, Reply{answer(Kind::failure, 0, Packer(text).take()), Next::hold, ""});
  });
  const auto exchange = SocketExchange::connect(client_of(server, 40s));
  REQUIRE_FALSE(exchange.has_value());
  CHECK(to_string(exchange.error()) == "peer lost: ?]0;pwned? line?break");
  CHECK_FALSE(exchange.error().where.has_value());
}

TEST_CASE("what is no result ends the client at once") {
  const std::string other =
      " answered exchange 1 with something else than its result: start the same build on every rank";
  const auto result = [](std::initializer_list<std::uint32_t> counts, std::string_view bytes) {
    Blob payload = numbers(counts);
    const Blob tail = blob(bytes);
    payload.insert(payload.end(), tail.begin(), tail.end());
    return answer(Kind::result, 1, payload);
  };
  const std::uint32_t longest = 4 + 2 * (4 + (1U << 20));
  const Reply replies[] = {{Blob(1U << 20, std::byte{0x55}), Next::hold, kNoFrame},
                           {answer(Kind::result, 1, {}, UINT_MAX), Next::hold, kNoFrame},
                           {answer(Kind::result, 1, {}, 256U << 20), Next::hold, kNoFrame},
                           {answer(Kind::result, 1, {}, longest + 1), Next::hold, kNoFrame},
                           {result({2, 1, 1}, "ab") /* right, of another exchange: */, Next::hold, ""},
                           {result({1, 1}, "a"), Next::hold, other},
                           {result({3, 1, 1, 1}, "abc"), Next::hold, other},
                           {result({0}, ""), Next::hold, other},
                           {result({UINT_MAX, 1, 1}, "ab"), Next::hold, other},
                           {result({2, 1, UINT_MAX}, "ab"), Next::hold, other},
                           {result({2, UINT_MAX, 3}, "ab"), Next::hold, other},
                           {result({2, 1, 1}, "abc"), Next::hold, other},
                           {result({2, 1, 1}, "a"), Next::hold, other},
                           {answer(Kind::result, 1, {}), Next::hold, other},
                           {answer(Kind::welcome, 1, {}), Next::hold, other},
                           {answer(Kind::contribution, 1, blob("x")), Next::hold, other},
                           {answer(Kind::failure, 1, {}), Next::hold, kUnread},
                           {answer(Kind::failure, 1, numbers({99, 0, 0, 0})), Next::hold, kUnread}};
  for (auto reply : replies) {
    if (reply.part.empty()) {
      reply.bytes[12] = std::byte{2};
      reply.part = other;
    }
    check_gather(reply);
  }
}

TEST_CASE("results with random changes are a result all the same or one error that names rank 0") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Blob payload = numbers({2, 3, 4});
  payload.resize(payload.size() + 7);
  const Blob honest = answer(Kind::result, 1, payload);
  const Blob failed = answer(Kind::failure, 1, encode(Error{Errc::mismatch, "rank 0 at large", Rank{1}, 0}));
  for (int i = 0; i < 300; ++i) {
    Blob bytes = i % 3 == 0 ? failed : honest;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
    }
    if (i % 2 == 0) bytes.resize(random() % (bytes.size() + 1));
    const RawServer server([&](RawClient& guest) {
      (void)guest.receive(kHelloBytes);
      guest.send(answer(Kind::welcome, 0, {}));
      (void)guest.receive(kHeaderBytes + 1);
      guest.send(bytes);
    });
    auto exchange = SocketExchange::connect(client_of(server, 40s));
    REQUIRE_MESSAGE(exchange.has_value(), outcome(exchange));
    const auto all = exchange->all_gather(blob("x"));
    if (all) {
      CHECK(all->size() == 2);
    } else if (all.error().code != Errc::mismatch) {
      CHECK(is_one_line(to_string(all.error())));
      CHECK((!all.error().where || all.error().where->value() < 2));
    }
  }
}

TEST_CASE("a rank 0 that closes or falls silent within an exchange") {
  const Blob whole = answer(Kind::result, 1, numbers({2, 0, 0}));
  const std::string closed = " closed the connection: see what it printed";
  const std::string silent = " did not answer rank 1 within 1 s: see where it is";
  for (const std::size_t count : {std::size_t{0}, kHeaderBytes - 1, kHeaderBytes, whole.size() - 1}) {
    check_gather({front(whole, count), Next::close, closed});
    check_gather({front(whole, count), Next::reset, closed});
    if (count != kHeaderBytes - 1) check_gather({front(whole, count), Next::hold, silent}, 1s);
  }
}

TEST_CASE("a rank 0 that answers one byte at a time does not hold a client past its time") {
  const RawServer server([&](RawClient& guest) {
    (void)guest.receive(kHelloBytes);
    const Blob header = answer(Kind::failure, 0, {}, kLongestFailure);
    guest.send(header);
    guest.drip(Blob(kLongestFailure - 1), 20);
    guest.await_end();
  });
  const auto exchange = SocketExchange::connect(client_of(server, 1s));
  REQUIRE_FALSE(exchange.has_value());
  check_error(exchange.error(), server, Reply{{}, Next::hold, " did not answer rank 1 within 1 s: see where it is"});
}

}  // namespace shmoe::bootstrap
