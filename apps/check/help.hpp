#pragma once
// What the command that checks says about itself.

namespace shmoe::apps::detail {

// {0} is what the command is called.
inline constexpr const char* kCheck =
    "Searches schedules of communication programs for deadlocks and races.\n\n"
    "  {0} list\n"
    "  {0} run all                        each program in its usual world\n"
    "  {0} run NAME --strategy delay3     every schedule with at most 3 delays\n"
    "  {0} explain STRING                 why a schedule fails, in a few lines\n\n"
    "All cores of all ranks run as fibers of one thread; the checker decides at every visible step who goes on. What "
    "is\n"
    "sent lands late and in any order that fence, quiet and put_signal leave open, as on a real network. The programs "
    "are\n"
    "the compiled operators themselves, not models of them.";

inline constexpr const char* kGuarantees =
    "\nWhat a verdict means: it is real. It names the wait that cannot end or the two accesses that nothing orders, "
    "and its\n"
    "replay string gives it again. A race is found from any schedule in which both accesses occur, whatever value was\n"
    "read; x86 may hide it, the rules of put and fence do not.\n\n"
    "What silence means depends on the strategy:\n"
    "  random     nothing, formally; finds shallow bugs fast\n"
    "  pctD       a bug that needs D steps in a certain order is found with probability at least 1/(n k^(D-1)) in "
    "each\n"
    "             schedule, with n cores and channels and k decisions\n"
    "  portfolio  random, then pct1 to pct3: each finds what another one misses\n"
    "  delayN     run to its end: no schedule with at most N delays fails. Option i of a decision costs i delays\n"
    "  preemptN   run to its end: no schedule fails that leaves a core that could go on at most N times\n"
    "And only in that world: these ranks, cores, rounds and inputs. It says nothing about paths that the inputs do "
    "not\n"
    "take, about wrong sums, or about a network that tears what it delivers into smaller pieces.\n\n"
    "Exit code: 0 all as expected; 1 a failure that was not expected, or none where one was; 2 a call that makes no "
    "sense.";

inline constexpr const char* kList =
    "Names the programs, their usual world and what they do.\n\n"
    "r2c1n3 is 2 ranks of 1 core, 3 rounds; then what differs from the usual: a profile, noviews, strong, fromROUND.\n"
    "A program that is there to fail says how.";

inline constexpr const char* kRun =
    "Runs programs on many schedules, each until one fails or the budget is spent.\n\n"
    "  {0} run all\n"
    "  {0} run double_barrier --profile faithful-2026-07\n"
    "  {0} run hand_over --strategy delay4 --ranks 3\n\n"
    "A failure is shrunk to the fewest choices that still show it. One that was expected counts as good.";

inline constexpr const char* kReplay =
    "Runs the one schedule of a replay string and says its verdict.\n\n"
    "Exit code: 0 clean; 1 it fails; 2 not a string of these programs.";

inline constexpr const char* kShrink = "Prints a replay string with fewer choices that still fails in the same way.";

inline constexpr const char* kExplain = "Shrinks a failing schedule and tells only the steps that matter.";

}  // namespace shmoe::apps::detail
