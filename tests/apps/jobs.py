"""What tests share that look at several jobs from outside."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import cli

SMALL = ("--hidden", 16, "--tokens", 4)
MPIRUN = shutil.which("mpirun")

_ENVIRONMENT = dict(os.environ)  # before a test takes its own variables out
_ALONE = "SHMOE_TEST_ALONE"  # "yes": /dev/shm is this test's own; "no": it cannot be had
ALONE = os.environ.pop(_ALONE, "")


def alone():
    """Goes on in a /dev/shm of its own where the system allows that, so that no clean of another test comes first."""
    if ALONE:
        return
    enter = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c",
             'mount -t tmpfs -o mode=1777 shmoe-test /dev/shm && exec "$@"', "sh"]
    can = shutil.which("unshare") and subprocess.run([*enter, "true"], capture_output=True).returncode == 0
    command = [*(enter if can else []), sys.executable, "-B", *sys.argv]
    os.execvpe(command[0], command, {**_ENVIRONMENT, _ALONE: "yes" if can else "no"})


def children_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants_of(pid):
    found = children_of(pid)
    return found + [deeper for child in found for deeper in descendants_of(child)]


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def ranks_of(launcher):
    """The pids of its ranks that have started, by rank."""
    found = {}
    for pid in children_of(launcher):
        for entry in environment_of(pid):
            if entry.startswith(("SHMOE_RANK=", "OMPI_COMM_WORLD_RANK=")):
                found[int(entry.split("=")[1])] = pid
    return found


def objects_of(launcher):
    """Names in /dev/shm of the job that a `shmoe run` or `shmoe moe` has started."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(f"shmoe.shmoe_{launcher}_")}


def has_mapped(pid):
    """Whether the process holds an object that has lost its name."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return any(link.startswith("/dev/shm/shmoe.") and link.endswith(" (deleted)") for link in links)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def start(*words, before=(), **options):
    """A command of shmoe at work, behind other words where it is started by another program."""
    return subprocess.Popen([*map(str, before), cli.SHMOE, *map(str, words)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **options)


class Cleaner:
    """Runs `shmoe clean` again and again in the background, and keeps the lines that say what it removed."""

    def __init__(self, env):
        self.removed = []
        self.rounds = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(env,))

    def _work(self, env):
        while not self._end.is_set():
            done = cli.run("clean", env=env)
            self.removed += [line for line in done.stdout.splitlines() if line.startswith("removed ")]
            self.rounds += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()


class Case(cli.Case):
    """With a runtime folder of its own."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": folder.name}

    def verifies(self, job, ranks):
        """The report of a job with --json, which has ended well."""
        out, err = job.communicate(timeout=cli.LIMIT_S)
        self.assertEqual(job.returncode, 0, err)
        report = json.loads(out)
        self.assertTrue(report["verified"])
        self.assertEqual([rank["rank"] for rank in report["ranks"]], list(range(ranks)))
        return report
