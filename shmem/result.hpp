#pragma once
// How things go wrong: Result for what the environment may do, SHMOE_EXPECTS for what the caller must not do.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "shmem/types.hpp"

namespace shmoe {

/// Where in the source an operation was called. Taken through a defaulted argument: `SourceSite site = SourceSite::here()`.
struct SourceSite {
  const char* file = "";  // base name
  std::uint32_t line = 0;

  static constexpr SourceSite here(const char* path = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    const char* base = path;
    for (const char* c = path; *c != '\0'; ++c) {
      if (*c == '/') base = c + 1;
    }
    return {base, line};
  }
};

/// Fits the eight error bits of a flag word. The numbers are part of the layout version.
enum class Errc : std::uint8_t {
  ok = 0,
  invalid_argument = 1,   // a shape, id, dtype or option that the call does not take
  mismatch = 2,           // ranks disagree about a call, a layout or a setting
  capacity_exceeded = 3,  // more rows than the receive buffer holds
  out_of_memory = 4,      // no free bytes left
  fragmented = 5,         // enough free bytes, no free range long enough
  peer_lost = 6,          // a rank of this communicator is gone
  aborted = 7,            // another core or rank gave up
  deadline = 8,           // the caller's own limit passed
  deadlock = 9,           // proven: nobody alive can end this wait
  already_exists = 10,    // the object is there and its owner lives
  not_found = 11,         //
  permission = 12,        // owned by another user, or wrong mode
  version = 13,           // another layout version
  refused = 14,           // the peer rejected us: secret, size or rank
  system = 15,            // a system call failed; see Error::sys
  io = 16,                // a stream ended or a file does not parse
  broken_contract = 17,   // a ContractViolation that crossed a launch
};

constexpr const char* name_of(Errc code) {
  switch (code) {
    case Errc::ok: return "ok";
    case Errc::invalid_argument: return "invalid argument";
    case Errc::mismatch: return "mismatch";
    case Errc::capacity_exceeded: return "capacity exceeded";
    case Errc::out_of_memory: return "out of memory";
    case Errc::fragmented: return "fragmented";
    case Errc::peer_lost: return "peer lost";
    case Errc::aborted: return "aborted";
    case Errc::deadline: return "deadline passed";
    case Errc::deadlock: return "deadlock";
    case Errc::already_exists: return "already exists";
    case Errc::not_found: return "not found";
    case Errc::permission: return "permission";
    case Errc::version: return "version";
    case Errc::refused: return "refused";
    case Errc::system: return "system";
    case Errc::io: return "io";
    case Errc::broken_contract: return "broken contract";
  }
  return "unknown";
}

/// One failure. `context` says what happened and what to do next; callers add what they were doing with `within`.
struct Error {
  Errc code = Errc::ok;
  std::string context;
  std::optional<Rank> where = {};  // the rank at fault, where one is
  int sys = 0;                     // errno, where one is
  SourceSite site = SourceSite::here();

  [[nodiscard]] Error within(std::string_view outer) && {
    context = fmt::format("{}: {}", outer, context);
    return std::move(*this);
  }
};

/// "code: context (errno text)" in one line.
std::string to_string(const Error& error);

/// A value or an Error; the member names are those of std::expected.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  [[nodiscard]] Error& error() & { return std::get<1>(state_); }
  [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
  [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] Error& error() & { return *error_; }
  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

/// Leaves a kernel body when a wait ended without its value or a collective call was refused; the launch turns it back
/// into a Result. Only kernels throw it, only a launch catches it.
class Interrupted : public std::exception {
 public:
  /// Whether every core of every rank leaves at this point, so that nobody is left waiting.
  enum class Agreed : bool { no, yes };

  explicit Interrupted(Error error, Agreed agreed = Agreed::no)
      : error_(std::move(error)), text_(to_string(error_)), agreed_(agreed) {}
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] bool agreed() const { return agreed_ == Agreed::yes; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  Error error_;
  std::string text_;
  Agreed agreed_;
};

/// The caller broke the contract of a function: a fault in the calling program, not in the world around it.
class ContractViolation : public std::exception {
 public:
  explicit ContractViolation(std::string text) : text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Exit code of a program that ends with a ContractViolation, and of one that ends with a proven deadlock.
inline constexpr int kExitContract = 85;
inline constexpr int kExitDeadlock = 86;

[[noreturn]] void contract_violated(const char* condition, SourceSite site, std::string message);

/// Always on. SHMOE_EXPECTS(rank < size, "rank {} of {}", rank, size);
#define SHMOE_EXPECTS(condition, ...)                                                                                \
  do {                                                                                                               \
    if (!(condition)) ::shmoe::contract_violated(#condition, ::shmoe::SourceSite::here(), fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace shmoe
