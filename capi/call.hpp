#pragma once
// What every C function does around its work: no exception leaves it, and what went wrong is kept for this thread.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "capi/shmoe.h"
#include "shmem/function_ref.hpp"
#include "shmem/result.hpp"

namespace shmoe::capi {

/// Of a call, so that no product of sizes can wrap.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

/// Ends a C function with an error; only `call` catches it.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  [[nodiscard]] Error& error() { return error_; }

 private:
  Error error_;
};

[[noreturn]] void refuse(std::string text);

/// Runs `act` and turns what it ends with into a status. `function` is the name in C, at the start of the text.
shmoe_status call(const char* function, shmem::FunctionRef<void()> act) noexcept;

/// Of the last failed call of this thread.
const Error& last_error();
/// Keeps an error for this thread.
shmoe_status keep(Error error) noexcept;

/// The value, or the end of the call.
template <class T>
T value_of(Result<T> result) {
  if (!result) throw Failure(std::move(result).error());
  return std::move(result).value();
}
inline void done(Result<void> result) {
  if (!result) throw Failure(std::move(result).error());
}

template <class T>
T& need(T* pointer, const char* name) {
  if (pointer == nullptr) refuse(fmt::format("{} is NULL", name));
  return *pointer;
}

/// A number of C as one of the first `count` values of an enumeration.
template <class Enum>
Enum choice(std::int32_t number, std::int32_t count, const char* name) {
  if (number < 0 || number >= count) refuse(fmt::format("{} is {}: it goes from 0 to {}", name, number, count - 1));
  return static_cast<Enum>(number);
}

/// A tensor of the caller; NULL is an empty one.
template <class T>
std::span<T> tensor(T* first, std::int64_t count) {
  return {first, first == nullptr ? 0 : static_cast<std::size_t>(std::max<std::int64_t>(count, 0))};
}
/// An offset that may be left out.
inline std::optional<Offset> place(const std::uint64_t* offset) {
  return offset == nullptr ? std::nullopt : std::optional(Offset{*offset});
}
inline std::span<const std::byte> bytes(const void* first, std::size_t count) {
  return {static_cast<const std::byte*>(first), first == nullptr ? 0 : count};
}
inline std::span<std::byte> bytes(void* first, std::size_t count) {
  return {static_cast<std::byte*>(first), first == nullptr ? 0 : count};
}

/// A struct of the interface: it begins with its size.
template <class T>
concept Versioned = std::same_as<decltype(T::size), std::size_t>;

/// Refuses a size that no version can have, and fields that this library does not know where they are not 0.
void check_size(const void* given, std::size_t known, const char* name);

/// The caller's struct; fields that its version lacks are 0.
template <Versioned T>
T taken(const T* given, const char* name) {
  check_size(&need(given, name), sizeof(T), name);
  T all{};
  std::memcpy(&all, given, std::min(given->size, sizeof(T)));
  return all;
}

/// Hands a result out, as much of it as the caller's version has.
template <Versioned T>
void hand_out(T result, T* to, const char* name) {
  check_size(&need(to, name), sizeof(T), name);
  result.size = to->size;
  std::memcpy(to, &result, std::min(to->size, sizeof(T)));
}

}  // namespace shmoe::capi
