#include "shmem/context.hpp"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "shmem/passing_fabric.hpp"
#include "tests/shmem/fabric_harness.hpp"
#include "tests/shmem/shm_names.hpp"

using namespace shmoe;
using namespace shmoe::shmem;
using namespace shmoe::shmem::test;

namespace {

constexpr Arrival kArrival{.index = 0, .value = 5};

/// How many bytes are touched.
class ByteCount final : public PassingFabric {
 public:
  using PassingFabric::PassingFabric;
  void put(Rank dst, Offset to, std::span<const std::byte> from, SourceSite site) override {
    bytes += from.size();
    PassingFabric::put(dst, to, from, site);
  }
  void get(Rank src, Offset from, std::span<std::byte> to, SourceSite site) override {
    bytes += to.size();
    PassingFabric::get(src, from, to, site);
  }
  std::span<const std::byte> open_read(Rank src, Offset at, Bytes size, SourceSite site) override {
    bytes += size.value();
    return PassingFabric::open_read(src, at, size, site);
  }
  std::span<std::byte> open_write(Rank dst, Offset at, Bytes size, SourceSite site) override {
    bytes += size.value();
    return PassingFabric::open_write(dst, at, size, site);
  }

  std::uint64_t bytes = 0;
};

Context front(Job& job, std::int32_t rank) {
  return {job.at(rank), *job.plan().slots, {.rank = Rank{rank}, .ranks = 2, .core = Core{0}, .cores = 1}};
}

}  // namespace

TEST_CASE("token: one that nobody consumes aborts in debug builds and names the wait") {
  const Ending ending = in_child([] {
    { const Token token(kArrival, SourceSite{"kernel.cpp", 1234}); }
    return 0;
  });
#ifdef NDEBUG
  CHECK(ending.exit_code == 0);
#else
  CHECK(ending.signal == SIGABRT);
  CHECK(ending.said.find("never consumed") != std::string::npos);
  CHECK(ending.said.find("kernel.cpp:1234") != std::string::npos);
#endif
}

TEST_CASE("token: consumed, declared as ordering only, or moved from, it goes quietly") {
  const Ending ending = in_child([] {
    Token first(kArrival, SourceSite::here());
    Token second = std::move(first);
    if (second.arrival().value != 5) return 1;
    const Witness witness = consume_token(std::move(second));
    [[maybe_unused]] const Witness copy = witness;
    Token third(kArrival, SourceSite::here());
    std::move(third).ordering_only();
    return 0;
  });
  CHECK(ending.exit_code == 0);
  CHECK(ending.said.empty());
}

TEST_CASE("token: one that is passed on and then dropped still aborts") {
  const Ending ending = in_child([] {
    Token first(kArrival, SourceSite::here());
    { const Token second = std::move(first); }
    return 0;
  });
#ifndef NDEBUG
  CHECK(ending.signal == SIGABRT);
#else
  CHECK(ending.exit_code == 0);
#endif
}

TEST_CASE("token: leaving by an exception is no fault; one dropped inside a handler is") {
  const Ending unwound = in_child([] {
    try {
      const Token token(kArrival, SourceSite::here());
      throw Interrupted(Error{.code = Errc::aborted, .context = "test"});
    } catch (const Interrupted&) {
      return 0;
    }
  });
  CHECK(unwound.exit_code == 0);
  CHECK(unwound.said.empty());
#ifndef NDEBUG
  const Ending dropped = in_child([] {
    try {
      throw Interrupted(Error{.code = Errc::aborted, .context = "test"});
    } catch (const Interrupted&) {
      const Token token(kArrival, SourceSite::here());
    }
    return 0;
  });
  CHECK(dropped.signal == SIGABRT);
#endif
}

