"""The copy of the tree in which every mutant lies behind a switch, and its one build."""

import fcntl
import json
import os
import re
import subprocess

from cpp import Source, one_line
from operators import Mutant, Operators, Piece, name_mutants, without_twins
from tile_operators import TileOperators

# File -> how it asks for its rank, and the functions that are protocol (None: all but NO_PROTOCOL).
FILES = {
    "runtime/zero_buffer_sync.cpp": ("context_->", None),
    "runtime/core_context.cpp": ("", None),
    "runtime/communicator.cpp": ("", ("keep_in_step", "barrier")),
    "runtime/communicator_heap.cpp": ("context.", ("carry", "carry_out", "compact")),
    "ops/handshake.hpp": ("comm.", None),
    "runtime/legacy_sync.cpp": ("context_->", None),
    "ops/skeleton.cpp": ("context.", None),
    "ops/detour/core.hpp": ("context_.", ("position",)),
    "ops/detour/all_to_all_detour.cpp": ("context_.", ("run", "send", "keep", "receive", "fetch", "write", "in_y",
                                                       "in_x", "is_direct", "all_to_all_kernel")),
    "ops/detour/reduce_scatter_detour.cpp": ("context_.", ("send_and_reduce", "reduce_in_place", "in_x",
                                                           "send", "carry", "each_own_piece", "wait_for_all",
                                                           "reduce", "reduce_scatter_kernel")),
    "ops/ep/layout.cpp": ("context.", None),
    "ops/ep/notify.cpp": ("context.", None),
    "ops/ep/dispatch_normal.cpp": ("context.", None),
    "ops/ep/combine_normal.cpp": ("context_->", None),
    "ops/ep/rows.hpp": ("context.", ("of",)),
    "ops/ep/pipeline.hpp": ("", ("next_counts",)),
    "ops/ep/pipeline.cpp": ("", None),
    "ops/low_latency/sync.cpp": ("context_->", None),
    "ops/low_latency/dispatch.cpp": ("context_->", None),
    "ops/low_latency/combine.cpp": ("context_->", None),
    "ops/low_latency/tables.cpp": ("", None),
    "ops/afd/window.hpp": ("context.", ("raise", "await")),
    "ops/afd/a2e.cpp": ("context_->", None),
    "ops/afd/e2a.cpp": ("context_->", None),
    "ops/afd/published.cpp": ("context_->", None),
}
# The same for the tile language, which has operators of its own.
TILE_FILES = {
    "ops/tile/tile.hpp": ("context_->", ("wait", "notify", "store", "load", "putmem", "putmem_nbi", "getmem",
                                         "putmem_signal", "putmem_signal_nbi", "signal_wait_until", "wait_until_all",
                                         "wait_until_any", "wait_until_some", "test", "test_all", "test_any",
                                         "test_some", "fence", "quiet")),
    "ops/tile/tile.cpp": ("context_->", None),
    "ops/tile/all2all_tasks.hpp": ("", ("blocks", "buffer_of", "rows_of", "task", "first_task", "in_buffer", "worker",
                                        "workers", "produces", "consumes")),
    "ops/tile/reverse_all2all.cpp": ("context_.", ("run", "each_task", "produce", "send", "consume", "receive",
                                                   "row_of")),
}
# Checks of arguments and texts of errors: the host's, not the protocol's.
NO_PROTOCOL = {"family_name", "precedes", "copy_name", "CallCard", "with", "difference", "bad_id",
               "is_told_before", "name_of", "mismatch", "answers_of", "is_whole", "with_value", "row_call_of",
               "counts_of", "afd_window", "describe", "choose_columns", "prepare_tables", "smooth_row_of",
               "number_first_token", "expect_room", "published_window_bytes"}
# And all that are named like them.
NO_PROTOCOL_NAME = re.compile(r"\w+_(handshake|fault|text|reference|refusal)")

HEADER = """\
#pragma once
// The switch of the mutants: SHMOE_MUTANT is the number of the one that is on.
#include <cstdlib>
#include "shmem/types.hpp"
namespace shmoe {
inline bool mutant(int number) {
  static const int chosen = [] {
    const char* text = std::getenv("SHMOE_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return number == chosen;
}
namespace mutated {
constexpr Slice without_first(Slice s) { return {s.first < s.last ? s.first + 1 : s.first, s.last}; }
/// One to the left, where there is room.
constexpr Slice moved(Slice s) { return {s.first > 0 ? s.first - 1 : s.first, s.first > 0 ? s.last - 1 : s.last}; }
}  // namespace mutated
}  // namespace shmoe
"""


