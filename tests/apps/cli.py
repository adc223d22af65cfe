"""Runs the command line as a user does; shared by the process tests."""

import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

SHMOE = os.environ.get("SHMOE", "")
ROUTING = Path(os.environ.get("SHMOE_ROUTING_DIR", "/nonexistent"))
LIMIT_S = 100


def run(*words, **options):
    """The finished process, with its output as text."""
    return subprocess.run([SHMOE, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, **options)


def until(condition, what, limit_s=20.0):
    """Waits for a condition outside of this process; there is nothing to be notified by."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {limit_s} s")
        time.sleep(0.01)


def state_of(pid):
    """The state letter of a process, or None where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_gone(pid):
    return state_of(pid) in (None, "Z")


def segments():
    return {path.name for path in Path("/dev/shm").glob("shmoe.*")}


class Case(unittest.TestCase):
    """Nothing may be left in shared memory that was not there before."""

    def setUp(self):
        self._before = segments()

    def tearDown(self):
        own = [name for name in segments() - self._before if "shmoe-" in name]
        run("clean")
        self.assertEqual([name for name in own if (Path("/dev/shm") / name).exists()], [])

    def assert_one_message(self, done, *parts):
        lines = [line for line in done.stderr.splitlines() if not line.startswith("step ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertNotEqual(done.returncode, 0)


def main():
    unittest.main(argv=[sys.argv[0], "-v"])