TEST_CASE("context: a wait with an open view breaks the contract, after it closed it is fine") {
  Job job(Body::threads, {});
  Context context = front(job, 0);
  const Slot slot = job.plan().word.at(0, Rank{1});
  front(job, 1).signal(Rank{0}, slot, SignalOp::set, 1);
  const Offset area = job.plan().area();
  std::vector<std::uint64_t> scratch(4);
  {
    const auto view = context.write(Rank{1}, area, std::span{scratch});
    CHECK_THROWS_WITH_AS((void)context.wait(slot, Compare::at_least, 1),
                         doctest::Contains("while 1 views are open: close them first"), ContractViolation);
  }
  std::optional<ReadView<std::uint64_t>> view = context.read(Rank{1}, area, std::span{scratch}, Witness::own());
  CHECK_THROWS_WITH_AS((void)context.wait(slot, Compare::at_least, 1),
                       doctest::Contains("while 1 views are open: close them first"), ContractViolation);
  view.reset();
  { const auto closed = context.read(Rank{0}, area, std::span{scratch}, Witness::own()); }
  Token token = context.wait(slot, Compare::at_least, 1);
  CHECK(token.arrival().value == 1);
  consume_token(std::move(token));
}

TEST_CASE("context: an open view is named by the violation") {
  Job job(Body::threads, {});
  Context context = front(job, 0);
  std::vector<std::uint16_t> scratch(2);
  const auto view = context.write(Rank{1}, job.plan().area(), std::span{scratch});
  const auto second = context.read(Rank{1}, job.plan().area(), std::span{scratch}, Witness::own());
  try {
    (void)context.wait(job.plan().word.at(0, Rank{1}), Compare::at_least, 1);
    FAIL("no violation");
  } catch (const ContractViolation& e) {
    const std::string text = e.what();
    CHECK(text.find("core 0 of rank 0 waits at context_test.cpp:") != std::string::npos);
    CHECK(text.find("2 views are open") != std::string::npos);
  }
}

TEST_CASE("context: reads and writes give the same in place and through scratch") {
  for (const Body body : kBodies) {
    for (const bool views : {true, false}) {
      INFO(name_of(body));
      CAPTURE(views);
      Job job(body, {.views = views});
      Context context = front(job, 0);
      const Offset area = job.plan().area();
      for (std::int32_t dst = 0; dst < 2; ++dst) {
        std::vector<std::uint32_t> scratch(5);
        {
          const auto view = context.write(Rank{dst}, area, std::span{scratch});
          REQUIRE(view.data().size() == 5);
          for (std::size_t i = 0; i < 5; ++i)
            view.data()[i] = static_cast<std::uint32_t>(100 * dst + 7 * static_cast<int>(i));
        }
        context.quiet();
        std::vector<std::uint32_t> other(5);
        const auto seen = context.read(Rank{dst}, area, std::span{other}, Witness::own());
        for (std::size_t i = 0; i < 5; ++i) CHECK(seen.data()[i] == 100U * static_cast<unsigned>(dst) + 7U * i);
        if (!views) CHECK(seen.data().data() == other.data());
      }
    }
  }
}

TEST_CASE("context: an empty read and an empty write touch nothing") {
  Job job(Body::threads, {});
  ByteCount fabric(job.at(0));
  Context context(fabric, *job.plan().slots, {.rank = Rank{0}, .ranks = 2, .core = Core{0}, .cores = 1});
  std::span<std::uint64_t> nothing;
  { const auto view = context.write(Rank{1}, job.plan().area(), nothing); }
  CHECK(context.read(Rank{1}, job.plan().area(), nothing, Witness::own()).data().empty());
  CHECK(fabric.bytes == 0);
  std::uint64_t word = 0;
  { const auto view = context.write(Rank{1}, job.plan().area(), std::span{&word, 1}); }
  CHECK(fabric.bytes == 8);
}

TEST_CASE("context: a wait that ends without its value leaves as Interrupted") {
  Job job(Body::threads, {});
  Context context = front(job, 0);
  const Slot slot = job.plan().word.at(0, Rank{1});
  try {
    (void)context.wait(WaitSpec{.where = Rank{0}, .slots = {&slot, 1}, .value = 1, .deadline = Time{1}});
    FAIL("it returned");
  } catch (const Interrupted& e) {
    CHECK(e.error().code == Errc::deadline);
    CHECK(!e.agreed());
  }
}

TEST_CASE("context: slices of all cores tile the items") {
  Job job(Body::threads, {});
  std::int64_t next = 0;
  for (std::int32_t core = 0; core < 5; ++core) {
    const Context context(job.at(0), *job.plan().slots, {.rank = Rank{0}, .ranks = 2, .core = Core{core}, .cores = 5});
    CHECK(context.slice(13).first == next);
    next = context.slice(13).last;
  }
  CHECK(next == 13);
}
