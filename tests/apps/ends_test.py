"""A job is killed at any moment of its life: what it leaves `shmoe clean` removes, and the next start is well.

Draws the moments and the victims from SHMOE_TEST_SEED, which it prints; SHMOE_TEST_KILLS says how many.
"""

import ctypes
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import cli
import jobs
from cli import run
from jobs import SMALL

SEED = int(os.environ.pop("SHMOE_TEST_SEED", "") or time.time_ns() % 2**32)
KILLS = int(os.environ.pop("SHMOE_TEST_KILLS", "") or 20)
PR_SET_CHILD_SUBREAPER = 36
RANKS = 3
MOMENTS = ("fork", "ranks", "meeting", "meeting", "objects", "objects", "mapped", "work", "end")
VICTIMS = ("everything", "everything", "launcher", "rank", "stopped rank", "stopped group")
END_S = 60.0  # only a hang reaches it
CREATION_S = 61  # until an object without a size counts as left behind


class Job:
    """Three ranks of `shmoe moe` under `shmoe run`, in a process group of their launcher's own."""

    def __init__(self, env, folder, short):
        self.folder = folder
        steps = 3 if short else 1000000
        self.launcher = subprocess.Popen([cli.SHMOE, "run", "-n", str(RANKS), "--", cli.SHMOE, "moe", *map(str, SMALL),
                                          "--steps", str(steps)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                         text=True, env=env, start_new_session=True)
        self.pid = self.launcher.pid

    def over(self):
        return cli.is_gone(self.pid)

    def wait_for(self, moment):
        """Or for what comes after it, if it was too short to be seen."""
        came = {"fork": lambda: True,
                "ranks": lambda: jobs.ranks_of(self.pid),
                "meeting": lambda: self.meetings() or self.mapped(),
                "objects": lambda: jobs.objects_of(self.pid) or self.mapped(),
                "mapped": self.mapped,
                "work": lambda: all(map(jobs.has_mapped, self.all_ranks())),
                "end": self.begun_to_end}[moment]
        end = time.monotonic() + END_S
        while not came() and not self.over():  # as often as can be: moments are short
            if time.monotonic() > end:
                raise AssertionError(f"moment '{moment}' did not come within {END_S} s")

    def mapped(self):
        return any(map(jobs.has_mapped, jobs.ranks_of(self.pid).values()))

    def all_ranks(self):
        ranks = jobs.ranks_of(self.pid)
        return ranks.values() if len(ranks) == RANKS else [self.pid]

    def begun_to_end(self):
        """A rank has gone that was there."""
        self.most = max(getattr(self, "most", 0), len(jobs.ranks_of(self.pid)))
        return self.most > len(jobs.ranks_of(self.pid))

    def meetings(self):
        return {str(path) for path in self.folder.iterdir()}

    def left(self):
        return jobs.objects_of(self.pid) | self.meetings()

    def kill(self, victim, random_rank):
        """What it really hit: before there are ranks it is the launcher."""
        ranks = jobs.ranks_of(self.pid)
        guardian = next((pid for pid in jobs.children_of(self.pid) if pid not in ranks.values()), None)
        rank = ranks.get(random_rank)
        if victim in ("rank", "stopped rank") and rank is None:
            victim = "launcher"
        if victim == "rank":
            send(rank, signal.SIGKILL)
        elif victim == "stopped rank":
            send(rank, signal.SIGSTOP)
        elif victim == "stopped group" and guardian:
            send(-guardian, signal.SIGSTOP)
        elif victim == "everything" and guardian:
            send(-guardian, signal.SIGKILL)
        if victim != "rank":
            send(-self.pid, signal.SIGKILL)
        return victim

    def end(self):
        """Waits until nothing of it is left, and returns how the launcher ended."""
        with self.launcher:
            self.launcher.communicate(timeout=END_S)
        cli.until(nobody_is_left, "the end of all processes of the job", limit_s=END_S)
        return self.launcher.returncode


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def nobody_is_left():
    """This process has no child any more, of its own or left behind by one that died."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return True
    return False


class Killed(jobs.Case):
    def setUp(self):
        super().setUp()
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def tearDown(self):
        # Where a case has failed: who is left would disturb the next one.
        while not nobody_is_left():
            for pid in jobs.descendants_of(os.getpid()):
                send(pid, signal.SIGKILL)
        super().tearDown()

    def removed_by_clean(self):
        done = run("clean", env=self.env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        removed = set(re.findall(r"^removed (.*)$", done.stdout, re.M))
        kept = set(re.findall(r"^kept (.*): in use, or just being created$", done.stdout, re.M))
        if jobs.ALONE == "yes":
            self.assertEqual(done.stdout.splitlines()[-1], f"{len(removed)} removed, {len(kept)} in use, 0 of other users, 0 not made by shmoe")
        return removed, kept

    def check_clean(self, left):
        """All that is left goes, and is said to; what has no size yet once it is old enough."""
        paths = {name: self.folder / name if "/" in name else Path("/dev/shm") / name for name in left}
        young = {name for name, path in paths.items() if path.stat().st_size == 0}
        removed, kept = self.removed_by_clean()
        if jobs.ALONE == "yes":
            self.assertEqual((removed, kept), (left - young, young))
        for name in young:
            os.utime(paths[name], (time.time() - CREATION_S,) * 2)
        if young:
            removed, kept = self.removed_by_clean()
        if young and jobs.ALONE == "yes":
            self.assertEqual((removed, kept), (young, set()))
        self.assertEqual([name for name, path in paths.items() if path.exists()], [])
        return len(young)

    def check_new_start(self):
        done = run("moe", "--ranks", RANKS, *SMALL, "--steps", 2, "--json", env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["verified"])

    def test_a_killed_rank_is_named_where_another_fails_of_it_before(self):
        """Its sockets close before its end is reported."""
        go = self.folder / "go"
        script = f"if [ $SHMOE_RANK = 1 ]; then exit 1; fi; echo $$; until [ -e {go} ]; do sleep 0.02; done; kill -9 $$"
        for words, code in (((), 128 + signal.SIGKILL), (("--survive",), 1)):
            with self.subTest(words=words):
                launcher = jobs.start("run", "-n", 2, "--no-prefix", *words, "--", "bash", "-c", script, env=self.env)
                launcher.stdout.readline()
                cli.until(lambda: len(jobs.children_of(launcher.pid)) == 2, "the end of rank 1")  # guardian and rank 0 are left
                go.touch()
                _, err = launcher.communicate(timeout=END_S)
                go.unlink()
                self.assertEqual(launcher.returncode, code)
                told = "rank 1 exited with code 1" if words else "rank 0 was killed by signal 9 (SIGKILL)"
                self.assertEqual(err, f"shmoe run: {told}\n")

    def test_a_stopped_job_ends_with_its_launcher(self):
        for whole in (False, True):
            with self.subTest(whole=whole):
                launcher = jobs.start("run", "-n", 2, "--no-prefix", "--", "bash", "-c", "sleep 600 & echo $!; wait", env=self.env)
                for _ in range(2):
                    launcher.stdout.readline()
                group = os.getpgid(jobs.ranks_of(launcher.pid)[0])
                pids = jobs.descendants_of(launcher.pid)
                self.assertEqual(len(pids), 5)  # the guardian, ranks, and what they have started
                send(-group if whole else jobs.ranks_of(launcher.pid)[1], signal.SIGSTOP)
                launcher.kill()
                launcher.communicate(timeout=END_S)
                cli.until(nobody_is_left, "the end of all processes of the job", limit_s=END_S)

    def test_at_any_moment(self):
        print(f"SHMOE_TEST_SEED={SEED} SHMOE_TEST_KILLS={KILLS}, /dev/shm of its own: {jobs.ALONE}", flush=True)
        draw = random.Random(SEED)
        met = Counter()
        for number in range(KILLS):
            moment = draw.choice(MOMENTS)
            spins = int(10 ** draw.uniform(0, 5.5))
            wanted = draw.choice(VICTIMS)
            rank = draw.randrange(RANKS)
            with self.subTest(number=number, moment=moment, spins=spins, victim=wanted, rank=rank):
                job = Job(self.env, self.folder, short=moment == "end")
                self.addCleanup(job.launcher.kill)
                job.wait_for(moment)
                for _ in range(spins):
                    pass
                was_over = job.over()
                victim = job.kill(wanted, rank)
                code = job.end()
                left = job.left()
                if victim == "rank" and not was_over:
                    self.assertIn(code, (0, 128 + signal.SIGKILL))
                    self.assertEqual({name for name in left if "/" in name}, set())
                young = self.check_clean(left)
                self.check_new_start()
                self.assertEqual(job.left(), set())
                met.update({"kills": 1, "over already": was_over, f"victim {victim}": 1, f"moment {moment}": 1,
                            "jobs that left something": bool(left), "objects left": len([n for n in left if "/" not in n]),
                            "meetings left": len([n for n in left if "/" in n]), "without a size": young})
        print(", ".join(f"{what}: {count}" for what, count in sorted(met.items())), flush=True)
        self.assertEqual(met["kills"], KILLS)


if __name__ == "__main__":
    jobs.alone()
    cli.main()
