// Ranks that give another secret than rank 0's.

#include <doctest/doctest.h>

#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

/// Of this process alone, so that several can run this test at the same time.
Address own_address(std::uint16_t port) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return {{127, 77, static_cast<std::uint8_t>(pid >> 8), static_cast<std::uint8_t>(pid)}, port};
}

ExchangeConfig config_with(std::string_view secret, int rank, int size, const Address& address) {
  auto config = config_of(rank, size, "");
  config.endpoint = Endpoint{EndpointKind::given_address, "SHMOE_COMM_ID", address, hashed_secret(secret), {}};
  return config;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a rank with another secret is told so, and the job waits for the right one") {
  const Address address = own_address(23456);
  std::string first;
  std::thread server([&] { first = outcome(SocketExchange::connect(config_with("right", 0, 2, address))); });
  const auto refused = SocketExchange::connect(config_with("wrong", 1, 2, address));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::refused);
  CHECK(has(refused.error().context, "SHMOE_SECRET"));
  const std::string second = outcome(SocketExchange::connect(config_with("right", 1, 2, address)));
  server.join();
  CHECK(first == "ok");
  CHECK(second == "ok");
}

TEST_CASE("where the right one never comes, every rank hears of the wrong one") {
  const Address address = own_address(23457);
  std::vector<std::string> outcomes(3);
  on_threads(0, 3, [&](int rank) {
    auto config = config_with(rank == 1 ? "wrong" : "right", rank, 3, address);
    config.timeout = 1500ms;
    outcomes[static_cast<std::size_t>(rank)] = outcome(SocketExchange::connect(config));
  });
  CHECK(has(outcomes[1], "refused: "));
  CHECK(outcomes[0] == outcomes[2]);
  CHECK_MESSAGE(has(outcomes[0], "rank 1 of 3 did not arrive at " + address.text()), outcomes[0]);
  CHECK_MESSAGE(has(outcomes[0], "; turned away: 127."), outcomes[0]);
  CHECK_MESSAGE(has(outcomes[0], "claimed rank 1 with a wrong secret"), outcomes[0]);
}

TEST_CASE("of many strangers the error names the first") {
  const TemporaryFolder folder;
  auto config = config_of(0, 2, meeting_path(folder.path(), "j"));
  config.timeout = 1500ms;
  std::string missed;
  std::thread server([&] { missed = outcome(SocketExchange::connect(config)); });
  const Meeting meeting = await_meeting(meeting_path(folder.path(), "j"));
  for (int i = 0; i < 7; ++i) {
    const RawClient garbage(meeting.port);
    garbage.send(Blob(64, std::byte{0x5a}));
    garbage.await_end();
  }
  server.join();
  CHECK_MESSAGE(missed.ends_with("sent something that is not a hello of shmoe; and 3 more"), missed);
}

}  // namespace shmoe::bootstrap
