"""Runs what a page shows: in a fenced block that begins with "$ ", each such line is a command, and what follows is what it
prints, on either stream. "..." stands for anything, NN for a line of a source; breaks and blanks are alike.

usage: pages_test.py PAGE      with SHMOE and SHMOE_TEST_SOURCE, the root of the sources
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 100
SKIPPED = 77
_BLOCK = re.compile(r"^```\w*\n(\$ .*?)^```$", re.M | re.S)
_LINES = re.compile(r"(\.[ch]pp):\d+")
_PROVEN = re.compile(r"proven [\d.]+ s after")
_PROGRESS = re.compile(r"^\S+: \d+ schedules, .* no verdict yet\n", re.M)  # of a check that takes longer than some seconds


def examples(page):
    """(command, what it prints, line of the page), in order."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        for part in re.split(r"^\$ ", block.group(1), flags=re.M)[1:]:
            command = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part).group()
            yield command, part[len(command):], line
            line += part.count("\n")


def alike(text):
    """Without what differs from run to run."""
    return _PROVEN.sub("proven T s after", _LINES.sub(r"\1:NN", _PROGRESS.sub("", text)))


def workplace(folder, shmoe, source):
    """A folder in which the paths of the pages lead to this build."""
    build = shmoe.parents[2]
    (folder / "build").mkdir()
    for name in ("dev", "release"):
        (folder / "build" / name).symlink_to(build)
    for name in ("apps", "doc", "tests"):
        (folder / name).symlink_to(source / name)
    (folder / "bin").mkdir()
    (folder / "bin" / "shmoe").symlink_to(shmoe)


def main(page):
    shmoe, source = Path(os.environ["SHMOE"]), Path(os.environ.pop("SHMOE_TEST_SOURCE"))
    page = source / page
    compare = doctest.OutputChecker()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed = ran = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workplace(folder, shmoe, source)
        environment = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for command, shown, line in examples(page):
            if "mpirun" in command and not shutil.which("mpirun"):
                continue
            done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=LIMIT_S, cwd=folder, env=environment)
            ran += 1
            if not compare.check_output(alike(shown), alike(done.stdout), flags):
                failed += 1
                print(f"{page}:{line}: $ {command}-- shown\n{shown}-- printed\n{done.stdout}-- exit code {done.returncode}")
    print(f"{ran} commands run, {failed} print something else")
    return 1 if failed else 0 if ran else SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
