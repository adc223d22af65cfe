"""Runs of `shmoe check` on the mutated program, two at a time."""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# Every world that a mutant must survive. The small ones first; in three ranks a row may reach a wrong neighbour, and
# two cores of a rank see each other's work.
WORLDS = [
    ("barrier", "r2c2n3"), ("flags", "r2c2n3"), ("notify", "r2c2n2"), ("pipeline", "r2c2n3"), ("layout", "r2c2n2"),
    ("rotate", "r2c2n3"), ("sync_all", "r1c3n3"), ("double_barrier", "r2c2n3"), ("flag_batches", "r2c2n3"),
    ("flag_shares", "r2c2n3"), ("flag_polls", "r2c1n3"), ("flag_polls", "r2c2n2"), ("handshake_fault", "r2c2n3"), ("handshake_mismatch", "r2c2n4"),
    ("abort", "r2c2n1"), ("abort", "r3c1n1"), ("idle_cores", "r2c2n3"), ("dispatch_again", "r2c2n3"), ("pipeline_uneven", "r2c2n3"), ("dispatch", "r3c1n3"),
    ("notify", "r1c2n3"), ("pipeline_int8", "r2c2n3"), ("pipeline_gradients", "r2c2n3"), ("combine_again", "r2c2n2"),
    ("pipeline_int8", "r3c1n3"), ("pipeline_gradients", "r3c1n3"), ("pipeline_int8", "r4c1n2"),
    ("barrier", "r3c1n3"), ("flags", "r3c1n3"), ("flag_batches", "r3c1n3"), ("flag_shares", "r3c2n2"),
    ("rotate", "r3c1n3"), ("notify", "r3c1n3"), ("layout", "r3c1n3"), ("pipeline", "r3c1n3"),
    ("handshake_fault", "r3c1n3"), ("handshake_fault", "r3c2n4"), ("handshake_mismatch", "r3c2n6"),
    ("barrier", "r3c2n3"), ("pipeline_uneven", "r3c1n3"), ("pipeline", "r3c2n2"), ("flag_batches", "r3c2n2"),
    ("pipeline", "r2c4n2"), ("barrier", "r2c1n4-faithful-2026-07"), ("barrier", "r2c2n3-faithful-2026-07"),
    ("flags", "r2c1n3-faithful-2026-07"), ("rotate", "r2c2n3-faithful-2026-07"), ("notify", "r2c1n3-faithful-2026-07"),
    ("barrier_twice", "r2c1n1-faithful-2026-08"), ("barrier", "r2c1n3-faithful-2026-08"),
    ("low_latency", "r2c2n3"), ("low_latency_uneven", "r2c2n3"), ("low_latency_int8", "r3c1n3"),
    ("low_latency_dispatches", "r2c2n3"), ("low_latency_again", "r2c2n2"), ("low_latency_deferred", "r2c2n3"),
    ("low_latency_pairs", "r2c1n4"), ("low_latency_third", "r2c2n2"), ("low_latency_copied", "r2c2n3"), ("low_latency_refused", "r2c2n2"),
    ("low_latency_refused", "r3c2n3"), ("low_latency_uneven", "r3c2n2"), ("low_latency", "r2c1n3-noviews"),
    ("published.low_latency", "r2c1n3-faithful-2026-07"), ("published.low_latency", "r3c1n3-faithful-2026-07"),
    ("published.low_latency_counts", "r2c2n3-faithful-2026-07"), ("published.low_latency_counts", "r3c2n3-faithful-2026-07"),
    ("a2e_e2a", "r2c2n3"), ("a2e_e2a", "r4c1n3"), ("a2e_e2a", "r5c3n2"), ("a2e_e2a_int8", "r3c2n3"),
    ("a2e_e2a_int8", "r2c1n3-noviews"), ("a2e_e2a_copy", "r3c2n3"), ("a2e_again", "r3c1n2"), ("a2e_again", "r2c2n2"),
    ("published.a2e_e2a", "r2c4n2-faithful-2026-07"), ("published.a2e_e2a", "r4c4n2-faithful-2026-07"),
    ("barrier", "r2c2n3-from4294967294"), ("flags", "r2c1n3-from4294967294"), ("pipeline", "r2c1n3-noviews"),
]
# Those of the tile language.
TILE_WORLDS = [
    ("tile_words", "r2c2n2"), ("all2all_tiles", "r2c2n3"), ("reverse_all2all", "r2c2n3"), ("credit_return", "r2c1n4"),
    ("reverse_all2all", "r2c1n3"), ("all2all_tiles_merged", "r2c3n3"), ("tile_words", "r3c2n2"),
    ("reverse_all2all", "r3c2n4"), ("reverse_all2all_merged", "r2c3n3"), ("forward_all2all", "r2c1n4"),
    ("all2all_tiles", "r3c2n2"), ("credit_return", "r3c1n4"),
]
# Those of the collectives over detours.
DETOUR_WORLDS = [
    ("all_to_all", "r2c2n3"), ("reduce_scatter", "r2c2n3"), ("all_to_all_detour", "r3c1n3"),
    ("reduce_scatter_detour", "r3c1n3"), ("all_to_all_symmetric", "r3c2n3"), ("reduce_scatter_symmetric", "r3c2n3"),
    ("all_to_all_detour", "r3c2n3"), ("reduce_scatter_detour", "r3c2n3"), ("all_to_all_detour", "r4c1n2"),
    ("reduce_scatter_symmetric", "r4c1n2-noviews"), ("all_to_all_symmetric", "r4c1n2-noviews"),
]


