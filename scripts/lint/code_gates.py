"""Gates on C++ sources: format, layering, who may synchronise, headers."""

import os
import re
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from tree import LAYERS

# A line that must break a rule of this file says so, with its reason: // lint: allow(atomics) why
_ALLOW = re.compile(r"//\s*lint: allow\((\w+)\)\s+\S+")


def _matches(source, pattern, rule):
    for number, line in enumerate(source.code.splitlines(), 1):
        if pattern.search(line):
            allowed = _ALLOW.search(source.lines[number - 1])
            if not (allowed and allowed.group(1) == rule):
                yield source.where(number)


def fix_format(tree):
    files = [s.file for s in tree.cpp()]
    if files:
        subprocess.run(["clang-format-14", "-i", "--style=file", *files], check=True)


def check_format(tree):
    """sources are formatted by .clang-format; scripts/lint.sh --fix does it"""
    files = [s.file for s in tree.cpp()]
    if not files:
        return []
    ran = subprocess.run(["clang-format-14", "--dry-run", "-Werror", "--style=file", *files],
                         capture_output=True, text=True)
    places = [line.replace(f"{tree.root}/", "") for line in ran.stderr.splitlines() if "error:" in line]
    files_at = Counter(line.split(":")[0] for line in places)
    return [f"{path}: {count} places" for path, count in files_at.items()] or ([ran.stderr] if ran.returncode else [])


_ATOMICS = re.compile(
    r"\bstd::atomic|[<]atomic[>]|\b__atomic_|\b__sync_|\bstd::this_thread\b|\busleep\b|\bnanosleep\b"
    r"|\bsched_yield\b|\bfutex\b|\bSYS_futex|\b_mm_pause\b")


def check_atomics(tree):
    """shared words are read and written, and waits are made, only under shmem/: what the checker cannot see it cannot prove"""
    layers = ("bootstrap", "runtime", "ops", "capi", "apps")
    return [line for s in tree.cpp(*layers) for line in _matches(s, _ATOMICS, "atomics")]


_SLEEPS = re.compile(r"\busleep\b|\bnanosleep\b|\bsleep_for\b|\bsleep_until\b|(?<![\w:.])sleep\s*\(")


def check_sleeps(tree):
    """a test never sleeps to let something happen; it waits for the thing itself, on the fabric's clock"""
    return [line for s in tree.cpp("tests", "fuzz") for line in _matches(s, _SLEEPS, "sleeps")]


_FIXED_TIME = re.compile(r"\bconstexpr\b[^;()]*\bk\w+\s*[={].*?(\d(?:ns|us|ms|s|min|h)\b|seconds\s*[({])"
                         r"|\bconstexpr\b[^;()]*seconds\s+k\w+\s*[={]")


def check_times(tree):
    """a fixed time says why it is none of the settings, in a comment on its line or above: on a busy machine it will pass"""
    found = []
    for s in tree.cpp("shmem", "bootstrap", "runtime", "ops", "capi", "apps"):
        for number, line in enumerate(s.code.splitlines(), 1):
            if not _FIXED_TIME.search(line) or "//" in s.lines[number - 1]:
                continue
            if number == 1 or not s.lines[number - 2].lstrip().startswith("//"):
                found.append(s.where(number))
    return found


_MAY_INCLUDE = {
    "shmem": {"shmem"},
    "bootstrap": {"shmem", "bootstrap"},
    "runtime": {"shmem", "bootstrap", "runtime"},
    "ops": {"shmem", "runtime", "ops"},
    "capi": {"shmem", "bootstrap", "runtime", "ops", "capi"},
    "apps": set(LAYERS) - {"tests", "fuzz"},
    "tests": set(LAYERS),
    "fuzz": set(LAYERS) - {"tests"},
}
_CHECKER_USERS = ("runtime/check/", "apps/check", "apps/shmoe/check", "tests/", "fuzz/")
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def _include_fault(source, quoted, angled):
    target = quoted or angled
    layer = target.split("/")[0]
    if layer not in LAYERS or "/" not in target:
        return "a quoted include starts at the repository root" if quoted else None
    if layer not in _MAY_INCLUDE[source.layer]:
        return f"{source.layer} may not include {layer}"
    if layer == "apps" and not source.path.startswith(("apps/", "tests/apps/", "tests/install/", "fuzz/")):
        return "nothing but their own tests includes apps"
    if target.startswith("runtime/check/") and not source.path.startswith(_CHECKER_USERS):
        return "runtime/check is used only by apps/check and tests"
    folder, detail, _ = target.partition("/detail/")
    if detail and not source.path.startswith((f"{folder}/", f"tests/{folder}/")):
        return "detail/ headers stay in their folder and its tests"
    return None


def check_layering(tree):
    """includes never run upwards: shmem <- bootstrap <- runtime <- ops <- capi <- apps, tests and fuzz; ops know no bootstrap"""
    found = []
    for s in tree.cpp(*LAYERS):
        for number, line in enumerate(s.lines, 1):
            include = _INCLUDE.match(line)
            fault = include and _include_fault(s, *include.groups())
            if fault:
                found.append(f"{s.where(number)}   ({fault})")
    return found


def check_pragma_once(tree):
    """a header starts with #pragma once (a comment may stand above)"""
    found = []
    for s in tree.headers():
        first = next((line.strip() for line in s.code.splitlines() if line.strip()), "")
        if first != "#pragma once":
            found.append(f"{s.path}: first line of code is '{first}'")
    return found


def check_listed(tree):
    """a test stands in the CMakeLists.txt of its folder: what is not built is not run"""
    lists = {s.path: s.text for s in tree.sources if s.path.endswith("CMakeLists.txt")}
    found = []
    for s in tree.cpp("tests"):
        path = PurePosixPath(s.path)
        listed = lists.get(f"{path.parent}/CMakeLists.txt", "")
        if path.stem.endswith("_test") and not re.search(rf"(?<![\w/]){re.escape(path.name)}\b", listed):
            found.append(f"{s.path}: not in {path.parent}/CMakeLists.txt")
    return found


def _compiler_flags():
    flags = ["-std=c++20"]
    for package in ("libhwy", "spdlog", "ompi-c"):
        ran = subprocess.run(["pkg-config", "--cflags", package], capture_output=True, text=True)
        flags += ran.stdout.split() if ran.returncode == 0 else []
    return flags


def _do_not_compile_alone(tree, headers):
    compiler = (["ccache"] if shutil.which("ccache") else []) + ["g++"]
    flags = _compiler_flags()
    outputs = tree.root / "build" / "lint"

    def compile_alone(source):
        stub = outputs / PurePosixPath(source.path + ".cpp")
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(f'#include "{source.path}"\n')
        # An object rather than -fsyntax-only, because ccache remembers only objects.
        ran = subprocess.run([*compiler, *flags, "-O0", "-w", f"-I{tree.root}", "-c", stub, "-o", f"{stub}.o"],
                             capture_output=True, text=True)
        return f"{source.path}:\n{ran.stderr[:2000]}" if ran.returncode else None

    if headers:
        outputs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [fault for fault in pool.map(compile_alone, headers) if fault]


def check_headers(tree):
    """a header without a source compiles alone; any other is the first that its own source includes"""
    sources = {s.path for s in tree.cpp(*LAYERS)}
    return _do_not_compile_alone(
        tree, [s for s in tree.headers(*LAYERS) if str(PurePosixPath(s.path).with_suffix(".cpp")) not in sources])


def check_all_headers(tree):
    """every header compiles alone, so that the order of includes never matters; minutes of work"""
    return _do_not_compile_alone(tree, tree.headers(*LAYERS))
