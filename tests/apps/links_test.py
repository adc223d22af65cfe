"""Links of real jobs: puts take their time on them, nothing else changes, and a bad file is told once."""

import json
import os
import tempfile
import unittest
from pathlib import Path

import cli
from cli import run

SMALL = ("--hidden", 64, "--tokens", 4, "--steps", 2, "--warmup", 0)


class Links(cli.Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "links"
        self.beside = Path(folder.name) / "beside"

    def moe(self, links, *words, ranks=3, **environment):
        self.file.write_text(links)
        return run("moe", "--ranks", ranks, *SMALL, *words, env={**os.environ, **environment})


class Slow(Links):
    def test_a_dispatch_lasts_as_long_as_its_links(self):
        """4 rows of 128 bytes to the other rank at 5000 and at 4000 bytes a second."""
        self.beside.write_text('{"topk_ids": [[2], [3], [2], [2]]}\n{"topk_ids": [[0], [1], [1], [0]]}\n')
        for setting, words in (("", ("--links", self.file)), (self.file, ())):
            with self.subTest(setting=setting):
                done = self.moe("ranks 2\n* * 0.005\n1 0 0.004\n", *words, "--routing", self.beside, "--experts", 4,
                                "--json", ranks=2, SHMOE_LINKS=str(setting))
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(done.stdout)
                self.assertTrue(report["verified"])
                self.assertEqual(report["world"]["links"], str(self.file))
                for rank, milliseconds in ((0, 512 / 5), (1, 512 / 4)):
                    self.assertGreaterEqual(report["ranks"][rank]["stages"]["dispatch"]["median_ms"], milliseconds)

    def test_results_are_exact_on_unequal_links(self):
        for words in ((), ("--mode", "low-latency"), ("--mode", "afd", "--expert-ranks", 1)):
            with self.subTest(words=words):
                done = self.moe("ranks 3\n* * 2\n0 1 0.5\n2 1 0.3\n", "--links", self.file, *words, SHMOE_CORES="2")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("verified: bit-exact", done.stdout)

    def test_a_fault_meets_what_is_on_the_links(self):
        self.beside.write_text("seed 3\nany *: weak\n")
        done = self.moe("ranks 3\n* * 2\n", "--links", self.file, "--faults", self.beside)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"links of {self.file}: puts are held back", done.stdout)
        self.assertIn(f"faults of {self.beside}: ", done.stdout)
        self.assertIn("verified: bit-exact", done.stdout)

    def test_a_rank_that_its_link_holds_for_minutes_ends_with_the_job(self):
        """Nobody ends it from outside: with --survive the launcher waits for all."""
        self.file.write_text("ranks 3\n0 2 0.001\n")
        self.beside.write_text("rank 1 in dispatch_normal quiet 1: kill\n")
        done = run("run", "-n", 3, "--survive", "--links", self.file, "--faults", self.beside, "--", cli.SHMOE, "moe",
                   "--hidden", 4096, "--tokens", 16, "--steps", 1, "--warmup", 0)
        self.assertIn("rank 1 was killed by signal 9", done.stderr)
        self.assertRegex(done.stderr, r"peer lost: .*\brank 1\b")
        self.assertNotIn("verified", done.stdout)
        self.assertNotEqual(done.returncode, 0)


class Refused(Links):
    def test_a_bad_file_is_one_message(self):
        for links, part in {"ranks 3\n0 3 1\n": f"{self.file}:2: '0 3 1': write \"FROM TO SPEED\", two ranks of 0 to 2",
                            "0 1 1\n": f"{self.file}:1: '0 1 1': write \"ranks N\" first",
                            "": f"{self.file}: no links",
                            "ranks 4\n": f"{self.file}: links of 4 ranks, the job has 3: write \"ranks 3\""}.items():
            with self.subTest(links=links):
                self.assert_one_message(self.moe(links, "--links", self.file), part)
                self.assert_one_message(self.moe(links, SHMOE_LINKS=str(self.file)), part)
        self.assert_one_message(run("moe", "--links", "no/such/links"), "cannot read no/such/links")
        self.assert_one_message(run("run", "-n", 2, "--links", "/", "--", "true"), "is not a regular file")

    def test_no_ratio_where_links_hold_one_side_back(self):
        for setting in ("SHMOE_LINKS", "SHMOE_FAULTS"):
            done = run("bench", "heap", env={**os.environ, setting: "/dev/null"})
            self.assert_one_message(done, f"shmoe bench: {setting} holds our side back", "unset it")
            self.assertEqual(done.stdout, "")

    def test_where_there_is_no_link_the_contract_is_broken(self):
        done = self.moe("ranks 3\n2 0 none\n", "--links", self.file)
        self.assertEqual(done.returncode, 85, done.stderr)
        self.assertIn(f"rank 2 writes to rank 0, no link 2 -> 0 in {self.file}: give it one there, or", done.stderr)
        self.assertNotIn("exists(", done.stderr)

    def test_links_that_differ_are_named(self):
        self.file.write_text("ranks 3\n0 1 5\n")
        script = '[ "$SHMOE_RANK" != 2 ] || set -- "$@" --links ' + str(self.file) + '; exec "$0" moe "$@"'
        done = run("run", "-n", 3, "--", "bash", "-c", script, cli.SHMOE, *SMALL)
        told = [line for line in done.stderr.splitlines() if "shmoe moe:" in line]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertRegex(told[0], "mismatch: rank 2 has links [0-9a-f]{16}, rank 0 has links none: .*--links")


if __name__ == "__main__":
    cli.main()
