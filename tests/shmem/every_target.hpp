#pragma once
// Code that is compiled for several instruction sets, each of them tested.

#include <doctest/doctest.h>
#include <hwy/targets.h>

namespace shmoe::test {

/// Runs `body` once for each instruction set that this machine has.
template <class Body>
void on_every_target(const Body& body) {
  const auto choose = [](std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    INFO("target " << hwy::TargetName(target));
    choose(target);
    body();
  }
  choose(0);
}

}  // namespace shmoe::test
