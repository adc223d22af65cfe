#pragma once
// A callable passed down the stack, without the copy on the heap that std::function may make.

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace shmoe::shmem {

template <class Signature>
class FunctionRef;

/// For parameters only: refers to the caller's function object, which must outlive the call.
template <class Return, class... Args>
class FunctionRef<Return(Args...)> {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_object_v<std::remove_reference_t<F>> &&
           std::is_invocable_r_v<Return, F&, Args...>) FunctionRef(F&& function)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Args... args) -> Return {
          return std::invoke(*static_cast<std::remove_reference_t<F>*>(object), std::forward<Args>(args)...);
        }) {}

  Return operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Return (*call_)(void*, Args...);
};

}  // namespace shmoe::shmem
