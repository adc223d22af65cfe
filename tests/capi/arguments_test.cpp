// Every function with the arguments that it refuses on the spot.

#include <thread>

#include "tests/capi/support.hpp"

using namespace shmoe::capi_test;

namespace {

/// Each call is made, and its text kept, before the next one overwrites it.
void check_null(shmoe_status status, const char* function, const char* name) {
  CHECK(status == SHMOE_INVALID_ARGUMENT);
  const std::string wanted = std::string("invalid argument: ") + function + ": " + name + " is NULL";
  CHECK(shmoe_last_error() == wanted);
}
#define NULL_REFUSED(function, name, ...) check_null(function(__VA_ARGS__), #function, name)

/// What a world of one rank has.
struct Alone {
  shmoe_world* world = nullptr;
  shmoe_communicator* comm = nullptr;
  explicit Alone(std::uint32_t uses = 0) {
    const shmoe_config config = small_config(uses);
    well(shmoe_world_create(&config, &world));
    well(shmoe_communicator_all(world, &comm));
  }
  ~Alone() {
    well(shmoe_communicator_destroy(comm));
    well(shmoe_world_destroy(world));
  }
};

shmoe_status nothing(shmoe_world* /*world*/, void* /*argument*/) { return SHMOE_OK; }

}  // namespace

TEST_CASE("a NULL handle is refused, with the name of the function and of the argument") {
  std::int32_t number = 0;
  std::uint64_t offset = 0;
  void* address = nullptr;
  shmoe_communicator* comm = nullptr;
  NULL_REFUSED(shmoe_world_create, "world", nullptr, nullptr);
  NULL_REFUSED(shmoe_world_rank, "world", nullptr, &number);
  NULL_REFUSED(shmoe_world_size, "world", nullptr, &number);
  NULL_REFUSED(shmoe_world_finalize, "world", nullptr);
  NULL_REFUSED(shmoe_world_abort, "world", nullptr);
  NULL_REFUSED(shmoe_world_destroy, "world", nullptr);
  NULL_REFUSED(shmoe_run_as_threads, "body", 1, nullptr, nullptr, nullptr);
  NULL_REFUSED(shmoe_communicator_all, "world", nullptr, &comm);
  NULL_REFUSED(shmoe_communicator_create, "world", nullptr, 1, &number, 1, &comm);
  NULL_REFUSED(shmoe_communicator_rank, "comm", nullptr, &number);
  NULL_REFUSED(shmoe_communicator_size, "comm", nullptr, &number);
  NULL_REFUSED(shmoe_communicator_barrier, "comm", nullptr);
  NULL_REFUSED(shmoe_communicator_destroy, "comm", nullptr);
  NULL_REFUSED(shmoe_memory_allocate, "comm", nullptr, 64, &offset);
  NULL_REFUSED(shmoe_memory_free, "comm", nullptr, 0);
  NULL_REFUSED(shmoe_memory_local, "comm", nullptr, 0, 64, &address);
  NULL_REFUSED(shmoe_window_allocate, "comm", nullptr, &offset, &offset);
}

TEST_CASE("so are those of the operators") {
  std::int32_t half = 0;
  shmoe_ep* ep = nullptr;
  shmoe_ll* ll = nullptr;
  shmoe_afd* afd = nullptr;
  shmoe_rows rows = {};
  NULL_REFUSED(shmoe_ep_create, "comm", nullptr, nullptr, &ep);
  NULL_REFUSED(shmoe_ep_destroy, "ep", nullptr);
  NULL_REFUSED(shmoe_ep_layout, "ep", nullptr, nullptr, nullptr, 0);
  NULL_REFUSED(shmoe_ep_notify, "ep", nullptr);
  NULL_REFUSED(shmoe_ep_dispatch, "ep", nullptr, nullptr);
  NULL_REFUSED(shmoe_ep_rows, "ep", nullptr, &rows);
  NULL_REFUSED(shmoe_ep_combine, "ep", nullptr, nullptr);
  NULL_REFUSED(shmoe_ll_create, "comm", nullptr, nullptr, &ll);
  NULL_REFUSED(shmoe_ll_destroy, "ll", nullptr);
  const shmoe_ll_dispatch_args sent = {.size = sizeof sent};
  const shmoe_ll_combine_args summed = {.size = sizeof summed};
  NULL_REFUSED(shmoe_ll_dispatch, "ll", nullptr, &sent, &half);
  NULL_REFUSED(shmoe_ll_dispatch_begin, "ll", nullptr, &sent, &half);
  NULL_REFUSED(shmoe_ll_dispatch_finish, "ll", nullptr, 0);
  NULL_REFUSED(shmoe_ll_rows, "ll", nullptr, 0, &rows);
  NULL_REFUSED(shmoe_ll_combine, "ll", nullptr, 0, &summed);
  NULL_REFUSED(shmoe_ll_combine_begin, "ll", nullptr, 0, &summed);
  NULL_REFUSED(shmoe_ll_combine_finish, "ll", nullptr, 0);
  NULL_REFUSED(shmoe_all_to_all, "args", nullptr, nullptr);
  NULL_REFUSED(shmoe_reduce_scatter, "args", nullptr, nullptr);
  NULL_REFUSED(shmoe_afd_create, "comm", nullptr, nullptr, &afd);
  NULL_REFUSED(shmoe_afd_destroy, "afd", nullptr);
  NULL_REFUSED(shmoe_a2e, "afd", nullptr, nullptr);
  NULL_REFUSED(shmoe_afd_tables, "afd", nullptr, nullptr);
  NULL_REFUSED(shmoe_e2a, "afd", nullptr, nullptr);
}

