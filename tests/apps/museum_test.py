"""Every exhibit of the museum fails in the way that is written on it, and says so in its first line."""

import json
import re
import signal
import subprocess
from pathlib import Path

import cli

FOLDER = Path(__file__).parents[2] / "apps" / "museum"
# What the stuck cores of an exhibit want and see, as the catalogue has it.
STUCK = {"H1": {("0x100000001", "0x0")},
         "H2": {("0x100000001", "0x0"), ("0x200000001", "0x0")},
         "H3": {("0x100000001", "0x300000001"), ("0x300000001", "0x100000001")},
         "H5": {("0x100000000", "0x0")},
         "H6": {("0x100000001", "0x0")},
         "H11": {("0x100000000", "0x300000000")},
         "H12": {("0x100000000", "0x0")},
         "H17": {("0x100000000", "0x0")},
         "S4": {("2.0", "1.0")},
         "F11": {("2.0", "1.0")}}
# The flag of the peer comes before the clearing or after it.
CLEARED_EARLY = {("2.0", "0.0"), ("2.0", "1.0")}


class Museum(cli.Case):
    def test_all_fail_as_they_should(self):
        done = cli.run("museum", "run", "all", "--json")
        runs = json.loads(done.stdout)["runs"]
        for run in runs:
            with self.subTest(exhibit=run["exhibit"]):
                self.assertEqual(run["found"], run["expected"], run["report"])
        self.assertEqual(done.returncode, 0)
        killed = [run for run in runs if run["found"] == "peer lost"]
        said = ["shmoe museum: rank 1 was killed by signal 9 (SIGKILL)" for _ in killed]
        missing = "shmoe museum: rank 2 ended with code 0 before it joined the others"  # H21
        self.assertEqual(sorted(done.stderr.splitlines()), sorted([*said, missing]))

    def test_the_first_line_of_each_file_says_what_is_expected(self):
        listed = json.loads(cli.run("museum", "list", "--json").stdout)["exhibits"]
        files = [path.read_text() for path in FOLDER.glob("*.cpp") if path.name != "collection.cpp"]
        self.assertEqual(sorted(text.split("\n", 1)[0] for text in files),
                         sorted(f"// {exhibit['expected']}" for exhibit in listed))
        for exhibit in listed:
            of_it = [text for text in files if f'.name = "{exhibit["exhibit"]}"' in text]
            self.assertEqual([text.split("\n", 1)[0] for text in of_it], [f"// {exhibit['expected']}"])

    def test_the_readme_has_every_hazard_of_the_catalogues(self):
        listed = json.loads(cli.run("museum", "list", "--json").stdout)["exhibits"]
        rows = re.findall(r"^\| ([A-Z]+\d*[A-Z]?) \| (.+?) \| (.+) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
        catalogue = [f"{letter}{number}" for letter, numbers in
                     (("S", range(1, 20)), ("F", range(1, 25)), ("H", range(1, 28)), ("D", range(27)))
                     for number in numbers]
        others = ["CLEAR", "D2S", "D3A", "D3B", "D9W", "FWD", "LEFT", "LL", "PATHS", "QUIET", "RING", "SHARE", "T77"]
        self.assertEqual(sorted(name for name, _, _ in rows), sorted([*catalogue, *others]))
        self.assertEqual({name: ending for name, ending, _ in rows if ending != "left out"},
                         {exhibit["exhibit"]: exhibit["expected"] for exhibit in listed})

    def test_the_checker_tells_its_story(self):
        done = cli.run("museum", "run", "D9")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("signals all2all", done.stdout)

    def test_the_stuck_words_are_those_of_the_catalogue(self):
        for exhibit, words in STUCK.items():
            with self.subTest(exhibit=exhibit):
                report, found = self.stuck_words(exhibit)
                self.assertEqual(found, words, report)
        report, found = self.stuck_words("F12")
        self.assertTrue(found and found <= CLEARED_EARLY, report)

    def stuck_words(self, exhibit):
        report = " ".join(cli.run("museum", "run", exhibit).stdout.split())
        awaited = r"for (?:detour|a2e|the sum of).*? to (?:be ==|be|lie in) \[?([\w.]+).*?, sees ([\w.]+\b)"
        return report, set(re.findall(awaited, report))

    def test_groups_that_differ_are_named(self):
        report = " ".join(cli.run("museum", "run", "H22").stdout.split())
        self.assertIn("group[1] is rank 2 on rank 2 and rank 1 on rank 0: every rank must pass the same", report)

    def test_a_report_is_printed_once(self):
        done = cli.run("museum", "run", "S1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("cause: two barriers in one epoch"), 1)
        self.assertIn("what to do: ", done.stdout)

    def test_explain_and_unknown_names(self):
        explained = cli.run("museum", "explain", "S1")
        self.assertIn("verdict: overrun: two barriers in one epoch\n", explained.stdout)
        self.assertEqual(cli.run("museum", "explain", "s1").stdout, explained.stdout)
        self.assert_one_message(cli.run("museum", "explain"), "shmoe museum explain: EXHIBIT is required")
        self.assert_one_message(cli.run("museum", "run", "S99"), "there is no exhibit 'S99'; see shmoe museum list")

    def test_what_is_left_out_is_explained_as_in_the_readme(self):
        rows = re.findall(r"^\| ([A-Z]+\d+) \| left out \| (.+) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
        self.assertIn("H16", [name for name, _ in rows])
        for name, why in rows:
            with self.subTest(exhibit=name):
                done = cli.run("museum", "explain", name)
                self.assertEqual((done.returncode, " ".join(done.stdout.split())), (0, f"{name}: left out {why}"))
        self.assert_one_message(cli.run("museum", "run", "S1", "F9"), "there is no exhibit 'F9': every wait acquires")

    def test_several_names(self):
        done = cli.run("museum", "run", "h25", "H23")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(re.findall(r"^(H\d+) +as shown", done.stdout, re.MULTILINE), ["H23", "H25"])
        self.assertIn("communicator 64 of 64, numbered from 0: take a number of them", done.stdout)
        self.assertIn("2 of 2 failed as they should", done.stdout)

    def test_told_to_end_it_ends_with_the_exhibit_in_flight(self):
        words = [cli.SHMOE, "museum", "run", "S1", "--repeat", "1000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as museum:
            for line in museum.stdout:
                if line.startswith("S1 "):
                    break
            museum.send_signal(signal.SIGTERM)
            out, _ = museum.communicate(timeout=cli.LIMIT_S)
        # Between two runs nobody catches the signal.
        self.assertIn(museum.returncode, (128 + signal.SIGTERM, -signal.SIGTERM))
        self.assertNotIn("DIFFERS", out)


if __name__ == "__main__":
    cli.main()
