// Members that frame well and say nonsense: id cards and outcomes that do not parse.

#include <random>

#include "bootstrap/rendezvous.hpp"
#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {
namespace {

using namespace test;

IdCard honest_card() {
  IdCard card = *id_card_of_this_process();
  card.agreements = {{"cores", "2"}, {"profile", "safe"}};
  card.facts = {{"segment", "shmoe.1"}, {"nothing", ""}};
  return card;
}

/// What ranks 0 and 1 get from `honest` while rank 2 contributes `bytes`; what rank 2 received.
template <class Honest>
Blob check_against(const Blob& bytes, const std::string& expected, Honest honest) {
  Job job(3);
  Blob of_rank_0;
  on_threads(0, job.size(), [&](int rank) {
    auto exchange = SocketExchange::connect(job.config(rank));
    if (!exchange) {
      job.of(rank) = outcome(exchange);
    } else if (rank == 2) {
      const auto all = exchange->all_gather(bytes);
      if (all) of_rank_0 = all->front();
    } else {
      job.of(rank) = honest(*exchange);
    }
  });
  for (int rank = 0; rank < 2; ++rank) CHECK(job.of(rank) == expected);
  return of_rank_0;
}

Blob check_card(const Blob& bytes, const std::string& expected) {
  return check_against(bytes, expected,
                       [](SocketExchange& exchange) { return outcome(exchange_cards(exchange, honest_card())); });
}

const std::string kNoCard = "io: the id card of rank 2 does not parse: start the same build on every rank";

}  // namespace

TEST_CASE("an id card that is cut anywhere, or longer, ends the start on every rank") {
  const Blob good = check_card({}, kNoCard);
  REQUIRE(good.size() > 60);
  CHECK(check_card(good, "ok") == good);
  for (std::size_t size = 1; size < good.size(); ++size) {
    check_card(Blob(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), kNoCard);
  }
  Blob longer = good;
  longer.push_back(std::byte{0});
  check_card(longer, kNoCard);
}

TEST_CASE("id cards whose counts and lengths are absurd") {
  const auto card = [](std::initializer_list<std::uint32_t> numbers) {
    Packer out;
    for (const std::uint32_t number : numbers) out.u32(number);
    return out.take();
  };
  constexpr std::uint32_t kAll = 0xffff'ffffU;
  check_card(card({2, 0, 0, 0, 0, 0, 0, 0, 0}), kNoCard);     // another version
  check_card(card({1, 0, 0, 0, 0, kAll, 0, 0, 0}), kNoCard);  // a boot id of 4 GiB
  check_card(card({1, 0, 0, 0, 0, 0, kAll, 0, 0}), kNoCard);  // a host name of 4 GiB
  check_card(card({1, 0, 0, 0, 0, 0, 0, kAll, 0}), kNoCard);  // four billion agreements
  check_card(card({1, 0, 0, 0, 0, 0, 0, 0, kAll}), kNoCard);  // and facts
  check_card(card({1, 0, 0, 0, 0, 0, 0, 0, 0}),
             "mismatch: rank 2 does not state cores, rank 0 has cores 2: start every rank with the same SHMOE_CORES");
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 100; ++i) {
    Blob noise(random() % 400);
    for (auto& byte : noise) byte = static_cast<std::byte>(random());
    if (!noise.empty()) noise[0] = std::byte{2};  // never our version
    check_card(noise, kNoCard);
  }
}

TEST_CASE("an absurd value is shown as one short line") {
  Packer out;
  for (const std::uint32_t number : {1U, 0U, 0U, 0U, 0U, 0U, 0U, 1U}) out.u32(number);
  for (const std::string& text : {std::string("cores"), "\x1b[2J" + std::string(5000, '\n'), std::string()})
    out.text(text);
  out.u32(0);
  check_card(out.take(), "mismatch: rank 2 has cores ?[2J" + std::string(196, '?') +
                             ", rank 0 has cores 2: start every rank with the same SHMOE_CORES");
}

TEST_CASE("an outcome that does not parse is the failure of that rank") {
  const std::string unread =
      "io: set up failed on rank 2: a failure was announced that does not parse: start the same build on every rank";
  const auto honest = [](SocketExchange& exchange) { return outcome(agree(exchange, {}, "set up")); };
  check_against(blob("x"), unread, honest);
  check_against(Blob(1U << 20, std::byte{0xff}), unread, honest);
  check_against(encode(Error{Errc::io, "two\nlines", Rank{77}, 0}), "io: set up failed on rank 2: two?lines", honest);
  check_against({}, "ok", honest);
}

}  // namespace shmoe::bootstrap
