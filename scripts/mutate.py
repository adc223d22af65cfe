#!/usr/bin/env python3
"""How good is the checker? Breaks the protocols in hundreds of small ways and asks `shmoe check` about each.

usage: mutate.py list  [--file F]             every mutant, and how many
       mutate.py build                        the copy of the tree that has all of them
       mutate.py run [--only KEY...] [--file F] [--runs N] [--thorough N] [--seed N] [--json FILE]
       mutate.py faults [--record]            the named faults of the protocol's specification
       mutate.py judges                       faults of those who prove a deadlock and name its cause

    tree --copy--> build/mutants/src          every place that can be wrong lies behind a switch:
                                                if (!::shmoe::mutant(17)) context_->quiet(site);
                                                (::shmoe::mutant(18) ? 0U : count & 1)
         --one build--> build/mutants/build   SHMOE_MUTANT=17 shmoe check run ...

A mutant is killed when the checker gives a verdict on a program that is clean without it, or does not come to an end. A survivor is equivalent,
with the reason in tests/check/mutants/equivalent.txt, or a gap. `run` fails on a survivor that is not listed and on a
listed one that is killed. Keys do not contain lines: file:function:operator:hash of the texts; --only takes keys or
parts of them.

tests/check/mutants/faults.json: each fault is the key of a mutant or a replacement of its own, the program and the
world that find it, the verdicts it may end with, and one schedule with its verdict. `faults` replays the schedules;
--record finds and shrinks them anew.

tests/check/mutants/judges.json: a replacement in the code that judges live jobs, and the exhibit of the museum that then
ends otherwise than is written on it, the cases of a test in tests/runtime that then fail, or both.
"""

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/mutate"))

import campaign  # noqa: E402
import schemata  # noqa: E402

LISTS = ROOT / "tests/check/mutants"
FAULTS = LISTS / "faults.json"
JUDGES = LISTS / "judges.json"
JUDGES_TESTS = ("runtime_unit", "runtime_threads")  # the first where a fault names none


def read_faults():
    return json.loads(FAULTS.read_text()) if FAULTS.exists() else {}


def all_mutants():
    """The generated ones, then the faults with a text of their own."""
    generated = schemata.mutants_of(ROOT)
    written = schemata.hand_written(ROOT, {**read_faults(), **json.loads(JUDGES.read_text())})
    for number, mutant in enumerate(generated + written, 1):
        mutant.number = number
    return generated, written


def chosen(mutants, args):
    found = [m for m in mutants if not args.file or m.source.path == args.file]
    if args.only:
        found = [m for m in found if any(part in m.key for part in args.only)]
    if not found:
        raise SystemExit("mutate: no such mutant")
    return found


def list_mutants(args):
    mutants = chosen(all_mutants()[0], args)
    for mutant in mutants:
        print(f"{mutant.where}  {mutant.key}\n    {mutant.before}\n    -> {mutant.after}")
    sites = {(m.source.path, m.pieces[0].start, m.pieces[0].end) for m in mutants}
    print(f"{len(mutants)} mutants at {len(sites)} sites")
    return 0


def make_checker(args, *tests):
    generated, written = all_mutants()
    checker = campaign.Checker(args.program or schemata.build(ROOT, generated + written, *tests))
    return generated, written, checker


def build(args):
    generated, written, checker = make_checker(args)
    print(f"{checker.program}: {len(generated)} mutants, {len(written)} faults of their own")
    return 0


def check_clean(checker, mutants, runs, seed):
    """No switch is on: every world of theirs must be clean, or kills mean nothing."""
    for program, world in dict.fromkeys(world for mutant in mutants for world in campaign.worlds_of(mutant)):
        found = checker.run(0, program, world, runs, seed)
        if found:
            raise SystemExit(f"{found.text}\nmutate: {program} {world} is not clean without any mutant")


