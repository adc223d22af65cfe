// The published names: their codes, and the argument block they hand out.

#include <unistd.h>

#include <thread>

#include "runtime/comm_args.hpp"
#include "tests/capi/support.hpp"

using namespace shmoe;
using namespace shmoe::capi_test;

TEST_CASE("wrong parameters are -3 and leave the handle alone") {
  int word = 0;
  const auto untouched = reinterpret_cast<CamComm>(&word);
  CamComm comm = untouched;
  const auto wrong = [&](std::uint32_t size, std::uint32_t rank, const char* address, std::uint32_t length,
                         const char* text) {
    CHECK(CamCreateComm(size, rank, address, length, &comm) == -3);
    CHECK(comm == untouched);
    CHECK_MESSAGE(std::string_view(shmoe_last_error()).find(text) != std::string_view::npos, shmoe_last_error());
  };
  wrong(0, 0, nullptr, 0, "CamCreateComm: rank 0 of 0: 1 to 384 ranks");
  wrong(385, 0, nullptr, 0, "rank 0 of 385");
  wrong(4, 4, nullptr, 0, "rank 4 of 4");
  wrong(1, 0, nullptr, 5, "server_ip_port is NULL");
  wrong(1, 0, "127.0.0.1:10067", 1U << 31, "CamCreateComm: length is 2147483648: an address has 64 at most");
  CHECK(CamCreateComm(1, 0, nullptr, 0, nullptr) == -3);
  CHECK(CamDestroyComm(nullptr) == -3);
  const std::uint16_t* data = nullptr;
  std::int64_t elements = 0;
  CHECK(CamGetCommArgs(nullptr, &data, &elements) == -3);
}

TEST_CASE("whatever else fails is -4") {
  int word = 0;
  const auto untouched = reinterpret_cast<CamComm>(&word);
  CamComm comm = untouched;
  CHECK(CamCreateComm(2, 0, "nowhere", 7, &comm) == -4);
  CHECK(comm == untouched);
  CHECK_MESSAGE(std::string_view(shmoe_last_error()).find("nowhere") != std::string_view::npos, shmoe_last_error());
}

TEST_CASE("two ranks get the argument block of their communicator") {
  const std::string address = "127.0.0.1:" + std::to_string(20000 + getpid() % 20000) + " and more";
  const auto length = static_cast<std::uint32_t>(address.find(' '));
  const auto run = [&](std::uint32_t rank) {
    CamComm comm = nullptr;
    const std::int32_t made = CamCreateComm(2, rank, address.c_str(), length, &comm);
    CHECK_MESSAGE(made == 0, shmoe_last_error());
    if (made != 0) return;
    const std::uint16_t* data = nullptr;
    std::int64_t elements = 0;
    CHECK(CamGetCommArgs(comm, nullptr, &elements) == -3);
    CHECK(CamGetCommArgs(comm, &data, &elements) == 0);
    CHECK(elements == 597740);
    runtime::CommArgs args;
    std::memcpy(&args, data, sizeof args);
    CHECK(args.rank == static_cast<std::int32_t>(rank));
    CHECK(args.rank_size == 2);
    CHECK(args.local_rank_size == 2);
    CHECK(args.extra_flag == 0);
    CHECK(args.peer_mems[0] != args.peer_mems[1]);
    CHECK(args.peer_mems[2] == 0);
    CHECK(args.mem_len == std::int64_t{204} << 20);
    CHECK(CamDestroyComm(comm) == 0);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}
