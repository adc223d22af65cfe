"""Plans of faults on real jobs: a rank stops or kills itself at a point, and a bad plan is told once."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import cli
from cli import run

SMALL = ("--ranks", 3, "--hidden", 64, "--tokens", 16, "--steps", 2, "--warmup", 1)


class Plan(cli.Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "plan"

    def moe(self, plan, *words, **environment):
        self.file.write_text(plan)
        return run("moe", *SMALL, "--faults", self.file, *words, env={**os.environ, **environment})


class Injected(Plan):
    def test_a_rank_that_kills_itself_is_named_by_the_survivors(self):
        for point in ("notify launch 2 wait 1", "dispatch_normal launch 2 signal 1", "combine_normal put 1",
                      "dispatch_normal quiet 1"):
            with self.subTest(point=point):
                done = self.moe(f"rank 1 in {point}: kill\n")
                self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
                self.assertIn("shmoe moe: rank 1 was killed by signal 9 (SIGKILL)", done.stderr)
                told = [line for line in done.stderr.splitlines() if "peer lost" in line]
                self.assertEqual(len(told), 1, done.stderr)
                self.assertRegex(told[0], r"^shmoe moe: peer lost: .*\brank 1\b")
                self.assertNotIn("verified", done.stdout)

    def test_a_rank_that_stops_itself_may_go_on(self):
        self.file.write_text("rank 2 in dispatch_normal launch 2 wait 1: stop\n")
        words = [cli.SHMOE, "moe", *map(str, SMALL), "--faults", str(self.file)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launcher:
            children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")

            def stopped():
                return [pid for pid in map(int, children.read_text().split()) if cli.state_of(pid) == "T"]

            cli.until(stopped, "the stop of rank 2")
            for pid in stopped():
                os.kill(pid, signal.SIGCONT)
            out, err = launcher.communicate(timeout=cli.LIMIT_S)
        self.assertEqual(launcher.returncode, 0, err)
        self.assertIn("verified: bit-exact", out)

    def test_a_torn_row_is_found_by_verification(self):
        done = self.moe("rank 0 in dispatch_normal put *: tear 5\n", SHMOE_VIEWS="off")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("verified", done.stdout)

    def test_delays_change_nothing(self):
        done = self.moe("seed 3\nany *: delay 0-200us\n", SHMOE_CORES="2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified: bit-exact", done.stdout)

    def test_weak_delivery_changes_nothing(self):
        for seed in range(1, 21):
            with self.subTest(seed=seed):
                done = self.moe(f"seed {seed}\nany *: weak\n", SHMOE_CORES="2")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("verified: bit-exact", done.stdout)

    def test_without_its_quiets_an_operator_whose_puts_are_late_is_wrong(self):
        done = self.moe("in dispatch_normal put *: hold\nin dispatch_normal quiet *: skip\n")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("verified", done.stdout)
        self.assertIn("verified: bit-exact", self.moe("in dispatch_normal put *: hold\n").stdout)

    def test_signals_that_are_never_completed_are_undelivered(self):
        done = self.moe("in dispatch_normal launch 2 signal * barrier: hold\n")
        self.assertEqual(done.returncode, 86, done.stderr)
        self.assertEqual(done.stderr.count("shmoe moe: "), 1, done.stderr)
        self.assertIn("shmoe moe: deadlock: dispatch_normal: undelivered: ", done.stderr)
        self.assertRegex(done.stderr, r"\n  cause: missing quiet: rank [012] core 0 sent 0x[0-9a-f]+ \(barrier \d+\) to "
                                      r"barrier\[[01]\] from rank [012] of rank [012] at \w+\.cpp:\d+, and it lies there still: "
                                      r"the core waits at ")
        done = self.moe("rank 1 in dispatch_normal launch 2 signal * barrier: hold\n")  # the next SyncAll completes them
        self.assertIn("verified: bit-exact", done.stdout, done.stderr)

    def test_a_lost_notify_is_proven(self):
        done = self.moe("rank 1 in dispatch_normal launch 2 signal 2 barrier: drop\n")
        self.assertEqual(done.returncode, 86, done.stderr)
        self.assertEqual(done.stderr.count("shmoe moe: "), 1, done.stderr)
        self.assertIn("shmoe moe: deadlock: dispatch_normal: ", done.stderr)

    def test_the_report_of_a_proven_deadlock_is_its_verdict(self):
        plan = "rank 1 in dispatch_normal launch 2 signal 2 barrier: drop\n"
        done = self.moe(plan, "--json")
        self.assertEqual(done.returncode, 86, done.stderr)
        verdict = json.loads(done.stdout)
        self.assertEqual((verdict["schema"], verdict["verdict"]), (1, "deadlock cycle"))
        self.assertIn(f"  cause: {verdict['causes'][0]['cause']}: ", done.stderr)
        self.assertEqual({wait["rank"] for wait in verdict["stuck"]}, {0, 1, 2})
        file = self.file.with_name("report.json")
        self.assertEqual(self.moe(plan, "--json", file).stdout, "")
        self.assertEqual(json.loads(file.read_text())["stuck"][0].keys(), verdict["stuck"][0].keys())

    def test_what_never_came_to_its_point_is_told_to_whoever_asks(self):
        plan = "# two\nrank 1 in dispatch_norml put 1: drop\nrank 1 in notify wait 1: delay 0s\n"
        done = self.moe(plan, SHMOE_LOG="info")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = [line for line in done.stderr.splitlines() if str(self.file) in line]
        self.assertCountEqual(told, [
            f"[shmoe rank 0] info: faults of {self.file} that are injected: 2",
            f"[shmoe rank 1] info: {self.file}:2: never came to its point: rank 1 in dispatch_norml put 1: drop"])
        unasked = self.moe(plan)
        self.assertEqual(unasked.stderr, "")
        self.assertIn("SHMOE_LOG=info names those that never came to their point\n", unasked.stdout)

    def test_run_hands_the_plan_to_its_ranks(self):
        self.file.write_text("rank 1 in notify wait 1: kill\n")
        done = run("run", "-n", 3, "--faults", self.file, "--", cli.SHMOE, "moe", *SMALL[2:])
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        self.assertIn("rank 1 was killed by signal 9", done.stderr)


class Refused(Plan):
    def test_a_bad_plan_is_one_message(self):
        for plan, part in {"put 1: drop\nput x: drop\n": ":2: 'x' stands where which of the calls is meant should be",
                           "rank 3 any 1: kill\n": ":1: rank 3 is none of the 3 ranks",
                           "core 1 any 1: kill\n": ":1: core 1 is none of the 1 cores of a rank",
                           "signal 1 flags: drop\n": ":1: no slots are called 'flags': there are barrier, flag"}.items():
            with self.subTest(plan=plan):
                self.assert_one_message(self.moe(plan), f"{self.file}{part}")
        self.file.unlink()
        os.mkfifo(self.file)
        self.assert_one_message(run("moe", "--faults", self.file), "which should hold faults, is not a regular file")
        self.assert_one_message(run("moe", "--faults", "no/such/plan"), "cannot read faults from 'no/such/plan'")
        self.assert_one_message(run("run", "-n", 2, "--faults", "no/such/plan", "--", "true"),
                                "shmoe run: not found: cannot read faults from 'no/such/plan'")

    def test_plans_that_differ_are_named(self):
        self.file.write_text("rank 1 put 1: drop\n")
        script = '[ "$SHMOE_RANK" != 2 ] || set -- "$@" --faults ' + str(self.file) + '; exec "$0" moe "$@"'
        done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE, *SMALL[2:])
        told = [line for line in done.stderr.splitlines() if "shmoe moe:" in line]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertRegex(told[0], "mismatch: rank 2 has faults [0-9a-f]{16}, rank 0 has faults [0-9a-f]{16}: .*--faults")


if __name__ == "__main__":
    cli.main()
