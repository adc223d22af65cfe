#!/usr/bin/env python3
"""Checks every model in every variant with SPIN and compares the verdicts with the table below.

usage: run.py [--json FILE] [ROW]...     ROW: an id or its beginning, such as double_buffer
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = Path(__file__).resolve().parent

# id (its first part names the model), variant, verdict: clean, assertion or deadlock
TABLE = [
    ("notify_wait.fence", "FENCE", "clean"),
    ("notify_wait.quiet", "QUIET", "clean"),
    ("notify_wait.put_signal", "PUT_SIGNAL", "clean"),
    ("notify_wait.no_fence", "", "assertion"),
    ("notify_wait.fence_other", "FENCE_OTHER", "assertion"),
    ("notify_wait.put_signal_earlier_put", "PUT_SIGNAL_HIGH", "assertion"),
    ("notify_wait.no_wait", "FENCE NO_WAIT", "assertion"),
    ("sync_all.cores2", "CORES=2 ROUNDS=3", "clean"),
    ("sync_all.cores3", "CORES=3 ROUNDS=3", "clean"),
    ("sync_all.no_quiet", "NO_QUIET", "assertion"),
    ("sync_all.no_generation", "NO_GENERATION", "assertion"),
    ("sync_all.equal", "EQUAL", "deadlock"),
    ("sync_all.skip", "SKIP", "deadlock"),
    ("double_buffer.rounds2", "ROUNDS=2", "clean"),
    ("double_buffer.rounds3", "ROUNDS=3", "assertion"),
    ("double_buffer.rounds3_ack", "ROUNDS=3 ACK", "clean"),
    ("double_buffer.rounds6_ack", "ROUNDS=6 ACK", "clean"),
    ("double_buffer.single_rounds2", "SLOTS=1 ROUNDS=2", "assertion"),
    ("double_buffer.single_rounds3_ack", "SLOTS=1 ROUNDS=3 ACK", "clean"),
    ("lost_notify.clear_first", "", "clean"),
    ("lost_notify.ack_first", "ACK_FIRST", "deadlock"),
    ("zero_buffer_barrier.safe_r2", "SAFE RANKS=2", "clean"),
    ("zero_buffer_barrier.safe_r3", "SAFE RANKS=3", "clean"),
    ("zero_buffer_barrier.safe_r2_c2", "SAFE RANKS=2 CORES=2", "clean"),
    ("zero_buffer_barrier.faithful_2026_07_r2", "FAITHFUL_2026_07 RANKS=2", "deadlock"),
    ("zero_buffer_barrier.faithful_2026_07_r3", "FAITHFUL_2026_07 RANKS=3", "deadlock"),
    ("zero_buffer_barrier.faithful_2026_08_r2", "FAITHFUL_2026_08 RANKS=2", "deadlock"),
    ("zero_buffer_barrier.faithful_2026_08_r3", "FAITHFUL_2026_08 RANKS=3", "deadlock"),
    ("zero_buffer_barrier.one_barrier_r2", "FAITHFUL_2026_07 ONE_BARRIER RANKS=2 KERNELS=5", "clean"),
    ("zero_buffer_barrier.one_barrier_r3", "FAITHFUL_2026_07 ONE_BARRIER RANKS=3 KERNELS=5", "clean"),
    ("zero_buffer_barrier.at_least_r3", "FAITHFUL_2026_07 AT_LEAST RANKS=3", "clean"),
    ("zero_buffer_barrier.by_count_r3", "FAITHFUL_2026_07 BUFFER=BY_COUNT RANKS=3", "clean"),
    ("zero_buffer_barrier.one_buffer_r2", "FAITHFUL_2026_07 ONE_BARRIER BUFFER=0 RANKS=2", "deadlock"),
    ("zero_buffer_barrier.same_sequence_r2", "FAITHFUL_2026_07 SAME_SEQUENCE RANKS=2", "assertion"),
    ("zero_buffer_barrier.no_first_sync_r2_c2", "SAFE NO_FIRST_SYNC RANKS=2 CORES=2", "assertion"),
    ("zero_buffer_barrier.no_last_sync_r2_c2", "SAFE NO_LAST_SYNC RANKS=2 CORES=2", "assertion"),
]


def command(*words, cwd):
    ran = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit status {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def verdict_of(output):
    """pan goes through all states; it names an error whenever its kind differs from the one before."""
    if "max search depth too small" in output or "errors: " not in output:
        return "incomplete"
    kinds = {"assertion violated": "assertion", "invalid end state": "deadlock"}
    seen = [name for text, name in kinds.items() if re.search(rf"^pan:\d+: {text}", output, re.M)]
    errors = int(re.search(r"errors: (\d+)", output)[1])
    return "+".join(seen) if seen else "clean" if errors == 0 else "other"


def check(row, variant, expected):
    with tempfile.TemporaryDirectory() as folder:
        model = MODELS / f"{row.split('.')[0]}.pml"
        command("spin", "-a", *(f"-D{name}" for name in variant.split()), model, cwd=folder)
        command("cc", "-O0", "-w", "-DSAFETY", "-o", "pan", "pan.c", cwd=folder)
        output = command("./pan", "-c0", "-w20", "-m100000", cwd=folder)  # -c0: goes on after an error
    return {
        "id": row,
        "variant": variant,
        "expected": expected,
        "verdict": verdict_of(output),
        "states": int(re.search(r"(\d+) states, stored", output)[1]),
        "errors": int(re.search(r"errors: (\d+)", output)[1]),
    }


def main():
    options = argparse.ArgumentParser(prog="run.py", description="Checks the models with SPIN.")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    options.add_argument("rows", nargs="*", metavar="ROW", help="an id or its beginning; all rows without one")
    args = options.parse_args()
    table = [row for row in TABLE if not args.rows or row[0].startswith(tuple(args.rows))]
    if not table:
        options.error("no row of that name")
    if shutil.which("spin") is None:
        sys.exit("spin is not installed: scripts/install_packages.sh")

    print(f"{'row':44} {'expected':10} {'verdict':10} {'states':>8} {'errors':>6}")
    results = []
    with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for result in pool.map(lambda row: check(*row), table):
            results.append(result)
            wrong = "" if result["verdict"] == result["expected"] else "  <-- differs"
            print("{id:44} {expected:10} {verdict:10} {states:8} {errors:6}".format(**result) + wrong, flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")
    different = sum(result["verdict"] != result["expected"] for result in results)
    print(f"{len(results)} rows, {different} differ from the expectation")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