TEST_CASE("a NULL result or struct is refused before anything is done") {
  const Alone alone;
  NULL_REFUSED(shmoe_world_rank, "rank", alone.world, nullptr);
  NULL_REFUSED(shmoe_world_size, "size", alone.world, nullptr);
  NULL_REFUSED(shmoe_communicator_all, "all", alone.world, nullptr);
  const std::int32_t member = 0;
  shmoe_communicator* made = nullptr;
  NULL_REFUSED(shmoe_communicator_create, "made", alone.world, 1, &member, 1, nullptr);
  NULL_REFUSED(shmoe_communicator_create, "members", alone.world, 1, nullptr, 1, &made);
  NULL_REFUSED(shmoe_communicator_rank, "rank", alone.comm, nullptr);
  NULL_REFUSED(shmoe_communicator_size, "size", alone.comm, nullptr);
  NULL_REFUSED(shmoe_memory_allocate, "offset", alone.comm, 64, nullptr);
  NULL_REFUSED(shmoe_memory_local, "address", alone.comm, 0, 64, nullptr);
  std::uint64_t number = 0;
  NULL_REFUSED(shmoe_window_allocate, "offset", alone.comm, nullptr, &number);
  NULL_REFUSED(shmoe_window_allocate, "bytes", alone.comm, &number, nullptr);
  NULL_REFUSED(shmoe_ep_create, "ep", alone.comm, nullptr, nullptr);
  shmoe_ep* ep = nullptr;
  NULL_REFUSED(shmoe_ep_create, "shape", alone.comm, nullptr, &ep);
  shmoe_ll* ll = nullptr;
  NULL_REFUSED(shmoe_ll_create, "shape", alone.comm, nullptr, &ll);
  shmoe_afd* afd = nullptr;
  NULL_REFUSED(shmoe_afd_create, "shape", alone.comm, nullptr, &afd);
  CHECK(made == nullptr);
  CHECK(ep == nullptr);
}

TEST_CASE("memory: sizes and places that there are none of") {
  const Alone alone;
  std::uint64_t offset = 7;
  void* address = nullptr;
  refused(shmoe_memory_allocate(alone.comm, 0, &offset), SHMOE_INVALID_ARGUMENT, "shmoe_memory_allocate: ");
  refused(shmoe_memory_allocate(alone.comm, std::uint64_t{1} << 40, &offset), SHMOE_OUT_OF_MEMORY, "SHMOE_HEAP");
  CHECK(offset == 7);
  refused(shmoe_memory_free(alone.comm, 7), SHMOE_INVALID_ARGUMENT, "shmoe_memory_free: ");
  refused(shmoe_memory_local(alone.comm, ~std::uint64_t{0}, 1, &address), SHMOE_INVALID_ARGUMENT,
          "lie outside the communicator's memory");
  refused(shmoe_memory_local(alone.comm, 1, ~std::uint64_t{0}, &address), SHMOE_INVALID_ARGUMENT,
          "lie outside the communicator's memory");
  well(shmoe_memory_allocate(alone.comm, 100, &offset));
  well(shmoe_memory_local(alone.comm, offset, 100, &address));
  std::memset(address, 1, 100);
  well(shmoe_memory_free(alone.comm, offset));
}

TEST_CASE("communicators that cannot be") {
  const Alone alone;
  const std::int32_t members[] = {0, 1};
  shmoe_communicator* made = nullptr;
  refused(shmoe_communicator_create(alone.world, 1, members, 2, &made), SHMOE_INVALID_ARGUMENT, "2 members of 1 ranks");
  refused(shmoe_communicator_create(alone.world, 0, members, 1, &made), SHMOE_INVALID_ARGUMENT,
          "communicator 0 is in use on rank 0");
  refused(shmoe_communicator_create(alone.world, 2, members, 1, &made), SHMOE_INVALID_ARGUMENT,
          "raise SHMOE_COMMUNICATORS");
  refused(shmoe_communicator_create(alone.world, 1, members + 1, 1, &made), SHMOE_INVALID_ARGUMENT,
          "is none of the 1 ranks");
  well(shmoe_communicator_create(alone.world, 1, members, 1, &made));
  std::int32_t size = 0;
  well(shmoe_communicator_size(made, &size));
  CHECK(size == 1);
  well(shmoe_communicator_barrier(made));
  well(shmoe_communicator_destroy(made));
}

