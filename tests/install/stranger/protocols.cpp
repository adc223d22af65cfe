// A protocol of its own for the checker: a flag is raised, or forgotten.

#include <vector>

#include "apps/check/command.hpp"

using namespace shmoe;
using runtime::Communicator;
using runtime::CoreContext;
using runtime::VerdictKind;
using runtime::check::Program;
using runtime::check::Setting;

constexpr Rank kSender{0};
constexpr Rank kReceiver{1};

Result<void> raise_flag(Communicator& all, bool forgotten) {
  return all.launch("raise", [&](CoreContext& context) {
    const Slot flag = context.slots().flag().at(0, kSender);
    if (context.rank() == kSender && !forgotten) context.signal(kReceiver, flag, shmem::SignalOp::set, 1);
    if (context.rank() == kReceiver) context.wait(flag, Compare::equal, 1).ordering_only();
  });
}

Program program(const char* name, const char* what, bool forgotten, VerdictKind expected) {
  return {.name = name,
          .what = what,
          .make = [=](const Setting&) { return [=](Communicator& all) { return raise_flag(all, forgotten); }; },
          .expected = expected};
}

int main(int argc, char** argv) {
  const std::vector programs{program("raised", "the flag is raised", false, VerdictKind::clean),
                             program("forgotten", "nobody raises it", true, VerdictKind::orphan_wait)};
  return apps::check_main(argc, argv, "protocols", programs);
}
