"""Proves the gates: a small good tree passes all of them, and each fault put into it fails just the gate meant for it.

usage: lint_test.py [--tally FILE]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS / "lint"))

from gates import FIXES, GATES  # noqa: E402
from lint_test_tree import FAULTS, GOOD  # noqa: E402
from tree import Tree  # noqa: E402


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def failing_gates(root, wanted):
    # The compiler takes longer than all other gates together, so it runs for its own faults only.
    names = [name for name in GATES if name != "headers" or wanted == "headers"]
    tree = Tree(root)
    return {name for name in names if GATES[name](tree)}


def fault_is_caught(root, gate, path, old, new):
    """Puts one fault in, asks the gates, takes it out again. Returns what is wrong, or nothing."""
    original = GOOD.get(path)
    if old is None:
        text = new  # a new file or a whole other one
    elif original is None or old not in original:
        return f"the good tree has no '{old}' in {path}"
    else:
        text = original.replace(old, new, 1)
    write(root, path, text)
    failing = failing_gates(root, gate)
    if original is None:
        (root / path).unlink()
    else:
        write(root, path, original)
    return None if failing == {gate} else f"{path}: '{new.strip()[:60]}' failed {sorted(failing) or 'nothing'}"


def fix_repairs(root):
    """--fix brings back the format of a source and the listing of a README."""
    write(root, "shmem/flag.hpp", GOOD["shmem/flag.hpp"].replace("  void put", "      void put"))
    write(root, "apps/01_ring/README.md", GOOD["apps/01_ring/README.md"].replace("return 0;", "return 1;"))
    for fix in FIXES:
        fix(Tree(root))
    changed = [path for path in GOOD if (root / path).read_text() != GOOD[path]]
    return f"differs after --fix: {changed}" if changed else None


def main():
    results = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run(["git", "init", "-q", root], check=True)
        shutil.copy(SCRIPTS.parent / ".clang-format", root)
        for path, text in GOOD.items():
            write(root, path, text)
        failing = failing_gates(root, "headers")
        results.append(("the good tree passes", f"failed {sorted(failing)}" if failing else None))
        for gate, path, old, new in FAULTS:
            results.append((gate, fault_is_caught(root, gate, path, old, new)))
        results.append(("fix", fix_repairs(root)))
        untested = set(GATES) - {gate for gate, *_ in FAULTS}
        results.append(("every gate has a fault", f"none for {sorted(untested)}" if untested else None))

    wrong = [(name, fault) for name, fault in results if fault]
    for name, fault in wrong:
        print(f"   {name}: {fault}")
    print(f"lint_test: {len(results) - len(wrong)} of {len(results)} passed")
    if "--tally" in sys.argv:
        with open(sys.argv[sys.argv.index("--tally") + 1], "a", encoding="utf-8") as tally:
            tally.write(f"{len(results) - len(wrong)} {len(wrong)} 0\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
