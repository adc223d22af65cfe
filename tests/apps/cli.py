"""Runs the command line as a user does; shared by the process tests."""

import os
import resource
import subprocess
import sys
import time
import unittest
from pathlib import Path

SHMOE = os.environ.get("SHMOE", "")
# Not passed on: shmoe would take them for misspelt settings.
ROUTING = Path(os.environ.pop("SHMOE_ROUTING_DIR", "/nonexistent"))
SCHEMA = Path(os.environ.pop("SHMOE_SCHEMA", "/nonexistent"))
LIMIT_S = 100


def run(*words, **options):
    """The finished process, with its output as text."""
    return subprocess.run([SHMOE, *map(str, words)], capture_output=True, text=True, timeout=LIMIT_S, **options)


def limit_files(soft, hard):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


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
    """Of jobs; not what a test itself has put there."""
    return {path.name for path in Path("/dev/shm").glob("shmoe.*") if not path.name.startswith("shmoe.test-")}


class Case(unittest.TestCase):
    """Nothing may be left in shared memory that was not there before."""

    def setUp(self):
        self._before = segments()

    def tearDown(self):
        def left():
            return segments() - self._before

        # What other jobs of this machine make meanwhile is gone soon.
        try:
            until(lambda: not left(), "the end of all segments", limit_s=3.0)
        except AssertionError:
            stale = left()
            run("clean")
            self.fail(f"left in /dev/shm: {sorted(stale)}")

    def assert_one_message(self, done, *parts):
        lines = [line for line in done.stderr.splitlines() if not line.startswith("step ")]
        self.assertEqual(len(lines), 1, done.stderr)
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertNotEqual(done.returncode, 0)


def main():
    """Exit code 77, which ctest reads as skipped, where no case could run. Cases may be named on the command line."""
    ran = unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]], exit=False).result
    if not ran.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if len(ran.skipped) == ran.testsRun else 0)