# Those of the older flags.
LEGACY_WORLDS = [
    ("legacy_flags", "r2c2n3"), ("legacy_polls", "r2c2n2"), ("legacy_flags", "r3c2n3"), ("legacy_polls", "r3c1n3"),
    ("legacy_flags", "r2c2n3-faithful-2026-07"), ("legacy_polls", "r3c2n2"),
]

# Where something else has worlds of its own.
WORLDS_OF = {"ops/tile/": TILE_WORLDS, "ops/detour/": DETOUR_WORLDS, "runtime/legacy_sync.cpp": LEGACY_WORLDS}


def worlds_of(mutant):
    return next((worlds for folder, worlds in WORLDS_OF.items() if mutant.source.path.startswith(folder)), WORLDS)


# As the checker names them.
VERDICTS = ("deadlock cycle", "orphan wait", "SyncAll mismatch", "overrun", "misdirected notify", "unordered read",
            "stale value", "overwrite before read", "unordered write", "bad address", "failed", "broken contract",
            "nondeterminism", "no verdict")
WORLD = re.compile(r"r(\d+)c(\d+)n(\d+)(?:-(faithful-\d+-\d+))?(-noviews)?(?:-from(\d+))?")


def options_of(world):
    """The world as `shmoe check run` takes it."""
    ranks, cores, rounds, profile, no_views, first = WORLD.fullmatch(world).groups()
    options = ["--ranks", ranks, "--cores", cores, "--rounds", rounds, "--profile", profile or "safe"]
    return options + (["--no-views"] if no_views else []) + ["--from", first or "0"]


@dataclass
class Found:
    """How a run ended that did not end as it should."""
    verdict: str
    program: str = ""
    world: str = ""
    replay: str = ""
    text: str = ""


