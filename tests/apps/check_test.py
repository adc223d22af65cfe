"""The checker as a command: what it finds, how it can be repeated, and what it says to mistakes."""

import json
import os
import re
import tempfile
import unittest
from pathlib import Path

import cli
from cli import run

REPLAY = re.compile(r"shmoe1:\S+")
PUBLISHED = ("double_barrier", "--profile", "faithful-2026-07")


def check(*words):
    return run("check", *words)


def overrun():
    """A schedule on which the published double barrier gets stuck."""
    return REPLAY.search(check("run", *PUBLISHED).stdout).group()


class Run(cli.Case):
    def test_the_list_names_programs_and_how_they_end(self):
        done = check("list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^hand_over +r2c1n3 ")
        self.assertRegex(done.stdout, r"(?m)^hand_over_unfenced .*ends with: unordered read$")

    def test_clean_and_expected_failures_are_good(self):
        done = check("run", "hand_over", "hand_over_unfenced", "double_barrier", "--runs", 2000)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 of 3 programs as expected; seed 1", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^hand_over +r2c1n3 +portfolio +1636 +\d+ +clean$")
        self.assertRegex(done.stdout, r"hand_over_unfenced .*unordered read, as expected\n +shmoe1:hand_over_unfenced:")

    def test_a_bound_that_is_exhausted_says_so(self):
        done = check("run", "hand_over", "--strategy", "delay1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("clean: every schedule with at most 1 delay\n", done.stdout)
        self.assertIn("no schedule with at most 1 delay fails", done.stdout)
        done = check("run", "hand_over", "--strategy", "delay9", "--runs", 10)
        self.assertIn("clean so far: not every schedule with at most 9 delays", done.stdout)

    def test_an_unexpected_failure_is_told(self):
        done = check("run", *PUBLISHED)
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED: overrun", done.stdout)
        self.assertRegex(done.stdout, r"overrun: rank \d core 0 looks for 0x[0-9a-f]+ in barrier")
        self.assertIn("shmoe check replay --story shmoe1:double_barrier:r2c1n3-faithful-2026-07:", done.stdout)

    def test_an_expected_failure_that_is_not_found_is_bad(self):
        done = check("run", "published.double_barrier", "--profile", "safe", "--runs", 100)
        self.assertEqual(done.returncode, 1)
        self.assertIn("FAILED: clean, expected overrun", done.stdout)
        self.assertIn("found nothing in 100 schedules", done.stdout)

    def test_the_same_seed_gives_the_same_result(self):
        first, second = (check("run", *PUBLISHED, "--seed", 5).stdout for _ in range(2))
        self.assertEqual(first, second)

    def test_no_line_is_rewritten_away_from_a_terminal(self):
        done = check("run", "double_barrier", "--time", 0.3)
        self.assertNotIn("\r", done.stdout + done.stderr)


class Recorded(cli.Case):
    def test_a_replay_string_gives_the_verdict_again(self):
        text = overrun()
        done = check("replay", text)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.startswith("overrun: "), done.stdout)
        story = check("replay", "--story", text).stdout
        self.assertGreater(len(story.splitlines()), len(done.stdout.splitlines()) + 10)
        self.assertTrue(story.endswith(done.stdout))

    def test_no_choices_are_a_schedule_too(self):
        done = check("replay", "shmoe1:hand_over:r2c1n3:")
        self.assertEqual((done.returncode, done.stdout), (0, "clean\n"))

    def test_shrinking_keeps_the_verdict(self):
        done = check("shrink", "shmoe1:hand_over_unfenced:r2c1n3:abab")
        self.assertEqual((done.returncode, done.stdout), (0, "shmoe1:hand_over_unfenced:r2c1n3:\n"), done.stderr)
        text = overrun()  # is shrunk already
        self.assertEqual(check("shrink", text).stdout, text + "\n")

    def test_an_explanation_is_short(self):
        done = check("explain", overrun())
        self.assertEqual(done.returncode, 0, done.stderr)
        steps = [line for line in done.stdout.splitlines() if re.match(r" *\d+  rank ", line)]
        self.assertTrue(3 <= len(steps) <= 12, done.stdout)
        self.assertRegex(done.stdout, r"signals barrier\[[01]\] from rank")

    def test_a_race_is_explained_by_what_links_the_two(self):
        text = check("explain", "shmoe1:hand_over_unfenced:r2c1n3:").stdout
        story = text[text.index("\n  1  rank 0 core 0"):]
        order = [story.index(part) for part in ("puts [", "signals flag[0]", "sees flag[0]", "reads [")]
        self.assertEqual(order, sorted(order), text)
        self.assertEqual(text.count("would order them"), 1)

    def test_a_schedule_that_does_not_fail_is_not_explained(self):
        for command in ("shrink", "explain"):
            done = check(command, "shmoe1:hand_over:r2c1n3:")
            self.assert_one_message(done, "does not fail")
            self.assertEqual(done.returncode, 2)