def mutants_of(root):
    """All mutants of the tree by generated operators; numbered from 1."""
    found = []
    for path, (me, functions) in {**FILES, **TILE_FILES}.items():
        source = Source(path, (root / path).read_text())
        operators = TileOperators if path in TILE_FILES else Operators
        for function in source.functions():
            if function.name in NO_PROTOCOL or NO_PROTOCOL_NAME.fullmatch(function.name):
                continue
            if functions and function.name not in functions:
                continue
            # A kernel and its parts hold `context`, a member function of an object of one `context_`.
            own = me
            text = source.text[function.start:function.end]
            if me == "context_->" and path.startswith(("ops/ep/", "ops/afd/")) and "context_" not in text:
                own = "context."
            if path.startswith("ops/detour/") and re.search(r"\bcontext\b", source.text[function.start:function.end]):
                own = "context."
            found += operators(source, function, own).all()
    found = list(without_twins(found))
    name_mutants(found)
    return found


def hand_written(root, faults):
    """The faults that are a replacement of their own: file, a text that is there once, and what to put in its place."""
    found = []
    for name, fault in faults.items():
        if "replace" not in fault:
            continue
        change = fault["replace"]
        source = Source(change["file"], (root / change["file"]).read_text())
        start = source.text.find(change["text"])
        if start < 0 or source.text.find(change["text"], start + 1) >= 0:
            raise SystemExit(f"mutate: fault {name}: '{change['text']}' is not once in {change['file']}")
        end = start + len(change["text"])
        inside = [f for f in source.functions() if f.start < start and end <= f.end]
        piece = Piece(start, end, change["kind"], change.get("with", ""), change.get("when", ""))
        found.append(Mutant(source, inside[0], "fault", [piece], one_line(change["text"]),
                            change.get("with", "nothing"), f"{change['file']}:{inside[0].name}:fault:{name}"))
    return found


def switch(mutant, piece):
    call = f"::shmoe::mutant({mutant.number})"
    return f"({call} && {piece.when})" if piece.when else call


def transformed(source, mutants):
    """The text with every piece in place. Pieces nest; of two of the same place the first is outside."""
    inserts = []
    order = 0
    for mutant in mutants:
        for piece in mutant.pieces:
            order += 1
            on = switch(mutant, piece)
            size = piece.end - piece.start
            before, after = {
                "guard": (f"if (!{on}) ", ""),
                "expr": (f"({on} ? {piece.other} : ", ")"),
                "before": (f"if ({on}) {{ {piece.other} }} else ", ""),
            }[piece.kind]
            # At one place: first what ends there, the innermost first; then what begins there, the outermost first.
            inserts.append((piece.end, 0, size, -order, after))
            inserts.append((piece.start, 1, -size, order, before))
    text, at = "", 0
    for place, _, _, _, added in sorted(inserts):
        text += source.text[at:place] + added
        at = place
    text += source.text[at:]
    # Messages and verdicts name the lines of the original.
    return f'#include "shmem/mutant.hpp"\n#line 1\n{text}' if mutants else text


def write_if_other(file, data):
    if file.exists() and file.read_bytes() == data:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def copy_tree(root, to, mutants):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            capture_output=True, text=True, check=True).stdout.split("\0")
    by_file = {}
    for mutant in mutants:
        by_file.setdefault(mutant.source.path, (mutant.source, []))[1].append(mutant)
    kept = {"shmem/mutant.hpp"}
    for path in filter(None, listed):
        if not (root / path).is_file():
            continue
        kept.add(path)
        data = transformed(*by_file[path]).encode() if path in by_file else (root / path).read_bytes()
        write_if_other(to / path, data)
    write_if_other(to / "shmem/mutant.hpp", HEADER.encode())
    for file in to.rglob("*"):
        if file.is_file() and str(file.relative_to(to)) not in kept:
            file.unlink()


def build(root, mutants, *tests):
    """Copies, configures, compiles the program and these tests. Returns the program."""
    place = root / "build/mutants"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy_tree(root, place / "src", mutants)
        environment = {**os.environ, "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
        # A mutant leaves variables unused, so no warnings.
        steps = (["cmake", "-S", place / "src", "-B", place / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                  "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -w", "-DCMAKE_UNITY_BUILD=ON"],
                 ["cmake", "--build", place / "build", "--target", "shmoe", *tests])
        for step in steps:
            ran = subprocess.run(step, env=environment, capture_output=True, text=True)
            if ran.returncode != 0:
                raise SystemExit(f"{ran.stdout[-6000:]}{ran.stderr[-2000:]}\nmutate: the copy does not build")
        plan = {m.key: m.number for m in mutants}
        (place / "plan.json").write_text(json.dumps(plan, indent=1) + "\n")
    return place / "build/apps/shmoe/shmoe"
