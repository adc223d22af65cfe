#include "bootstrap/wire.hpp"

#include <doctest/doctest.h>

#include "bootstrap/rendezvous.hpp"
#include "tests/bootstrap/support.hpp"

namespace shmoe::bootstrap {

TEST_CASE("hello and header come back as they went") {
  const auto secret = random_secret();
  const auto hello = decode_hello(encode(Hello{7, 8, 384, -1, *secret, 1234}));
  REQUIRE(hello.has_value());
  CHECK(hello->protocol == 7);
  CHECK(hello->layout == 8);
  CHECK(hello->size == 384);
  CHECK(hello->rank == -1);
  CHECK(same(hello->secret, *secret));
  CHECK(hello->remaining_ms == 1234);

  const auto header = decode_header(encode(Header{5, Kind::result, 6, 7}));
  REQUIRE(header.has_value());
  CHECK(header->length == 5);
  CHECK(header->kind == Kind::result);
  CHECK(header->sequence == 6);
  CHECK(header->remaining_ms == 7);
  CHECK_FALSE(decode_header(encode(Header{5, static_cast<Kind>(9), 6, 7})).has_value());
  CHECK_FALSE(decode_header(std::array<std::byte, kHeaderBytes>{}).has_value());
  CHECK_FALSE(decode_hello(std::array<std::byte, kHelloBytes>{}).has_value());
}

TEST_CASE("an error keeps code, rank and text") {
  const Error error = decode_error(encode(Error{Errc::peer_lost, "rank 3 left", Rank{3}, 104}));
  CHECK(error.code == Errc::peer_lost);
  CHECK(error.context == "rank 3 left");
  CHECK(error.where == Rank{3});
  CHECK(error.sys == 104);
  CHECK(decode_error({}).code == Errc::io);
}

TEST_CASE("an error without a text does not parse, and one that would steer a terminal is only shown") {
  CHECK(decode_error(encode(Error{Errc::refused, "", {}, 0})).context.find("does not parse") != std::string::npos);
  CHECK(decode_error(encode(Error{Errc::refused, "\x1b[2J\x7f", {}, 0})).context == "?[2J?");
  CHECK(decode_error(encode(Error{Errc::deadlock, "two\nlines", {}, 0})).context == "two?lines");
}

TEST_CASE("an id card comes back as it went, and no cut of it is one") {
  const IdCard card{.pid = 7,
                    .start_time = 8,
                    .boot_id = "boot",
                    .host = "here",
                    .agreements = {{"cores", "2", "SHMOE_CORES"}},
                    .facts = {{"cpus", "0 1"}}};
  const Blob bytes = encode(card);
  const auto back = decode_card(bytes);
  REQUIRE(back);
  CHECK(encode(*back) == bytes);
  CHECK(*back->fact("cpus") == "0 1");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_card(std::span(bytes).first(size)).has_value());
  // A text that is longer than all the rest, and behind it one that fits.
  Packer cut;
  for (const std::uint32_t word : {1U, 7U, 0U, 8U, 0U, 1000U}) cut.u32(word);
  cut.text("here");
  CHECK_FALSE(decode_card(cut.take()).has_value());
}

TEST_CASE("parts are split as they were joined, and every cut is noticed") {
  const std::vector<Blob> parts{test::blob("a"), {}, test::blob("ccc")};
  const Blob joined = join_parts(parts);
  CHECK(*split_parts(joined, 3) == parts);
  CHECK_FALSE(split_parts(joined, 2).has_value());
  for (std::size_t size = 0; size < joined.size(); ++size)
    CHECK_FALSE(split_parts(std::span(joined).first(size), 3).has_value());
  Blob longer = joined;
  longer.push_back(std::byte{0});
  CHECK_FALSE(split_parts(longer, 3).has_value());
}

TEST_CASE("behind what is cut nothing is read") {
  Packer out;
  for (const std::uint32_t number : {0xffff'ffffU, 0U, 0U}) out.u32(number);
  const Blob bytes = out.take();
  Unpacker in(bytes);
  CHECK_FALSE(in.text().has_value());
  CHECK_FALSE(in.text().has_value());
  CHECK_FALSE(in.u32().has_value());
  CHECK(in.empty());
}

}  // namespace shmoe::bootstrap
