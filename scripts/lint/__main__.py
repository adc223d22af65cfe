"""Runs the gates. See scripts/lint.sh."""

import argparse
import sys
from pathlib import Path

from gates import FIXES, GATES, SLOW_GATES
from tree import Tree


def main():
    gates = GATES | SLOW_GATES
    options = argparse.ArgumentParser(prog="lint.sh")
    options.add_argument("--fix", action="store_true")
    options.add_argument("--list", action="store_true", help="name the gates and their reasons")
    options.add_argument("--only", action="append", choices=gates, metavar="GATE")
    options.add_argument("--tally", type=Path, help="append 'passed failed skipped' to this file")
    args = options.parse_args()
    if args.list:
        for name, gate in gates.items():
            print(f"{name:14} {gate.__doc__}")
        return 0

    if args.fix:
        for fix in FIXES:
            fix(Tree(Path.cwd()))
    tree = Tree(Path.cwd())
    names = args.only or list(GATES)
    failed = 0
    for name in names:
        found = gates[name](tree)
        if found:
            failed += 1
            print(f"gate {name} failed: {gates[name].__doc__}")
            for line in found[:50]:
                print(f"   {line}")
            if len(found) > 50:
                print(f"   and {len(found) - 50} more")
    print(f"lint: {len(names) - failed} of {len(names)} gates passed")
    if args.tally:
        with args.tally.open("a") as tally:
            tally.write(f"{len(names) - failed} {failed} 0\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
