"""Every command and option that --help tells has its place in the manual pages and in the completion.

usage: help_pages_test.py SHMOE FOLDER [CASE...]; FOLDER holds man1/ and shmoe.bash
"""

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SHMOE, FOLDER = sys.argv[1], Path(sys.argv[2])
BENCH = Path(SHMOE).with_name("shmoe-bench")


def help_of(program, *words):
    ran = subprocess.run([program, *words, "--help"], capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout


def block(text, name):
    """The lines of a block that begin an entry."""
    found = re.search(rf"^{name}:\n((?:  .*\n|\s*\n)*)", text, re.M)
    return [line for line in found.group(1).splitlines() if re.match(r"  \S", line)] if found else []


def commands_of(text):
    return [line.split()[0] for line in block(text, "Subcommands")]


def options_of(text):
    return [name for line in block(text, "Options") for name in line.split()[0].split(",")]


def read_commands():
    """Words of each command -> (its commands, its options)."""
    found, waiting = {}, [()]
    while waiting:
        words = waiting.pop()
        text = help_of(SHMOE, *words)
        if words == ("bench",) and BENCH.exists():
            text = help_of(BENCH)
        children = commands_of(text)
        found[words] = (children, options_of(text))
        waiting += [(*words, child) for child in children]
    return found


def completed(*words):
    """What bash offers for the last word."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shmoe; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    ran = subprocess.run(["bash", "-c", script, "bash", FOLDER / "shmoe.bash", "shmoe", *words],
                         capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout.split()


def typed(line):
    """The arguments that an interactive bash gives to shmoe when this is typed, tabs included."""
    script = f"source '{FOLDER / 'shmoe.bash'}'\nshmoe() {{ printf 'got: %s\\n' \"$*\"; }}\n{line}\nexit\n"
    ran = subprocess.run(["bash", "--norc", "--noprofile", "-i"], input=script, capture_output=True, text=True, timeout=60)
    return re.findall(r"^got: (.*)$", ran.stdout, re.M)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = read_commands()

    def test_there_is_something_to_compare(self):
        self.assertGreaterEqual(len(self.commands), 18)
        self.assertIn("--ranks", self.commands[("moe",)][1])
        self.assertIn("run", self.commands[("check",)][0])

    def test_a_page_for_each_command_and_no_other(self):
        names = {"-".join(["shmoe", *words]) + ".1" for words in self.commands}
        self.assertEqual(names, {page.name for page in (FOLDER / "man1").iterdir()})

    def test_pages_name_all_commands_and_options(self):
        for words, (children, options) in self.commands.items():
            page = (FOLDER / "man1" / ("-".join(["shmoe", *words]) + ".1")).read_text()
            plain = page.replace("\\-", "-")
            for name in [*children, *options]:
                with self.subTest(page=words, name=name):
                    self.assertRegex(plain, rf"\.TP\n.*\\fB{re.escape(name)}\\fR")

    def test_the_page_of_shmoe_has_every_setting(self):
        page = (FOLDER / "man1" / "shmoe.1").read_text()
        table = subprocess.run([SHMOE, "info", "--settings-markdown"], capture_output=True, text=True, check=True).stdout
        names = re.findall(r"^\| `(\w+)`", table, re.M)
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertIn(f".TP\n\\fB{name}\\fR\n", page)

    def test_pages_are_well_formed(self):
        if not shutil.which("man"):
            self.skipTest("man is not installed")
        for page in sorted((FOLDER / "man1").iterdir()):
            ran = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, timeout=60,
                                 env={"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"})
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), page)

    def test_completion_offers_all_commands_and_options(self):
        for words, (children, options) in self.commands.items():
            with self.subTest(command=words):
                self.assertEqual(completed(*words, ""), children)
                self.assertEqual(sorted(completed(*words, "-")), sorted(options))

    def test_completion_ends_what_was_begun(self):
        self.assertEqual(completed("mo"), ["moe"])
        self.assertEqual(completed("moe", "--ro"), ["--routing"])
        self.assertEqual(completed("moe", "--nothing-like-it"), [])

    def test_the_tab_key(self):
        self.assertEqual(typed("shmoe mo\t"), ["moe"])
        self.assertEqual(typed("shmoe moe --ro\t"), ["moe --routing"])
        self.assertEqual(typed("shmoe check ru\t --rank\t"), ["check run --ranks"])

    def test_completion_goes_on_behind_options(self):
        self.assertEqual(completed("moe", "--ranks", "8", "--exp"), ["--expert-ranks", "--experts"])
        self.assertEqual(completed("check", "ru"), ["run"])
        self.assertEqual(completed("run", "--faults", ""), [])  # bash goes on with files
        self.assertEqual(completed("run", "-n", "2", "--", "--"), [])
        self.assertEqual(completed("moe", "$(touch /nonexistent/file)", "--json"), ["--json"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
