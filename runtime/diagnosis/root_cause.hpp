#pragma once
// Which step of a protocol is broken, when waits have been proven never to end. What is looked at: the words of the slots,
// what each core waits for, what each rank has noted of its signals, and how each core counts its rounds. Nothing else: no
// name of a scenario, no plan of faults.

#include <vector>

#include "runtime/diagnosis/sight.hpp"
#include "runtime/diagnosis/verdict.hpp"

namespace shmoe::runtime {

/// All that the evidence fits, the best first. Empty where it fits nothing that is known.
std::vector<Cause> causes_of(const Sight& sight, VerdictKind kind);

}  // namespace shmoe::runtime
