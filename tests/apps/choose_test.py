"""shmoe choose: the decision tree as a user asks it."""

import itertools
import tempfile
import unittest
from pathlib import Path

import cli
from cli import run


def choose(*words):
    return run("choose", *words)


class Case(cli.Case):
    def answers(self, *words):
        done = choose(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()


class Tree(Case):
    def test_collectives(self):
        for need, operator in (("all-to-all", "all_to_all_detour"), ("reduce-scatter", "reduce_scatter_detour")):
            group = (need, "--ranks", 8, "--group", "0,1,5")
            direct = f"direct {need}: {operator} without lenders"
            self.assertEqual(self.answers(*group, "--bytes", 65536)[0], operator)
            self.assertIn("the others lend their memory", self.answers(*group, "--bytes", 999_999)[1])
            self.assertEqual(self.answers(*group, "--bytes", 1_000_000)[0], direct)
            self.assertIn("a communicator of the communicating ranks alone",
                          self.answers(*group, "--bytes", 1_000_000)[1])
            self.assertEqual(self.answers(need, "--bytes", 10)[0], direct)
            self.assertIn("the group of all ranks", self.answers(need, "--bytes", 10)[1])

    def test_domains_and_tokens(self):
        self.assertEqual(self.answers("attention-to-experts")[0], "a2e")
        self.assertEqual(self.answers("experts-to-attention")[0], "e2a")
        few = self.answers("dispatch", "--tokens", 16)
        self.assertEqual(few[0], "dispatch_low_latency")
        self.assertIn("shmoe moe --mode low-latency --tokens 16", few[2])
        self.assertEqual(self.answers("dispatch")[0], "dispatch_low_latency")
        self.assertEqual(self.answers("dispatch", "--tokens", 129)[0], "dispatch_normal")

    def test_the_file_of_the_help_is_taken_as_it_stands(self):
        lines = choose("--help").stdout.splitlines()
        first = next(i for i, line in enumerate(lines) if line.split() == ["ranks", "4"])
        file = "\n".join(itertools.takewhile(str.strip, lines[first:]))
        self.assertEqual(file.count("\n"), 3)
        with tempfile.TemporaryDirectory() as folder:
            links = Path(folder) / "links"
            links.write_text(file)
            self.assertIn("predicted on these links",
                          self.answers("all-to-all", "--ranks", 4, "--group", "0,1", "--bytes", 65536, "--links", links)[1])
            links.write_text(file.replace("#", ""))
            self.assert_one_message(choose("all-to-all", "--ranks", 4, "--bytes", 1, "--links", links),
                                    "a remark begins with #")


class OnLinks(Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.links = Path(folder.name) / "links"

    def words(self, links, *more, size=65536, group="0,1"):
        self.links.write_text("ranks 4\n" + links)
        return ("all-to-all", "--ranks", 4, "--group", group, "--bytes", size, "--links", self.links, *more)

    def test_links_that_say_what_the_tree_says(self):
        self.assertEqual(self.answers(*self.words("0 1 1\n1 0 1\n"))[:2],
                         ["all_to_all_detour",
                          "predicted on these links: 10.924 ms with the detour, 3.00 times as fast as the direct way"])
        lines = self.answers(*self.words("", group="0,1,2,3"))
        self.assertEqual(lines[:2], ["direct all-to-all: all_to_all_detour without lenders",
                                     "predicted on these links: 0.000 ms"])

    def test_the_links_are_believed(self):
        slow = self.answers(*self.words("0 1 1\n1 0 1\n", size=4_000_000))
        self.assertEqual(slow[0], "all_to_all_detour")
        self.assertEqual(slow[2], "the tree, which knows no links, says direct all-to-all: all_to_all_detour without "
                                  "lenders: believe the links")
        worse = self.answers(*self.words("0 3 1\n0 1 10\n"))
        self.assertEqual(worse[0], "direct all-to-all: all_to_all_detour without lenders")
        self.assertIn("0.30 times as fast", worse[1])
        self.assertEqual(worse[2], "the tree, which knows no links, says all_to_all_detour: believe the links")

    def test_what_cannot_run_is_not_recommended(self):
        lines = self.answers(*self.words("0 3 none\n"))
        self.assertEqual(lines[0], "direct all-to-all: all_to_all_detour without lenders")
        self.assertIn("a detour is not possible: no link 0 -> 3", lines[1])
        done = choose(*self.words("1 0 none\n"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assert_one_message(done, "not possible: no link 1 -> 0")

    def test_files_that_do_not_fit(self):
        words = self.words("0 9 1\n")
        self.assert_one_message(choose(*words), "links:2: '0 9 1': write \"FROM TO SPEED\"")
        self.links.write_text("ranks 3\n")
        self.assert_one_message(choose(*words), "has 3 ranks, --ranks says 4: they must be the same")


class Mistakes(Case):
    def test_mistakes(self):
        self.assert_one_message(choose("all-to-all", "--ranks", 3, "--group", "0,4", "--bytes", 8),
                                "the group names rank 4; there are ranks 0 to 2: change --group or --ranks")
        self.assert_one_message(choose("all-to-all", "--group", "1,1", "--bytes", 8), "the group names rank 1 twice")
        self.assert_one_message(choose("all-to-all", "--group", "0", "--bytes", 8), "a group of one rank", "--group")
        self.assert_one_message(choose("all-to-all"), "all-to-all needs --bytes")
        self.assert_one_message(choose("dispatch", "--links", "none"), "--links are for all-to-all", "leave them out")
        self.assert_one_message(choose("reduce-scatter", "--bytes", 8, "--tokens", 1), "--tokens is for dispatch")
        self.assert_one_message(choose("gather"), "see shmoe choose --help")
        self.assert_one_message(choose(), "need", "see shmoe choose --help")


if __name__ == "__main__":
    cli.main()