class Checker:
    def __init__(self, program, limit_s=60):
        self.program = Path(program)
        self.limit_s = limit_s

    def call(self, mutant, *words, command="check"):
        """What the command found, with its exit code and output; None where it says that all is well."""
        environment = {**os.environ, "SHMOE_MUTANT": str(mutant)}
        try:
            ran = subprocess.run([self.program, command, *words], env=environment, capture_output=True, text=True,
                                 timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            return Found("timeout")
        if ran.returncode == 0:
            return None
        text = ran.stdout + ran.stderr
        if ran.returncode < 0:
            return Found(f"signal {-ran.returncode}", text=text)
        if ran.returncode != 1:
            raise SystemExit(f"mutate: {' '.join(words)} with mutant {mutant} ended with {ran.returncode}:\n{text}")
        return Found("", text=text)

    def passes(self, mutant, test, cases):
        """Whether these cases of a built test pass; `test` is its place in the build."""
        build = self.program.parents[2]  # of apps/shmoe/shmoe
        environment = {**os.environ, "SHMOE_MUTANT": str(mutant)}
        try:
            ran = subprocess.run([build / test, f"-tc={cases}"], env=environment, capture_output=True, timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            return False
        return ran.returncode == 0

    def run(self, mutant, program, world, runs, seed=1):
        found = self.call(mutant, "run", program, *options_of(world), "--runs", str(runs), "--seed", str(seed),
                          "--json", "-")
        if found is None:
            return None
        found.program, found.world = program, world
        if not found.verdict:
            row = json.loads(found.text)["rows"][0]
            found.verdict, found.replay, found.text = row["verdict"], row["replay"], row["text"]
        return found

    def replay(self, mutant, text):
        found = self.call(mutant, "replay", text)
        if found and not found.verdict:
            # The verdict begins a line; a name of a program may contain the name of another verdict.
            first = re.search(rf"(?m)^\s*({'|'.join(VERDICTS)})\b", found.text)
            found.verdict = first.group(1) if first else "no word"
        return found

    def first_finding(self, mutant, runs, seed=1):
        for program, world in worlds_of(mutant):
            found = self.run(mutant.number, program, world, runs, seed)
            if found:
                return found
        return None


def run_all(checker, mutants, runs, thorough, seed, progress):
    """(mutant, what was found or None), in the order of the mutants. Most die early; the rest get many more runs."""

    def judge(mutant):
        found = checker.first_finding(mutant, runs, seed)
        if found is None and thorough > runs:
            found = checker.first_finding(mutant, thorough, seed)
        progress(mutant, found)
        return mutant, found

    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(judge, mutants))


def read_equivalent(file):
    """key -> why. One a line; '#' begins a comment."""
    listed = {}
    if not file.exists():
        return listed
    for line in file.read_text().splitlines():
        key, _, why = line.strip().partition(" ")
        if key and not key.startswith("#"):
            listed[key] = why.strip()
    return listed


def report(results, listed, complete):
    """Prints the table. Returns whether every mutant ended as it should."""
    good = True
    survivors = 0
    for mutant, found in results:
        equivalent = mutant.key in listed
        if found:
            ended = f"{found.verdict} ({found.program} {found.world})"
        else:
            survivors += 1
            ended = "survived, equivalent" if equivalent else "SURVIVED"
        if found and equivalent:
            ended = f"LISTED AS EQUIVALENT: {ended}"
        good = good and bool(found) != equivalent
        print(f"{mutant.where:40} {mutant.operator:24} {ended}")
        if not found and not equivalent:
            print(f"    {mutant.key}\n    {mutant.before[:140]}\n    -> {mutant.after[:140]}")
    gone = set(listed) - {mutant.key for mutant, _ in results} if complete else set()
    for key in sorted(gone):
        print(f"listed as equivalent, but there is no such mutant: {key}")
    killed = len(results) - survivors
    matter = len(results) - sum(mutant.key in listed for mutant, _ in results)
    killed_of_those = sum(bool(found) and mutant.key not in listed for mutant, found in results)
    score = 100 * killed_of_those / matter if matter else 100.0
    print(f"mutate: {killed} of {len(results)} mutants killed, {survivors} survived; "
          f"{killed_of_those} of the {matter} not equivalent ones: {score:.1f} %")
    return good and not gone


def as_json(results):
    return json.dumps([{"key": mutant.key, "where": mutant.where, "operator": mutant.operator, "before": mutant.before,
                        "after": mutant.after, "killed": bool(found),
                        **({"verdict": found.verdict, "program": found.program, "world": found.world,
                            "replay": found.replay} if found else {})} for mutant, found in results], indent=1) + "\n"
