#include "tests/steady/system_calls.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace shmoe::test {
namespace {

constexpr std::size_t kCalls = 512;
std::array<std::atomic<std::uint64_t>, kCalls> counts;

std::string name_of(std::size_t call) {
  switch (call) {
    case SYS_futex: return "futex";
    case SYS_futex_waitv: return "futex_waitv";
    case SYS_sched_yield: return "sched_yield";
    default: return fmt::to_string(call);
  }
}

}  // namespace

std::string calls_made() {
  std::string text;
  for (std::size_t call = 0; call < kCalls; ++call) {
    const std::uint64_t count = counts[call].exchange(0);
    if (count == 0) continue;
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", name_of(call), count);
  }
  return text.empty() ? "none" : text;
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// The calls of the handler itself: those made between the two labels are never sent back.
extern "C" {
long shmoe_test_call(long number, long a, long b, long c, long d, long e, long f);
void shmoe_test_return_from_handler();
extern const char shmoe_test_calls_begin[];
extern const char shmoe_test_calls_end[];
}
asm(R"(
.pushsection .text
.globl shmoe_test_calls_begin, shmoe_test_calls_end, shmoe_test_call, shmoe_test_return_from_handler
shmoe_test_calls_begin:
shmoe_test_return_from_handler:
  mov $15, %eax
  syscall
shmoe_test_call:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
  ret
shmoe_test_calls_end:
.popsection
)");

namespace {

constexpr int kSetDispatch = 59;  // PR_SET_SYSCALL_USER_DISPATCH
constexpr unsigned long kOff = 0;
constexpr unsigned long kOn = 1;
constexpr char kAllow = 0;
constexpr char kBlock = 1;
thread_local char selector = kAllow;

void on_call(int /*number*/, siginfo_t* info, void* context) {
  selector = kAllow;
  const auto call = static_cast<std::size_t>(info->si_syscall);
  // Where the clock cannot be read without the kernel, that is the machine's doing.
  if (call < kCalls && call != SYS_clock_gettime) counts[call].fetch_add(1, std::memory_order_relaxed);
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RAX] =
      shmoe_test_call(info->si_syscall, static_cast<long>(registers[REG_RDI]), static_cast<long>(registers[REG_RSI]),
                      static_cast<long>(registers[REG_RDX]), static_cast<long>(registers[REG_R10]),
                      static_cast<long>(registers[REG_R8]), static_cast<long>(registers[REG_R9]));
  selector = kBlock;
}

/// Not sigaction(): the way back from its handlers is a call of the C library's, which would be sent back too.
bool install_handler() {
  struct {
    void (*handler)(int, siginfo_t*, void*);
    unsigned long flags;
    void (*restorer)();
    std::uint64_t mask;
  } const action{on_call, SA_SIGINFO | 0x04000000 /* SA_RESTORER */, shmoe_test_return_from_handler, 0};
  return syscall(SYS_rt_sigaction, SIGSYS, &action, nullptr, sizeof action.mask) == 0;
}

bool dispatch(unsigned long mode) {
  const auto begin = reinterpret_cast<unsigned long>(shmoe_test_calls_begin);
  const auto length = reinterpret_cast<unsigned long>(shmoe_test_calls_end) - begin;
  if (mode == kOff) return prctl(kSetDispatch, kOff, 0UL, 0UL, 0UL) == 0;
  return prctl(kSetDispatch, kOn, begin, length, &selector) == 0;
}

}  // namespace

bool can_watch_calls() {
  static const bool can = install_handler() && dispatch(kOn) && dispatch(kOff);
  return can;
}

void watch_calls() {
  dispatch(kOn);
  selector = kBlock;
}

void unwatch_calls() {
  selector = kAllow;
  dispatch(kOff);
}

#else

bool can_watch_calls() { return false; }
void watch_calls() {}
void unwatch_calls() {}

#endif

}  // namespace shmoe::test
