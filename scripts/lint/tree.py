"""The files the gates look at, and the little C++ reading they need."""

import re
import subprocess
from functools import cached_property
from pathlib import Path

LAYERS = ("shmem", "bootstrap", "runtime", "ops", "capi", "apps", "tests", "fuzz")
CPP = (".hpp", ".cpp", ".h", ".cc", ".c")


class Source:
    """One text file. `where(n)` names a line, `code` is the text with comments and literals blanked."""

    def __init__(self, root, path):
        self.path = path  # relative to the root, with forward slashes
        self.file = Path(root) / path

    @cached_property
    def text(self):
        return self.file.read_text(encoding="utf-8", errors="replace")

    @cached_property
    def lines(self):
        return self.text.splitlines()

    @cached_property
    def code(self):
        return blank_comments_and_literals(self.text)

    @property
    def suffix(self):
        return self.file.suffix

    @property
    def layer(self):
        return self.path.split("/")[0]

    def where(self, number):
        return f"{self.path}:{number}: {self.lines[number - 1].strip()}"


class Tree:
    def __init__(self, root):
        self.root = Path(root)

    @cached_property
    def sources(self):
        found = []
        for path in self._paths():
            file = self.root / path
            if file.is_symlink() or not file.is_file():
                continue
            if b"\0" in file.read_bytes()[:8192]:
                continue
            found.append(Source(self.root, path))
        return found

    def _paths(self):
        # New files count before they are added, so that a gate speaks up before the commit and not after it.
        listed = subprocess.run(
            ["git", "-C", self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True)
        if listed.returncode == 0:
            return sorted(set(filter(None, listed.stdout.split("\0"))))
        # A copy without its history, as in a container image.
        files = (f.relative_to(self.root).as_posix() for f in self.root.rglob("*") if f.is_file())
        return sorted(f for f in files if not re.match(r"(build|\.git)/|.*__pycache__/", f))

    def cpp(self, *layers):
        return [s for s in self.sources if s.suffix in CPP and (not layers or s.layer in layers)]

    def headers(self, *layers):
        return [s for s in self.cpp(*layers) if s.suffix in (".hpp", ".h")]

    def scripts(self, interpreter, suffix):
        """Files of a script language, by suffix or by first line."""
        first = re.compile(r"#!.*\b" + interpreter)
        return [s for s in self.sources
                if s.suffix == suffix or (not s.suffix and s.lines and first.match(s.lines[0]))]


_TOKEN = re.compile(
    r"""//[^\n]*"""
    r"""|/\*.*?\*/"""
    r"""|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\""""
    r"""|"(?:\\.|[^"\\\n])*\""""
    r"""|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""",
    re.S)


def blank_comments_and_literals(text):
    """The same text with comments and the inside of literals as blanks; line numbers and columns stay."""
    return _TOKEN.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
