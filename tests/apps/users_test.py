"""Jobs of two users beside each other, and what a dead owner leaves whose pid somebody else has got."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import cli
import jobs
from cli import run
from jobs import SMALL

A, B = 61001, 61002  # users that nobody else is


def as_user(user, *words):
    return ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *map(str, words)]


def can_be_others():
    try:
        return subprocess.run(as_user(A, "true"), capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@unittest.skipUnless(can_be_others(), "only root can start jobs of other users, by setpriv")
class Two_users(cli.Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        self.shmoe = Path(folder.name) / "shmoe"  # the build may be out of their reach
        shutil.copy(cli.SHMOE, self.shmoe)
        self.env = {}
        for user in (A, B):
            own = Path(folder.name) / str(user)
            own.mkdir(mode=0o700)
            os.chown(own, user, user)
            self.env[user] = {**os.environ, "XDG_RUNTIME_DIR": str(own)}

    def run_as(self, user, *words, env={}):
        return subprocess.run(as_user(user, *words), capture_output=True, text=True, timeout=cli.LIMIT_S, cwd="/",
                              env={**self.env[user], **env})

    def start_as(self, user, *words, env={}):
        return subprocess.Popen(as_user(user, self.shmoe, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                cwd="/", env={**self.env[user], **env})

    def object_of(self, user):
        """An object that nobody holds."""
        path = Path("/dev/shm") / f"shmoe.test-{os.getpid()}.{user:08x}.0.mem"
        path.touch(mode=0o600)
        path.write_bytes(b"x" * 4096)
        os.chown(path, user, user)
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def test_both_run_at_once(self):
        launchers = [self.start_as(user, "moe", "--ranks", 3, *SMALL, "--steps", 100, "--json") for user in (A, B, A, B)]
        for job in launchers:
            out, err = job.communicate(timeout=cli.LIMIT_S)
            self.assertEqual((job.returncode, json.loads(out)["verified"]), (0, True), err)

    def test_clean_leaves_what_is_not_its_own(self):
        path = self.object_of(A)
        done = self.run_as(B, self.shmoe, "clean")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(path.exists())
        self.assertNotIn(path.name, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^skipped [1-9]\d* of other users: whoever owns it runs `shmoe clean`$")
        self.assertRegex(done.stdout.splitlines()[-1], r"^0 removed, 0 in use, [1-9]\d* of other users, \d+ not made by shmoe$")
        done = self.run_as(A, self.shmoe, "clean")
        self.assertIn(f"removed {path.name}\n", done.stdout)
        self.assertFalse(path.exists())

    def test_inspect_shows_only_its_own(self):
        job = self.start_as(A, "moe", "--ranks", 2, *SMALL, "--steps", 1000000)
        cli.until(lambda: sum(map(jobs.has_mapped, jobs.ranks_of(job.pid).values())) == 2, "the job of A at work")
        pids = jobs.ranks_of(job.pid)
        self.assertEqual(set(re.findall(r"rank \d pid (\d+)", self.run_as(A, self.shmoe, "inspect", "--once").stdout)),
                         {str(pid) for pid in pids.values()})
        for words in ((), (pids[0],), (f"shmoe_{job.pid}",)):
            done = self.run_as(B, self.shmoe, "inspect", *words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("no job of this user runs", done.stderr)
        done = self.run_as(B, self.shmoe, "diagnose", pids[0])
        self.assert_one_message(done, f"permission: process {pids[0]} belongs to another user, who alone can look at its job")
        done = self.run_as(B, "ls", f"/proc/{pids[0]}/fd")
        self.assertIn("Permission denied", done.stderr)
        self.assertEqual(self.run_as(B, self.shmoe, "clean").stdout.splitlines()[-1].split(",")[0], "0 removed")
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=cli.LIMIT_S)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)

    def test_objects_cannot_be_opened_by_the_other(self):
        job = self.start_as(A, "moe", "--ranks", 3, *SMALL, "--steps", 1000000)
        try:
            cli.until(lambda: jobs.objects_of(job.pid) or any(map(jobs.has_mapped, jobs.descendants_of(job.pid))) or
                      job.poll() is not None, "the objects of A")
            for pid in [job.pid, *jobs.descendants_of(job.pid)]:
                os.kill(pid, signal.SIGSTOP)
            paths = [Path("/dev/shm") / name for name in jobs.objects_of(job.pid)]  # none where they had mapped all
            for path in [*paths, self.object_of(A)]:
                self.assertEqual((path.stat().st_uid, path.stat().st_mode & 0o7777), (A, 0o600))
                for mode in ("<", "<>"):
                    done = self.run_as(B, "sh", "-c", f'exec 3{mode}"$0"', path)
                    self.assertIn("Permission denied", done.stderr)
            self.assertNotIn("removed", self.run_as(B, self.shmoe, "clean").stdout.replace("0 removed", ""))
            self.assertTrue(all(path.exists() for path in paths))
        finally:
            for pid in [*jobs.descendants_of(job.pid), job.pid]:
                os.kill(pid, signal.SIGKILL)
            job.communicate(timeout=cli.LIMIT_S)
        self.run_as(A, self.shmoe, "clean")

    def test_ranks_of_one_job_that_are_not_one_user_are_told(self):
        port = jobs.free_port()
        ranks = [self.start_as(user, "moe", *SMALL, env={"SHMOE_RANK": str(rank), "SHMOE_SIZE": "2", "SHMOE_JOB": "both",
                                                         "SHMOE_COMM_ID": f"127.0.0.1:{port}"})
                 for rank, user in enumerate((A, B))]
        told = "".join(rank.communicate(timeout=cli.LIMIT_S)[1] for rank in ranks)
        self.assertEqual([rank.returncode for rank in ranks], [1, 1])
        self.assertIn(f"permission: mapping its peers failed on rank 0: the memory of rank 1 belongs to user {B}, this rank to "
                      f"user {A}: start all ranks as one user", told)

    def test_the_runtime_folder_of_the_other_is_not_used(self):
        done = self.run_as(B, self.shmoe, "moe", "--ranks", 2, *SMALL, "--json",
                           env={"XDG_RUNTIME_DIR": self.env[A]["XDG_RUNTIME_DIR"]})
        self.assertTrue(json.loads(done.stdout)["verified"], done.stderr)  # in its own, below /tmp
        Path(f"/tmp/shmoe-{B}").rmdir()


class Pid_reused(jobs.Case):
    """Whether an owner lives is not told by a number that somebody else may have."""

    def object(self, part, content):
        # As if process 1, which lives, had owned it: in the name, and in the header.
        path = Path("/dev/shm") / f"shmoe.test-{os.getpid()}_shmoe_1_00000000.0000abcd.0.{part}"
        path.touch(mode=0o600)
        path.write_bytes(content)
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def header_of_a_living_rank(self, pid):
        for number in os.listdir(f"/proc/{pid}/fd"):
            if ".ctl" in os.readlink(f"/proc/{pid}/fd/{number}"):
                with open(f"/proc/{pid}/fd/{number}", "rb") as file:
                    return file.read(4096)
        raise AssertionError(f"process {pid} has no control object")

    def test_an_object_of_a_dead_owner_whose_pid_lives(self):
        job = jobs.start("moe", "--ranks", 2, *SMALL, "--steps", 1000000, env=self.env)
        cli.until(lambda: sum(map(jobs.has_mapped, jobs.ranks_of(job.pid).values())) == 2, "the job at work")
        pid = jobs.ranks_of(job.pid)[0]
        header = self.header_of_a_living_rank(pid)
        self.assertIn(pid.to_bytes(8, "little"), header)
        path = self.object("ctl", header)
        with path.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # the owner lives
            self.assertIn(f"kept {path.name}: in use", run("clean", env=self.env).stdout)
            self.assertTrue(path.exists())
        done = run("clean", env=self.env)
        self.assertFalse(path.exists())
        if jobs.ALONE == "yes":
            self.assertEqual(done.stdout, f"removed {path.name}\n1 removed, 0 in use, 0 of other users, 0 not made by shmoe\n")
        self.assertEqual(run("inspect", pid, "--once", env=self.env).returncode, 0)
        self.assertIsNone(job.poll())
        job.terminate()
        job.communicate(timeout=cli.LIMIT_S)

    def test_a_meeting_of_a_dead_owner_whose_pid_lives(self):
        start = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
        for job, began in (("live", start), ("dead", start - 1)):
            file = self.folder / f"shmoe-{job}.meeting"
            file.touch(mode=0o600)
            file.write_text(f"shmoe-meeting 1\n9 {os.getpid()} {began} {'0' * 32}\n")
        done = run("clean", env=self.env)
        self.assertIn(f"removed {self.folder}/shmoe-dead.meeting\n", done.stdout)
        self.assertIn(f"kept {self.folder}/shmoe-live.meeting: in use", done.stdout)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["shmoe-live.meeting"])

    def test_a_job_starts_where_a_dead_one_of_its_name_met(self):
        file = self.folder / "shmoe-again.meeting"
        file.touch(mode=0o600)
        file.write_text(f"shmoe-meeting 1\n9 {os.getpid()} 1 {'0' * 32}\n")
        ranks = [jobs.start("moe", *SMALL, "--json", env={**self.env, "SHMOE_JOB": "again", "SHMOE_RANK": str(rank),
                                                          "SHMOE_SIZE": "2"}) for rank in range(2)]
        self.verifies(ranks[0], 2)
        ranks[1].communicate(timeout=cli.LIMIT_S)
        self.assertEqual((ranks[1].returncode, list(self.folder.iterdir())), (0, []))


if __name__ == "__main__":
    jobs.alone()
    cli.main()
