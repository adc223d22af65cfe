#include "runtime/check/fiber.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <cxxabi.h>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#if defined(__has_feature)
#define SHMOE_HAS_FEATURE(x) __has_feature(x)
#else
#define SHMOE_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || SHMOE_HAS_FEATURE(address_sanitizer)
#define SHMOE_FIBER_ASAN 1
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SHMOE_FIBER_TSAN  // by the build, because this file itself is not instrumented
#include <sanitizer/tsan_interface.h>
#endif

namespace shmoe::runtime::check {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
#ifdef SHMOE_FIBER_TSAN
// A switch orders nothing: what one core did is not known to the next one because it ran before.
constexpr unsigned kNoOrder = __tsan_switch_to_fiber_no_sync;
#endif

/// What the C++ runtime keeps per thread about exceptions, as the ABI lays it out: saved and restored at every switch.
struct Exceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;

  void swap() {
    auto& global = *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
    std::swap(caught, global.caught);
    std::swap(uncaught, global.uncaught);
  }
};

/// What the sanitisers want to know about a switch to another stack.
class Stack {
 public:
  Stack() {
#ifdef SHMOE_FIBER_TSAN
    fiber_ = __tsan_create_fiber(0);
#endif
  }
  ~Stack() {
#ifdef SHMOE_FIBER_TSAN
    __tsan_destroy_fiber(fiber_);
#endif
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  void placed(const boost::context::stack_context& place) {
    bottom_ = static_cast<std::byte*>(place.sp) - place.size;
    size_ = place.size;
  }
  void before_entry() {
#ifdef SHMOE_FIBER_ASAN
    __sanitizer_start_switch_fiber(&caller_fake_, bottom_, size_);
#endif
#ifdef SHMOE_FIBER_TSAN
    caller_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, kNoOrder);
#endif
  }
  void after_entry() {
#ifdef SHMOE_FIBER_ASAN
    __sanitizer_finish_switch_fiber(own_fake_, &caller_bottom_, &caller_size_);
#endif
  }
  void before_exit() {
#ifdef SHMOE_FIBER_ASAN
    __sanitizer_start_switch_fiber(&own_fake_, caller_bottom_, caller_size_);
#endif
#ifdef SHMOE_FIBER_TSAN
    __tsan_switch_to_fiber(caller_, kNoOrder);
#endif
  }
  void after_exit() {
#ifdef SHMOE_FIBER_ASAN
    __sanitizer_finish_switch_fiber(caller_fake_, nullptr, nullptr);
#endif
  }

 private:
  [[maybe_unused]] const void* bottom_ = nullptr;
  [[maybe_unused]] std::size_t size_ = 0;
  [[maybe_unused]] void* own_fake_ = nullptr;
  [[maybe_unused]] void* caller_fake_ = nullptr;
  [[maybe_unused]] const void* caller_bottom_ = nullptr;
  [[maybe_unused]] std::size_t caller_size_ = 0;
#ifdef SHMOE_FIBER_TSAN
  void* fiber_ = nullptr;
  void* caller_ = nullptr;
#endif
};

}  // namespace

struct Fiber::State {
  Stack stack;
  boost::context::fiber inside;   // where to resume
  boost::context::fiber outside;  // where to suspend to
  Exceptions exceptions;
  std::function<void()> body;
  bool busy = false;  // the body has begun or is about to, and has not returned
  bool closing = false;

  State() {
    boost::context::protected_fixedsize_stack allocator(kStackBytes);
    const boost::context::stack_context place = allocator.allocate();
    stack.placed(place);
    inside =
        boost::context::fiber(std::allocator_arg, boost::context::preallocated(place.sp, place.size, place), allocator,
                              [this](boost::context::fiber&& caller) { return serve(std::move(caller)); });
  }

  /// A body that is still suspended is unwound by the destructor of `inside`.
  ~State() {
    if (busy) return;
    closing = true;
    enter();
  }

  boost::context::fiber serve(boost::context::fiber&& caller) {
    outside = std::move(caller);
    stack.after_entry();
    while (!closing) {
      if (busy) {
        body();
        busy = false;
      }
      leave();
    }
    stack.before_exit();
    return std::move(outside);
  }

  void enter() {
    exceptions.swap();
    stack.before_entry();
    inside = std::move(inside).resume();
    stack.after_exit();
    exceptions.swap();
  }
  void leave() {
    stack.before_exit();
    outside = std::move(outside).resume();
    stack.after_entry();
  }
};

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::~Fiber() = default;
Fiber::Fiber(Fiber&&) noexcept = default;

void Fiber::assign(std::function<void()> body) {
  state_->body = std::move(body);
  state_->busy = true;
}
bool Fiber::idle() const { return !state_->busy; }
void Fiber::resume() { state_->enter(); }
void Fiber::suspend() { state_->leave(); }

}  // namespace shmoe::runtime::check
