"""A rank is killed at a call of a fabric: the others name it, agree on who is left, and go on without its experts.

Every_call kills at every single call of the pipeline, with one core and with two; Every_few at some of them.
"""

import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import cli

PROGRAM = os.environ.pop("SHMOE_TEST_SURVIVORS", "")
RANKS = 4
STEPS = 3
OPERATORS = ("layout", "notify", "dispatch_normal", "combine_normal")
LAUNCH = 2  # of each operator: in step 1
LIMIT_S = 1.0  # from the last thing that the dead rank did to the last survivor's error
PR_SET_CHILD_SUBREAPER = 36


class Job:
    """The ranks of a job, each a child of this process; which of them were killed, and what the others said."""

    number = 0

    def __init__(self, plan, *words, cores=1, ranks=RANKS, newcomer=None):
        Job.number += 1
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plan"
            file.write_text(plan)
            settings = {"SHMOE_JOB": f"survivors{os.getpid()}_{Job.number}", "SHMOE_SIZE": str(ranks),
                        "SHMOE_FAULTS": str(file), "SHMOE_CORES": str(cores), "SHMOE_HEAP": "1MiB",
                        "SHMOE_BUFFSIZE": "0", "SHMOE_COMMUNICATORS": "4", "SHMOE_COPY": "cached"}

            def start(rank, **more):
                return subprocess.Popen([PROGRAM, str(STEPS), *map(str, words)], text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT,
                                        env={**os.environ, **settings, "SHMOE_RANK": str(rank), **more})

            children = [start(rank) for rank in range(ranks)]
            if newcomer is not None:
                children[newcomer].communicate(timeout=cli.LIMIT_S)
                children[newcomer] = start(newcomer, SHMOE_GENERATION="1", SHMOE_FAULTS="")
            self.text = [child.communicate(timeout=cli.LIMIT_S)[0] for child in children]
        self.killed = [rank for rank, child in enumerate(children) if child.returncode == -signal.SIGKILL]
        self.left = [rank for rank in range(ranks) if rank not in self.killed]
        self.failed = {rank: self.text[rank] for rank in self.left if children[rank].returncode != 0}

    def losses(self, rank):
        """What a survivor was told at first: when, and the error."""
        found = re.search(r"lost at ([0-9.]+) in step \d: (.*)", self.text[rank])
        return float(found[1]), found[2]

    def slowest(self):
        """Upper bound of the seconds from the death to the last survivor's error."""
        told = [self.losses(rank) for rank in self.left]
        deaths = [when - float(ago[1]) for when, error in told
                  if (ago := re.match(r".*; its last step: core .*, ([0-9.]+) s ago; ", error))]
        return max(when for when, _ in told) - min(deaths)


@unittest.skipUnless(PROGRAM, "the program is not built")
class Survivors(cli.Case):
    def setUp(self):
        super().setUp()
        # Whatever a rank left behind would become a child of this process.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def check(self, job, *killed):
        self.assertEqual(job.killed, sorted(killed))
        self.assertEqual(job.failed, {})
        names = " ".join(map(str, sorted(killed)))
        for rank in job.left:
            self.assertIn(f"rank {rank}: {STEPS} steps are exact, without {names}\n", job.text[rank])
            self.assertRegex(job.losses(rank)[1], rf"\brank ({'|'.join(map(str, killed))}) is gone \(pid \d+ has ended\)")
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def kill_at_calls(self, victim, operator, step, cores=1, core=0):
        """Kills the rank at every `step`th call of one core in one launch, for as many as there are."""
        slowest = 0.0
        call = 1
        while True:
            plan = f"rank {victim} core {core} in {operator} launch {LAUNCH} any {call}: kill"
            job = Job(plan + "\n", cores=cores)
            with self.subTest(plan=plan):
                if job.killed:
                    self.check(job, victim)
                    slowest = max(slowest, job.slowest())
                else:
                    self.assertIn("steps are exact, without \n", job.text[0])
            if not job.killed:
                return call - 1, slowest
            call += step


