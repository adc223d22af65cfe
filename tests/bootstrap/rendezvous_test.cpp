#include "bootstrap/rendezvous.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

/// Connects `size` ranks and keeps what `body` returns on each.
template <class Body>
std::vector<std::string> on_ranks(int size, Body body) {
  const TemporaryFolder folder;
  std::vector<std::string> outcomes(static_cast<std::size_t>(size));
  on_threads(0, size, [&](int rank) {
    auto exchange = SocketExchange::connect(config_of(rank, size, meeting_path(folder.path(), "j")));
    outcomes[static_cast<std::size_t>(rank)] = exchange ? body(*exchange, rank) : outcome(exchange);
  });
  return outcomes;
}

}  // namespace

TEST_CASE("everyone gets every card whole") {
  const auto outcomes = on_ranks(4, [](SocketExchange& exchange, int rank) -> std::string {
    auto mine = id_card_of_this_process();
    if (!mine) return outcome(mine);
    mine->agreements = {{"cores", "2"}, {"profile", "safe"}};
    mine->facts = {{"name", fmt::format("segment-{}", rank)}, {"bytes", std::string("\0\xff", 2)}};
    const auto cards = exchange_cards(exchange, *mine);
    if (!cards) return outcome(cards);
    std::string text = fmt::format("{} node", node_count(*cards));
    for (const auto& card : *cards) {
      if (card.pid != ::getpid() || card.boot_id != mine->boot_id || card.host != mine->host) return "wrong card";
      if (*card.fact("bytes") != std::string("\0\xff", 2) || card.fact("nothing") != nullptr) return "wrong fact";
      text += " " + *card.fact("name");
    }
    return text;
  });
  for (const auto& text : outcomes) CHECK(text == "1 node segment-0 segment-1 segment-2 segment-3");
}

TEST_CASE("a difference is one error on all ranks, and says what to set") {
  const auto with_cores = [](const char* cores) {
    return [cores](SocketExchange& exchange, int rank) {
      IdCard mine;
      mine.agreements = {{"layout", "1"}, {"cores", rank == 3 ? cores : "2"}};
      if (std::string_view(cores).empty() && rank == 3) mine.agreements.pop_back();
      return outcome(exchange_cards(exchange, mine));
    };
  };
  for (const auto& text : on_ranks(5, with_cores("4"))) {
    CHECK(text == "mismatch: rank 3 has cores 4, rank 0 has cores 2: start every rank with the same SHMOE_CORES");
  }
  for (const auto& text : on_ranks(5, with_cores(""))) {
    CHECK(text ==
          "mismatch: rank 3 does not state cores, rank 0 has cores 2: start every rank with the same SHMOE_CORES");
  }
}

TEST_CASE("nodes are told apart by boot id") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "boot_id";
  std::ofstream(file) << "0b00-1\n";
  auto a = id_card_of_this_process(file);
  auto b = id_card_of_this_process();
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  CHECK(a->boot_id == "0b00-1");
  CHECK(node_count(std::vector<IdCard>{*a, *b, *a}) == 2);
  std::ofstream(file, std::ios::trunc) << "";
  CHECK(id_card_of_this_process(file).error().code == Errc::io);
  CHECK(id_card_of_this_process(folder.path() / "missing").error().code == Errc::io);
}

TEST_CASE("everyone goes on or nobody does") {
  const auto outcomes = on_ranks(4, [](SocketExchange& exchange, int rank) -> std::string {
    if (!agree(exchange, {}, "create")) return "create";
    const Result<void> mine =
        rank < 2 ? Result<void>() : Error{Errc::out_of_memory, fmt::format("no room {}", rank), {}, 0};
    const auto mapped = agree(exchange, mine, "map peers");
    if (mapped || mapped.error().where != Rank{2}) return "no error";
    if (!agree(exchange, {}, "later")) return "later";
    return outcome(mapped);
  });
  for (const auto& text : outcomes) CHECK(text == "out of memory: map peers failed on rank 2: no room 2");
}

}  // namespace shmoe::bootstrap
