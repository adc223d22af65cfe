#include "capi/call.hpp"

#include <new>
#include <string>

namespace shmoe::capi {
namespace {

#define SHMOE_SAME(upper, lower) static_assert(static_cast<int>(SHMOE_##upper) == static_cast<int>(Errc::lower))
SHMOE_SAME(OK, ok);
SHMOE_SAME(INVALID_ARGUMENT, invalid_argument);
SHMOE_SAME(MISMATCH, mismatch);
SHMOE_SAME(CAPACITY_EXCEEDED, capacity_exceeded);
SHMOE_SAME(OUT_OF_MEMORY, out_of_memory);
SHMOE_SAME(FRAGMENTED, fragmented);
SHMOE_SAME(PEER_LOST, peer_lost);
SHMOE_SAME(ABORTED, aborted);
SHMOE_SAME(DEADLINE, deadline);
SHMOE_SAME(DEADLOCK, deadlock);
SHMOE_SAME(ALREADY_EXISTS, already_exists);
SHMOE_SAME(NOT_FOUND, not_found);
SHMOE_SAME(PERMISSION, permission);
SHMOE_SAME(VERSION, version);
SHMOE_SAME(REFUSED, refused);
SHMOE_SAME(SYSTEM, system);
SHMOE_SAME(IO, io);
SHMOE_SAME(BROKEN_CONTRACT, broken_contract);
#undef SHMOE_SAME

/// More bytes than any struct of the interface will have: a size that was never set.
constexpr std::size_t kMostSize = 4096;
/// Every struct begins with a size_t, so its own size is a multiple of one; another would cut a pointer in two.
constexpr std::size_t kStep = sizeof(std::size_t);

struct Kept {
  Error error;
  std::string text;
  const char* shown = "";  // the text, or what stands for it where there was no memory for one
};

Kept& kept() {
  thread_local Kept of_this_thread;
  return of_this_thread;
}

Error error_of(const std::exception& exception) {
  return {.code = Errc::system, .context = fmt::format("an exception: {}", exception.what())};
}

void run(const char* function, shmem::FunctionRef<void()> act) {
  try {
    act();
  } catch (Failure& failure) {
    throw Failure(std::move(failure.error()).within(function));
  } catch (const ContractViolation& violation) {
    throw Failure(Error{.code = Errc::broken_contract, .context = violation.what()}.within(function));
  } catch (const std::bad_alloc&) {
    throw Failure(Error{.code = Errc::out_of_memory, .context = "this process has no memory left"}.within(function));
  } catch (const std::exception& exception) {
    throw Failure(error_of(exception).within(function));
  }
}

}  // namespace

void refuse(std::string text) { throw Failure(Error{.code = Errc::invalid_argument, .context = std::move(text)}); }

shmoe_status keep(Error error) noexcept {
  Kept& last = kept();
  const Errc code = error.code;
  try {
    last.text = to_string(error);
    last.error = std::move(error);
    last.shown = last.text.c_str();
  } catch (...) {
    last.error.code = code;
    last.shown = "an error whose text found no memory";
  }
  return static_cast<shmoe_status>(code);
}

const Error& last_error() { return kept().error; }

shmoe_status call(const char* function, shmem::FunctionRef<void()> act) noexcept {
  try {
    run(function, act);
    return SHMOE_OK;
  } catch (Failure& failure) {
    return keep(std::move(failure.error()));
  } catch (...) {
    return keep({.code = Errc::system, .context = "what was thrown is no exception of the standard library"});
  }
}

void check_size(const void* given, std::size_t known, const char* name) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size <= sizeof size || size > kMostSize || size % kStep != 0) {
    refuse(fmt::format("{}->size is {}: set it to the sizeof of the struct", name, size));
  }
  const auto* first = static_cast<const std::byte*>(given);
  const bool foreign =
      std::any_of(first + std::min(known, size), first + size, [](std::byte b) { return b != std::byte{0}; });
  if (foreign) {
    refuse(
        fmt::format("{}->size is {}, and fields behind byte {} are set, which this library does not know: use a "
                    "library as new as the header",
                    name, size, known));
  }
}

}  // namespace shmoe::capi

const char* shmoe_status_name(std::int32_t status) {
  if (status < SHMOE_OK || status > SHMOE_BROKEN_CONTRACT) return "unknown";
  return shmoe::name_of(static_cast<shmoe::Errc>(status));
}

const char* shmoe_last_error() { return shmoe::capi::kept().shown; }