class Every_few(Survivors):
    def test_the_others_go_on(self):
        for number, operator in enumerate(OPERATORS):
            calls, slowest = self.kill_at_calls(number, operator, step=5)
            self.assertGreater(calls, 0, operator)
            self.assertLess(slowest, LIMIT_S, operator)

    def test_with_two_cores(self):
        for plan in ("rank 0 core 1 in notify launch 2 wait 2: kill", "rank 3 core 1 in combine_normal any 4: kill"):
            self.check(Job(plan + "\n", cores=2), int(plan.split()[1]))

    def test_what_it_did_last_is_told(self):
        job = Job("rank 2 in dispatch_normal launch 2 wait 2 barrier: kill\n")
        self.check(job, 2)
        # The others have all they need of the dispatch; they miss the rank in the combine.
        told = (r"peer lost: combine_normal: rank 2 is gone \(pid \d+ has ended\); its last step: core 0 in dispatch_normal "
                r"round \d+, signal to barrier\[[01]\] from rank 2 of rank 0 and 2 more at dispatch_normal\.cpp:\d+, "
                r"[0-9.]+ s ago; rank [013] core 0 in combine_normal round \d+ waited")
        self.assertTrue(any(re.match(told, job.losses(rank)[1]) for rank in job.left), job.text)


class Twice(Survivors):
    def test_one_after_the_other(self):
        plan = "rank 0 in notify launch 2 any 4: kill\nrank 2 in combine_normal launch 2 any 1: kill\n"
        self.check(Job(plan), 0, 2)

    def test_one_more_while_the_others_agree(self):
        for second in (0, 3):
            with self.subTest(second=second):
                self.check(Job("rank 1 in combine_normal launch 2 any 3: kill\n", second), 1, second)

    def test_one_more_while_they_begin_again(self):
        for call in (1, 3, 5, 7, 9):
            with self.subTest(call=call):
                self.check(Job(f"rank 1 in notify launch 2 any 2: kill\nrank 0 in gather any {call}: kill\n"), 0, 1)

    def test_all_but_one(self):
        self.check(Job("rank 1 in notify launch 2 any 2: kill\nrank 0 in gather any 3: kill\n", 3), 0, 1, 3)


class Rejoin(Survivors):
    def test_a_lost_rank_is_replaced(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                job = Job(f"rank {victim} in dispatch_normal launch 2 any 5: kill\n", "rejoin", newcomer=victim)
                self.assertEqual((job.killed, job.failed), ([], {}))
                for rank in range(RANKS):
                    self.assertIn(f"rank {rank}: goes on from step 1 as {rank} of {RANKS}, without \n", job.text[rank])
                    self.assertIn(f"rank {rank}: {STEPS} steps are exact, without \n", job.text[rank])


class Every_call(Survivors):
    def test_of_the_pipeline(self):
        total = 0
        slowest = 0.0
        start = time.monotonic()
        for operator in OPERATORS:
            for cores, core in ((1, 0), (2, 0), (2, 1)):
                for victim in (range(RANKS) if cores == 1 else (1,)):
                    calls, seconds = self.kill_at_calls(victim, operator, step=1, cores=cores, core=core)
                    total += calls
                    slowest = max(slowest, seconds)
        print(f"{total} calls in {time.monotonic() - start:.0f} s; the last survivor knew after {slowest:.3f} s at most")
        self.assertLess(slowest, LIMIT_S)

    def test_of_eight_ranks_with_four_cores(self):
        told = []
        for victim in (0, 5):
            for point in ("notify launch 2 any 6", "dispatch_normal launch 2 any 9", "combine_normal launch 2 any 12"):
                with self.subTest(victim=victim, point=point):
                    job = Job(f"rank {victim} core 1 in {point}: kill\n", cores=4, ranks=8)
                    self.check(job, victim)
                    told.append(job.slowest())
        self.assertLess(max(told), LIMIT_S)


if __name__ == "__main__":
    cli.main()
