"""shmoe choose: the decision tree as a user asks it."""

import tempfile
import unittest
from pathlib import Path

import cli
from cli import run


def choose(*words):
    return run("choose", *words)


class Choose(cli.Case):
    def answers(self, *words):
        done = choose(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_collectives(self):
        for need, operator in (("all-to-all", "all_to_all_detour"), ("reduce-scatter", "reduce_scatter_detour")):
            group = (need, "--ranks", 8, "--group", "0,1,5")
            self.assertEqual(self.answers(*group, "--bytes", 65536)[0], operator)
            self.assertIn("the others lend their memory", self.answers(*group, "--bytes", 999_999)[1])
            self.assertIn("a communicator of the communicating ranks alone",
                          self.answers(*group, "--bytes", 1_000_000)[1])
            self.assertIn("the group of all ranks", self.answers(need, "--bytes", 10)[1])

    def test_domains_and_tokens(self):
        self.assertEqual(self.answers("attention-to-experts")[0], "a2e")
        self.assertEqual(self.answers("experts-to-attention")[0], "e2a")
        self.assertEqual(self.answers("dispatch", "--tokens", 16)[0], "low latency")
        self.assertEqual(self.answers("dispatch", "--tokens", 4096)[0], "normal")

    def test_links(self):
        with tempfile.TemporaryDirectory() as folder:
            links = Path(folder) / "links"
            words = ("all-to-all", "--ranks", 4, "--group", "0,1", "--bytes", 65536, "--links", links)
            links.write_text("ranks 4\n0 1 1\n1 0 1\n")
            self.assertEqual(self.answers(*words)[2],
                             "predicted on these links: 10.924 ms with the detour, 3.00 times as fast as the direct way")
            links.write_text("ranks 4\n0 3 none\n")
            self.assertIn("no link from rank 0 to rank 3", self.answers(*words)[2])
            links.write_text("ranks 3\n")
            self.assert_one_message(choose(*words), "has 3 ranks, --ranks says 4: they must be the same")
            links.write_text("ranks 4\n0 9 1\n")
            self.assert_one_message(choose(*words), "links:2: '0 9 1': write \"FROM TO SPEED\"")

    def test_mistakes(self):
        self.assert_one_message(choose("all-to-all", "--ranks", 3, "--group", "0,4"),
                                "the group names rank 4; there are ranks 0 to 2: change --group or --ranks")
        self.assert_one_message(choose("all-to-all", "--group", "1,1"), "the group names rank 1 twice")
        self.assert_one_message(choose("gather"), "see shmoe choose --help")
        self.assert_one_message(choose(), "need", "see shmoe choose --help")


if __name__ == "__main__":
    cli.main()
