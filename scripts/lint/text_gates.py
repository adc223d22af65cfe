"""Gates on any tracked text: unfinished marks, length, machine paths, links, scripts that parse."""

import ast
import posixpath
import re
import shutil
import subprocess

from tree import CPP

_UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X|HA[C]K)\b")  # the brackets keep this line from matching itself


def check_unfinished(tree):
    """nothing is left to do in the sources: finish it, or write it down where work is planned"""
    return [s.where(n) for s in tree.sources for n, line in enumerate(s.lines, 1) if _UNFINISHED.search(line)]


_LIMIT = 500
_COUNTED = (*CPP, ".py", ".sh", ".md", ".cmake", ".txt", ".ts")


def check_length(tree):
    """a file over 500 lines is two files"""
    counted = (s for s in tree.sources if s.suffix in _COUNTED and s.path != "LICENSE")
    return [f"{s.path}: {len(s.lines)} lines" for s in counted if len(s.lines) > _LIMIT]


_MACHINE_PATH = re.compile(r"(?<![\w.$}~/*-])/(?:work|root|home|mnt|media|Users)/[\w.]|(?<![\w.$}~/*-])/(?:root|work)(?![\w-])")


def check_machine_paths(tree):
    """paths of one machine do not work on the next"""
    return [s.where(n) for s in tree.sources for n, line in enumerate(s.lines, 1) if _MACHINE_PATH.search(line)]


_LINK = re.compile(r"(?<!`)\[[^\]\n]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def _anchors(text):
    """Of its titles, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+?) *$", _FENCED.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_links(tree):
    """a link within the tree leads to a file, and to a title of it"""
    by_path = {s.path: s for s in tree.sources}
    folders = {folder for path in by_path for folder in _folders(path)}
    found = []
    for page in (s for s in tree.sources if s.suffix == ".md"):
        for target in _LINK.findall(_FENCED.sub("", page.text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), path)) if path else page.path
            if path not in by_path and path not in folders:
                found.append(f"{page.path}: no {target}")
            elif anchor and anchor not in _anchors(by_path[path].text):
                found.append(f"{page.path}: no title for {target}")
    return found


def _folders(path):
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]


def check_python(tree):
    """python files parse"""
    found = []
    for s in tree.scripts("python", ".py"):
        try:
            ast.parse(s.text, s.path)
        except SyntaxError as error:
            found.append(f"{s.path}:{error.lineno}: {error.msg}")
    return found


def check_bash(tree):
    """shell scripts parse and, where shellcheck is installed, raise no warning"""
    found = []
    scripts = tree.scripts("(?:bash|sh)", ".sh")
    for s in scripts:
        ran = subprocess.run(["bash", "-n", s.file], capture_output=True, text=True)
        found += ran.stderr.replace(f"{tree.root}/", "").splitlines()
    if scripts and shutil.which("shellcheck") and not found:
        ran = subprocess.run(["shellcheck", "-x", "-S", "warning", "-f", "gcc", *(s.path for s in scripts)],
                             capture_output=True, text=True, cwd=tree.root)
        found += ran.stdout.splitlines()
    return found
