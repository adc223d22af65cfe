#pragma once
// A verdict on a live job for programs to read.

#include <string>

#include "runtime/diagnosis/verdict.hpp"

namespace shmoe::runtime {

/// One object: {schema, verdict, text, proven_after_ms, causes: [{cause, because, advice}], stuck: [{rank, core, op, round,
/// waits_for, site, writers, written}]}, the likeliest cause first.
std::string to_json(const Verdict& verdict);

/// Errors:  io naming the file.
Result<void> write_json(const Verdict& verdict, const std::string& file);

}  // namespace shmoe::runtime
