"""Memory that goes away under a running job, and machines that have little: of /dev/shm, of files, of processes, of
addresses, of folders. Either it works, or one message says what was found and what to do."""

import os
import random
import resource
import subprocess
import sys
import tempfile
import unittest
from contextlib import contextmanager
from pathlib import Path

import cli
from cli import run

LESSON = os.environ.pop("SHMOE_TEST_LESSON", "")
MEMORY_LOST = 87
OTHER_USER = 51966  # who runs nothing
SMALL = ("--tokens", 16, "--hidden", 64)
NAMESPACE = ["unshare", "-m"]


def may_mount():
    return subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True).returncode == 0


def mounts(setup):
    """What runs a command behind mounts of its own, which the shell commands `setup` make."""
    return [*NAMESPACE, "sh", "-c", f'{setup} && exec "$0" "$@"']


def within(setup, *words):
    command = [*mounts(setup), cli.SHMOE, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=cli.LIMIT_S)


def ranks_of(launcher):
    """Process ids of a job by rank, once all have their memory."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = dict(word.split("=", 1) for word in path.read_bytes().decode().split("\0") if "=" in word)
        except (OSError, UnicodeDecodeError):
            continue
        if words.get("SHMOE_JOB", "").startswith(f"shmoe-{launcher.pid}-"):
            found[int(words["SHMOE_RANK"])] = int(path.parent.name)
    return found


def descriptor_of(pid, end):
    """Of the object that a rank has made, once no name of it is left: then all its peers have mapped it."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except FileNotFoundError:
            continue
        if target.startswith("/dev/shm/shmoe.") and target.endswith(f"{end} (deleted)"):
            return link
    return None