def run(args):
    generated, _, checker = make_checker(args)
    mutants = chosen(generated, args)
    check_clean(checker, mutants, args.thorough, args.seed)
    start = time.monotonic()
    done = 0

    def progress(_mutant, _found):
        nonlocal done
        done += 1
        terminal = sys.stderr.isatty()
        if terminal or done % max(len(mutants) // 10, 1) == 0:
            print(f"   {done} of {len(mutants)}", end="\r" if terminal else "\n", file=sys.stderr, flush=True)

    results = campaign.run_all(checker, mutants, args.runs, args.thorough, args.seed, progress)
    if args.json:
        Path(args.json).write_text(campaign.as_json(results))
    complete = not args.only and not args.file
    good = campaign.report(results, campaign.read_equivalent(LISTS / "equivalent.txt"), complete)
    print(f"mutate: {time.monotonic() - start:.0f} s")
    return 0 if good else 1


def judge_fault(checker, mutant, fault, record):
    """What is wrong, or nothing. Recording puts the schedule and its verdict into the fault."""
    if record:
        found = checker.run(mutant.number, fault["program"], fault["world"], 20000)
        if not found:
            return "not found"
        fault["verdict"], fault["replay"] = found.verdict, found.replay
    if "replay" not in fault:
        return "no schedule is recorded: mutate.py faults --record"
    if fault["verdict"] not in fault["expected"]:
        return f"{fault['verdict']}, expected {' or '.join(fault['expected'])}"
    found = checker.replay(mutant.number, fault["replay"])
    verdict = found.verdict if found else "clean"
    if verdict == fault["verdict"]:
        return None
    return f"its schedule ends with {verdict}\n{found.text if found else ''}"


def faults(args):
    generated, written, checker = make_checker(args)
    by_key = {m.key: m for m in generated + written}
    named = read_faults()
    wrong = 0
    for name, fault in named.items():
        key = fault.get("mutant") or next(m.key for m in written if m.key.endswith(f":fault:{name}"))
        if key not in by_key:
            fate = f"there is no mutant {key}"
        else:
            fate = judge_fault(checker, by_key[key], fault, args.record)
        wrong += fate is not None
        print(f"{name:4} {fault.get('verdict', ''):22} {fault['program']} {fault['world']}: {fate or 'found'}")
    if args.record:
        FAULTS.write_text(json.dumps(named, indent=2, ensure_ascii=False) + "\n")
    print(f"mutate: {len(named) - wrong} of {len(named)} faults found")
    return 1 if wrong else 0


def notice(checker, mutant, fault):
    """Which of the exhibit and the cases of the fault end otherwise than they should."""
    found = {}
    if "exhibit" in fault:
        found[fault["exhibit"]] = checker.call(mutant, "run", fault["exhibit"], command="museum") is not None
    if "test" in fault:
        test = Path("tests/runtime") / fault.get("program", JUDGES_TESTS[0])
        found[fault["test"]] = not checker.passes(mutant, test, fault["test"])
    return found


def judges(args):
    _, written, checker = make_checker(args, *JUDGES_TESTS)
    named = json.loads(JUDGES.read_text())
    missed = 0
    for name, fault in named.items():
        if any(notice(checker, 0, fault).values()):
            raise SystemExit(f"mutate: {name}: its exhibit or test does not end as it should without any mutant")
        mutant = next(m for m in written if m.key.endswith(f":fault:{name}"))
        by = notice(checker, mutant.number, fault)
        missed += not all(by.values())
        print(f"{name:4} {mutant.where}: " + ", ".join(f"{'found' if did else 'MISSED'} by {who}" for who, did in by.items()))
    print(f"mutate: {len(named) - missed} of {len(named)} faults of judges found")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, act in (("list", list_mutants), ("build", build), ("run", run), ("faults", faults), ("judges", judges)):
        command = commands.add_parser(name)
        command.set_defaults(act=act)
        if name in ("list", "run"):
            command.add_argument("--file", help="mutants of one source only")
            command.add_argument("--only", nargs="+", metavar="KEY", help="keys or parts of them")
        if name == "run":
            command.add_argument("--runs", type=int, default=400, help="schedules a world, at first")
            command.add_argument("--thorough", type=int, default=2000, help="schedules a world for what survived those")
            command.add_argument("--seed", type=int, default=1)
            command.add_argument("--json", metavar="FILE")
        if name == "faults":
            command.add_argument("--record", action="store_true", help="write the schedules anew")
        if name != "list":
            command.add_argument("--program", help="a built `shmoe` with the mutants; nothing is built then")
    args = parser.parse_args()
    return args.act(args)


if __name__ == "__main__":
    sys.exit(main())