TEST_CASE("shapes that name no choice or nothing at all") {
  const Alone alone;
  const shmoe_ep_shape good = {.size = sizeof good, .experts = 2, .topk = 1, .hidden = 4};
  const auto ep_refused = [&](void (*spoil)(shmoe_ep_shape&), const char* text) {
    shmoe_ep_shape shape = good;
    spoil(shape);
    shmoe_ep* ep = nullptr;
    refused(shmoe_ep_create(alone.comm, &shape, &ep), SHMOE_INVALID_ARGUMENT, text);
  };
  ep_refused([](shmoe_ep_shape& s) { s.experts = 0; }, "shape->experts is 0: it goes from 1 to 65536");
  ep_refused([](shmoe_ep_shape& s) { s.experts = INT32_MAX; }, "shape->experts is 2147483647: it goes from 1 to 65536");
  ep_refused([](shmoe_ep_shape& s) { s.hidden = 0; }, "shape->hidden is 0: it goes from 1 to 268435456");
  // 4 rows of it would be 8 bytes long, by the 64 bits that are left.
  ep_refused([](shmoe_ep_shape& s) { s.hidden = (std::int64_t{1} << 62) + 1; },
             "shape->hidden is 4611686018427387905: it goes from 1 to 268435456");
  ep_refused([](shmoe_ep_shape& s) { s.type = SHMOE_INT32; }, "shape->type is 3: it goes from 0 to 2");
  ep_refused([](shmoe_ep_shape& s) { s.quant = -1; }, "shape->quant is -1: it goes from 0 to 1");
  ep_refused([](shmoe_ep_shape& s) { s.group_list = 2; }, "shape->group_list is 2: it goes from 0 to 1");
  static const std::int32_t owners[] = {0, 3};
  ep_refused([](shmoe_ep_shape& s) { s.owners = owners; }, "shmoe_ep_create: ");

  static const std::int32_t few_owners[] = {0, 0};
  shmoe_ll_shape few = {.size = sizeof few, .experts = 2, .topk = 0, .hidden = 4};
  shmoe_ll* ll = nullptr;
  refused(shmoe_ll_create(alone.comm, &few, &ll), SHMOE_INVALID_ARGUMENT,
          "shape->topk is 0: it goes from 1 to the 2 experts");
  few.topk = 1;
  few.most_tokens = -1;
  refused(shmoe_ll_create(alone.comm, &few, &ll), SHMOE_INVALID_ARGUMENT, "shape->most_tokens is -1");
  few.most_tokens = 1;
  few.capacity = (std::int64_t{1} << 60) + 1;  // of 16 bytes a row: 16, by the 64 bits that are left
  refused(shmoe_ll_create(alone.comm, &few, &ll), SHMOE_INVALID_ARGUMENT, "shape->capacity is 1152921504606846977");
  few.capacity = 0;
  few.most_tokens = INT32_MAX;
  few.topk = 2;
  refused(shmoe_ll_create(alone.comm, &few, &ll), SHMOE_INVALID_ARGUMENT, "4294967294 rows may come");
  few.owners = few_owners;
  few.shared_ranks = 1;
  refused(shmoe_ll_create(alone.comm, &few, &ll), SHMOE_INVALID_ARGUMENT, "shape->shared_experts is 0: it goes from 1");
  few.shared_experts = 2;
  refused(shmoe_ll_create(alone.comm, &few, &ll), SHMOE_INVALID_ARGUMENT, "shape->shared_experts is 2: it goes from 1");

  shmoe_afd_shape apart = {.size = sizeof apart, .expert_ranks = 0, .attention_ranks = 1, .max_batch = 1, .hidden = 1};
  shmoe_afd* afd = nullptr;
  refused(shmoe_afd_create(alone.comm, &apart, &afd), SHMOE_INVALID_ARGUMENT, "shmoe_afd_create: ");
  apart.expert_ranks = 1;
  apart.no_gate = 2;
  refused(shmoe_afd_create(alone.comm, &apart, &afd), SHMOE_INVALID_ARGUMENT, "shape->no_gate is 2");
  apart.no_gate = 0;
  apart.hidden = -1;
  refused(shmoe_afd_create(alone.comm, &apart, &afd), SHMOE_INVALID_ARGUMENT, "shape->hidden -1 of");
  apart.hidden = 1;
  refused(shmoe_afd_create(alone.comm, &apart, &afd), SHMOE_INVALID_ARGUMENT,
          "set config->uses to SHMOE_USES_AFD on every rank");
}