@contextmanager
def running(ranks, *words, prefix=()):
    """A job whose ranks have met, with their process ids by rank."""
    command = [*prefix, cli.SHMOE, "run", "-n", str(ranks), "--", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as launcher:
        try:
            pids = {}

            def have_met():
                pids.update(ranks_of(launcher))
                return len(pids) == ranks and all(descriptor_of(pid, ".ctl") for pid in pids.values())

            cli.until(have_met, "the start of the job")
            yield launcher, pids
        finally:
            launcher.kill()


class Shrunk(cli.Case):
    def lose(self, rank, end, size, ranks=3):
        with running(ranks, cli.SHMOE, "moe", "--steps", 1_000_000, *SMALL) as (launcher, pids):
            object_ = os.open(descriptor_of(pids[rank], end), os.O_RDWR)
            os.ftruncate(object_, size)
            os.close(object_)
            _, err = launcher.communicate(timeout=cli.LIMIT_S)
            lines = [line for line in err.splitlines() if "] step " not in line]
            self.assertEqual(launcher.returncode, MEMORY_LOST, err)
            self.assertEqual(len(lines), 2, err)
            self.assertRegex(lines[0], r"^\[\d\] shmoe: rank \d: bus error at byte 0x[0-9a-f]+ of the shared segment "
                                       rf"\({end}\) of rank {rank}: somebody has shrunk the object: start the job again, and "
                                       r"let nothing else write to shmoe\.\* in /dev/shm$")
            self.assertRegex(lines[1], r"^shmoe run: rank \d exited with code 87: memory that it shared is gone$")
            self.assertTrue(all(cli.is_gone(pid) for pid in pids.values()))

    def test_the_memory_of_any_rank(self):
        for rank in range(3):
            with self.subTest(rank=rank):
                self.lose(rank, ".mem", 0)

    def test_a_part_of_it(self):
        for size in (4096, 0x19000, 2 << 20, 4 << 20):
            with self.subTest(size=size):
                self.lose(1, ".mem", size)

    def test_any_part_of_any_object(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", file=sys.stderr)
        draw = random.Random(seed)
        for _ in range(8):
            ranks = draw.randint(2, 5)
            end, most = draw.choice([(".mem", 1 << 22), (".ctl", 1 << 14)])
            what = {"rank": draw.randrange(ranks), "end": end, "size": draw.randrange(most), "ranks": ranks}
            with self.subTest(seed=seed, **what):
                self.lose(**what)

    def test_a_control_segment(self):
        for rank in range(2):
            with self.subTest(rank=rank):
                self.lose(rank, ".ctl", 0, ranks=2)


class Mounted(cli.Case):
    """Behind mounts of its own."""

    @classmethod
    def setUpClass(cls):
        if not may_mount():
            raise unittest.SkipTest("no mounts of one's own are allowed here (root only)")

    def assert_refused(self, setup, words, *parts):
        with self.subTest(setup=setup, words=words):
            self.assert_one_message(within(setup, *words), *parts)

    def assert_works(self, setup, words):
        with self.subTest(setup=setup, words=words):
            done = within(setup, *words)
            self.assertEqual(done.returncode, 0, done.stderr)


class Small_shm(Mounted):
    def test_what_a_container_has_is_enough(self):
        for words in (("moe", "--ranks", 2, "--steps", 2), ("moe", "--ranks", 4, *SMALL), ("museum", "run", "S1"),
                      ("run", "-n", 2, "--", LESSON)):
            self.assert_works("mount -t tmpfs -o size=64m tmpfs /dev/shm", words)

    def test_too_little_is_one_message_with_both_figures_and_the_option(self):
        for size, ranks in (("4m", 2), ("64m", 8)):
            self.assert_refused(f"mount -t tmpfs -o size={size} tmpfs /dev/shm", ("moe", "--ranks", ranks),
                                "out of memory: receive buffers:", "/dev/shm is full:", " MiB asked for, ", "iB free; ",
                                "--shm-size")

    def test_a_neighbour_fills_it_while_a_job_runs(self):
        """What a job has, it keeps; what it or another one asks for then is refused."""
        words = (cli.SHMOE, "moe", "--steps", 1000, *SMALL)
        with running(2, *words, prefix=mounts("mount -t tmpfs -o size=64m tmpfs /dev/shm")) as (launcher, pids):
            full = Path(f"/proc/{pids[0]}/root/dev/shm/full")
            with self.assertRaises(OSError), full.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            late = subprocess.run(["nsenter", f"--mount=/proc/{pids[0]}/ns/mnt", cli.SHMOE, "moe", "--ranks", "2"],
                                  capture_output=True, text=True, timeout=cli.LIMIT_S)
            self.assert_one_message(late, "/dev/shm is full:", " 0 KiB free", "--shm-size")
            _, err = launcher.communicate(timeout=cli.LIMIT_S)
            lines = [line for line in err.splitlines() if "] step " not in line]
            if launcher.returncode == 0:
                self.assertEqual(lines, [])
                return
            self.assertEqual(len(lines), 2, err)
            self.assertRegex(lines[0], r"out of memory: .*/dev/shm is full: .* asked for, 0 KiB free; .*--shm-size")
            self.assertRegex(lines[1], r"^shmoe run: rank \d exited with code 1$")

    def test_few_files(self):
        self.assert_refused("mount -t tmpfs -o nr_inodes=3 tmpfs /dev/shm", ("moe", "--ranks", 2, *SMALL),
                            "/dev/shm has no room for another file: run `shmoe clean`, or enlarge it")


class Folders(Mounted):
    def test_a_shm_that_cannot_be_written(self):
        self.assert_refused("mount -t tmpfs -o ro tmpfs /dev/shm", ("moe", "--ranks", 2, *SMALL),
                            "creating segment", "/dev/shm must be writable for this user (Read-only file system)")

    def test_no_shm(self):
        devices = "mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3"
        told = "/dev/shm is no folder: mount a tmpfs there (mount -t tmpfs tmpfs /dev/shm)"
        self.assert_refused(devices, ("moe", "--ranks", 2, *SMALL), told, "(No such file or directory)")
        self.assert_refused(f"{devices} && : >/dev/shm", ("moe", "--ranks", 2, *SMALL), told, "(Not a directory)")

    def test_no_null_device(self):
        self.assert_refused("mount -t tmpfs tmpfs /dev && mkdir /dev/shm", ("run", "-n", 2, "--", LESSON),
                            f"cannot run '{LESSON}': there is no /dev/null")

    def test_a_runtime_folder_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            mode = f"mount -t tmpfs -o mode=700 tmpfs {folder} && mount -o remount,ro {folder}"
            self.assert_refused(f"{mode} && export XDG_RUNTIME_DIR={folder}", ("moe", "--ranks", 2, *SMALL), folder,
                                "(Read-only file system)")

    def test_no_runtime_folder(self):
        self.assert_works("export XDG_RUNTIME_DIR=/nonexistent", ("moe", "--ranks", 2, *SMALL))
        self.assert_works("unset XDG_RUNTIME_DIR && mount -t tmpfs -o ro tmpfs /tmp", ("moe", "--ranks", 2, *SMALL))

    def test_no_proc(self):
        for words in (("moe", "--ranks", 2, *SMALL), ("museum", "run", "S1"), ("bench", "heap")):
            self.assert_refused("umount -l /proc", words, "mount /proc")

    def test_a_proc_that_hides(self):
        """Without its other files a job refuses; other users' processes it does not need."""
        command = ["unshare", "-m", "-p", "-f", "sh", "-c", 'mount -t proc -o "$1" proc /proc && shift && exec "$0" "$@"',
                   cli.SHMOE]
        words = ["moe", "--ranks", "2", *map(str, SMALL)]
        hidden = subprocess.run([*command, "hidepid=2", *words], capture_output=True, text=True, timeout=cli.LIMIT_S)
        self.assertEqual(hidden.returncode, 0, hidden.stderr)
        subset = subprocess.run([*command, "subset=pid", *words], capture_output=True, text=True, timeout=cli.LIMIT_S)
        self.assert_one_message(subset, "mount /proc")


class Limits(cli.Case):
    def limited(self, what, least, *words):
        return run(*words, preexec_fn=lambda: resource.setrlimit(what, (least, least)))

    def test_64_open_files(self):
        done = self.limited(resource.RLIMIT_NOFILE, 64, "run", "-n", 8, "--", cli.SHMOE, "moe", *SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.limited(resource.RLIMIT_NOFILE, 64, "run", "-n", 40, "--", cli.SHMOE, "moe", *SMALL)
        self.assert_one_message(done, "40 ranks need 96 open files, but the hard limit is 64: raise it with `ulimit -n`")

    def test_few_addresses(self):
        if self.limited(resource.RLIMIT_AS, 1 << 30, "--version").returncode != 0:
            self.skipTest("a sanitised program does not start within such limits")
        done = self.limited(resource.RLIMIT_AS, 1 << 30, "moe", "--ranks", 2, *SMALL)
        self.assert_one_message(done, "reserving 2 x 1234 MiB of addresses: lower SHMOE_HEAP", "raise `ulimit -v`")

    def test_few_processes(self):
        user = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups", "prlimit"]
        if subprocess.run([*user, cli.SHMOE, "--version"], capture_output=True).returncode != 0:
            self.skipTest("only root can become a user who runs nothing else, and that user must reach the program")
        with tempfile.TemporaryDirectory() as folder:
            os.chown(folder, OTHER_USER, OTHER_USER)
            for most in (1, 2, 3):
                done = subprocess.run([*user, f"--nproc={most}", cli.SHMOE, "moe", "--ranks", "2"], capture_output=True,
                                      text=True, timeout=cli.LIMIT_S, env={**os.environ, "XDG_RUNTIME_DIR": folder})
                self.assert_one_message(done, "cannot start another process: raise the limit of processes (ulimit -u)")


if __name__ == "__main__":
    cli.main()
