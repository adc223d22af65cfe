"""The main job where attention and experts have ranks of their own."""

import os
import unittest

import cli
from cli import ROUTING, run

STEPS = ("--steps", 2, "--warmup", 1)
SMALL = ("--hidden", 64, "--tokens", 16, *STEPS)


class Job(cli.Case):
    def verified(self, *words, **options):
        done = run("moe", "--mode", "afd", *words, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified: bit-exact", done.stdout)
        return done.stdout


@unittest.skipUnless(ROUTING.is_dir(), "no recorded routing here")
class Recorded(Job):
    def test_safe(self):
        for ranks, experts in ((3, 1), (7, 2), (8, 5)):
            with self.subTest(ranks=ranks, experts=experts):
                text = self.verified("--ranks", ranks, "--expert-ranks", experts, "--routing",
                                     ROUTING / "law_layer8.txt", "--steps", 1, "--hidden", 128)
                self.assertIn(f"mode afd: {experts} rank{'s' * (experts > 1)} for experts, ", text)

    def test_as_published(self):
        """A sum that e2a does not make, and batches that are not of one length."""
        for profile in ("faithful-2026-07", "faithful-2026-08"):
            words = ("moe", "--mode", "afd", "--profile", profile, "--cores", 4, "--routing", ROUTING / "law_layer8.txt",
                     "--tokens", 64, "--steps", 2, "--hidden", 1024)
            for ranks, experts in ((2, 1), (6, 2)):
                with self.subTest(profile=profile, ranks=ranks):
                    text = self.verified(*words[3:], "--ranks", ranks, "--expert-ranks", experts)
                    self.assertIn("as published: all batches of a step are as long as the longest", text)
            done = run("run", "-n", 3, "--no-prefix", "--", cli.SHMOE, *words, "--expert-ranks", 1)
            self.assertIn("verified: bit-exact", done.stdout, done.stderr)


class Drawn(Job):
    def test_safe(self):
        for words in ((*SMALL, "--ranks", 2), (*SMALL, "--ranks", 5, "--cores", 3, "--quant", "int8"),
                      (*SMALL, "--ranks", 3, "--dtype", "fp32"),
                      (*STEPS, "--ranks", 5, "--expert-ranks", 4, "--quant", "int8", "--dtype", "fp16", "--hidden", 37),
                      (*STEPS, "--ranks", 4, "--tokens", 0)):
            with self.subTest(words=words):
                text = self.verified(*words)
                self.assertIn("milliseconds", text)
                for stage in ("attention", "a2e", "experts", "e2a"):
                    self.assertIn(stage, text)
        self.verified("--ranks", 4, *SMALL, env={**os.environ, "SHMOE_WEAK": "7"})

    def test_as_published(self):
        faithful = ("--hidden", 1024, *STEPS, "--profile", "faithful-2026-07", "--cores", 4)
        self.verified(*faithful, "--ranks", 3, "--expert-ranks", 1, "--tokens", 5, "--topk", 3)
        self.verified(*faithful, "--ranks", 2, "--tokens", 0)
        for more, parts in {("--cores", 3): ("the published kernels need 4 cores a rank, there are 3", "--cores 4"),
                            ("--hidden", 64): ("multiples of 256 from 1024 to 7168",),
                            ("--quant", "int8"): ("sent as int8", "the profile safe"),
                            ("--expert-ranks", 2): ("3 attention ranks are no multiple of 2", "museum explain H15"),
                            ("--tokens", 300): ("are 1200 rows of an expert rank", "give --tokens 256")}.items():
            with self.subTest(more=more):
                options = {**dict(zip(faithful[::2], faithful[1::2])), "--ranks": 5, "--expert-ranks": 1, more[0]: more[1]}
                told = run("moe", "--mode", "afd", *(word for pair in options.items() for word in pair))
                self.assert_one_message(told, *parts)


if __name__ == "__main__":
    cli.main()