TEST_CASE("operators before their turn") {
  const Alone alone(SHMOE_USES_LOW_LATENCY | SHMOE_USES_AFD);
  const shmoe_ep_shape many = {.size = sizeof many, .experts = 1, .topk = 1, .hidden = 1};
  shmoe_ep* ep = nullptr;
  well(shmoe_ep_create(alone.comm, &many, &ep));
  shmoe_rows rows = {.size = sizeof rows};
  refused(shmoe_ep_rows(ep, &rows), SHMOE_INVALID_ARGUMENT, "no rows before a notify that has ended well");
  refused(shmoe_ep_layout(ep, nullptr, nullptr, -1), SHMOE_INVALID_ARGUMENT, "tokens is -1");
  NULL_REFUSED(shmoe_ep_layout, "topk_idx", ep, nullptr, nullptr, 1);
  const shmoe_ep_dispatch_args sent = {.size = sizeof sent};
  refused(shmoe_ep_dispatch(ep, &sent), SHMOE_INVALID_ARGUMENT, "shmoe_ep_dispatch: dispatch_normal: ");
  well(shmoe_ep_destroy(ep));

  const shmoe_ll_shape few = {.size = sizeof few, .experts = 1, .topk = 1, .hidden = 1, .most_tokens = 1};
  shmoe_ll* ll = nullptr;
  well(shmoe_ll_create(alone.comm, &few, &ll));
  refused(shmoe_ll_rows(ll, 0, &rows), SHMOE_INVALID_ARGUMENT, "no dispatch has used half 0 yet");
  refused(shmoe_ll_rows(ll, 2, &rows), SHMOE_INVALID_ARGUMENT, "half is 2: 0 or 1");
  refused(shmoe_ll_dispatch_finish(ll, -1), SHMOE_INVALID_ARGUMENT, "half is -1: 0 or 1");
  const float x = 0;
  const std::int32_t expert = 0;
  const shmoe_ll_dispatch_args one = {.size = sizeof one, .tokens = 1, .x = &x, .x_bytes = 2, .expert_ids = &expert};
  std::int32_t half = -1;
  NULL_REFUSED(shmoe_ll_dispatch, "half", ll, &one, nullptr);
  well(shmoe_ll_dispatch_begin(ll, &one, &half));
  CHECK(half == 0);
  refused(shmoe_ll_rows(ll, half, &rows), SHMOE_BROKEN_CONTRACT, "call dispatch_finish first");
  refused(shmoe_ll_combine_finish(ll, half), SHMOE_INVALID_ARGUMENT, "call shmoe_ll_combine_begin first");
  well(shmoe_ll_dispatch_finish(ll, half));
  well(shmoe_ll_destroy(ll));

  const shmoe_afd_shape apart = {
      .size = sizeof apart, .expert_ranks = 1, .attention_ranks = 1, .max_batch = 1, .hidden = 1};
  shmoe_afd* afd = nullptr;
  well(shmoe_afd_create(alone.comm, &apart, &afd));
  shmoe_a2e_tables tables = {.size = sizeof tables};
  refused(shmoe_afd_tables(afd, &tables), SHMOE_INVALID_ARGUMENT, "no tables before an a2e that has ended well");
  const shmoe_a2e_args none = {.size = sizeof none};
  refused(shmoe_a2e(afd, &none), SHMOE_INVALID_ARGUMENT, "shmoe_a2e: ");
  well(shmoe_afd_destroy(afd));
}

TEST_CASE("low latency needs a world that says so") {
  const Alone alone;
  const shmoe_ll_shape few = {.size = sizeof few, .experts = 1, .topk = 1, .hidden = 1, .most_tokens = 1};
  shmoe_ll* ll = nullptr;
  well(shmoe_ll_create(alone.comm, &few, &ll));
  const shmoe_ll_dispatch_args none = {.size = sizeof none};
  std::int32_t half = 0;
  refused(shmoe_ll_dispatch(ll, &none, &half), SHMOE_INVALID_ARGUMENT, "shmoe_ll_dispatch: ");
  well(shmoe_ll_destroy(ll));
}

TEST_CASE("the last error is that of this thread, and stays until the next one") {
  std::int32_t rank = 0;
  (void)shmoe_world_rank(nullptr, &rank);
  const std::string mine = shmoe_last_error();
  std::string before = "?";
  std::thread([&] {
    before = shmoe_last_error();
    (void)shmoe_world_finalize(nullptr);
  }).join();
  CHECK(before.empty());
  well(shmoe_run_as_threads(1, nullptr, nothing, nullptr));
  CHECK(shmoe_last_error() == mine);
}