class Refused(cli.Case):
    def test_each_mistake_gives_one_message_and_exit_code_2(self):
        mistakes = {
            (): "a subcommand is required",
            ("hand_over",): "there is no command 'hand_over'",
            ("run",): "required",
            ("run", "hand_ovr"): "no program 'hand_ovr': did you mean hand_over?",
            ("run", "all", "--strategy", "luck"): "strategy 'luck'",
            ("run", "all", "--strategy", "pct0"): "strategy 'pct0'",
            ("run", "all", "--ranks", "0"): "--ranks",
            ("run", "all", "--profile", "fast"): "--profile",
            ("run", "all", "--bogus"): "--bogus",
            ("run", "all", "--json", "/no/such/folder/report.json"): "cannot write",
            ("replay", "nonsense"): "is no replay string: it does not begin with shmoe1:",
            ("replay", "shmoe2:hand_over:r2c1n3:"): "another version wrote it",
            ("replay", "shmoe1:hand_over"): "a part is missing",
            ("replay", "shmoe1:hand_over:r2c1n3:a"): "its choices do not parse",
            ("replay", "shmoe1:hand_ovr:r2c1n3:"): "did you mean hand_over?",
            ("replay", "shmoe1:hand_over:2x1:"): "is no world",
            ("replay", "shmoe1:hand_over:r2000c1n3:"): "at most 64 ranks",
        }
        for words, part in mistakes.items():
            with self.subTest(words=words):
                done = check(*words)
                self.assert_one_message(done, part)
                self.assertEqual(done.returncode, 2)

    def test_help_says_what_silence_does_not_mean(self):
        text = check("--help").stdout
        self.assertIn("What silence means", text)
        self.assertIn("shmoe check run NAME --strategy delay3", text)


class Schema(cli.Case):
    def test_json_to_a_file_beside_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.json"
            done = check("run", "hand_over_unfenced", "--json", file)
            self.assertIn("1 of 1 programs as expected", done.stdout)
            self.assertEqual(json.loads(file.read_text())["rows"][0]["expected"], "unordered read")

    def test_json_follows_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads(Path(os.environ["SHMOE_TEST_CHECK_SCHEMA"]).read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        done = check("run", "hand_over", "hand_over_unfenced", "--runs", 100, "--json", "-")
        report = json.loads(done.stdout)
        jsonschema.Draft202012Validator(schema).validate(report)
        clean, failing = report["rows"]
        self.assertEqual((clean["verdict"], clean["replay"], clean["runs"]), ("clean", "", 100))
        self.assertTrue(clean["good"] and failing["good"])
        self.assertIn("hand_over_unfenced", failing["replay"])

    def test_a_story_follows_its_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads(Path(os.environ["SHMOE_TEST_STORY_SCHEMA"]).read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        done = check("replay", "--json", overrun())
        self.assertEqual(done.returncode, 1)
        story = json.loads(done.stdout)
        jsonschema.Draft202012Validator(schema).validate(story)
        self.assertEqual(story["verdict"], "overrun")
        self.assertEqual({step["rank"] for step in story["steps"]}, {0, 1})
        self.assertEqual({step["kind"] for step in story["steps"]} & {"wait", "signal", "signal_landed"},
                         {"wait", "signal", "signal_landed"})


if __name__ == "__main__":
    cli.main()
