"""What tests/cases.md quotes as a test is the name, or the beginning of the name, of one, and all handed cases are there.

usage: cases_page.py ROOT
"""

import re
import sys
from pathlib import Path

HANDED = 83  # T cases; S1 is ours
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
TITLE = re.compile(rf"(?:TEST_CASE|TEST_CASE_TEMPLATE|SUBCASE)\(\s*((?:{LITERAL.pattern}\s*)+)")


def titles_in(text):
    """Titles of doctest, put together where a line ends inside."""
    return ["".join(LITERAL.findall(found.group(1))).replace('\\"', '"') for found in TITLE.finditer(text)]


def is_told(title, parts):
    return title.startswith(parts[0]) and all(part in title for part in parts)


def texts_of(folder, pattern):
    return [path.read_text(encoding="utf-8") for path in folder.rglob(pattern)]


def rows_of(page):
    """Of each case: its id, its kind, its tests."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("| ").split(" | ", 2) for line in lines if re.match(r"\| [ST]\d+ ", line)]


def main(root):
    tests_folder = root / "tests"
    titles = [title for text in texts_of(tests_folder, "*.cpp") for title in titles_in(text)]
    scripts = "\n".join(texts_of(tests_folder, "*.sh"))
    functions = set(re.findall(r"def (test_\w+)", "\n".join(texts_of(tests_folder, "*.py"))))
    rows = rows_of(tests_folder / "cases.md")
    missing = []
    for case, _, tests in rows:
        for name in LITERAL.findall(tests):
            parts = [part.strip() for part in name.split("...")]
            if name not in scripts and not any(is_told(title, parts) for title in titles):
                missing.append(f"{case}: {name}")
        for name, cut in re.findall(r"`(test_\w+)(\.\.\.)?`", tests):
            if name not in functions and not (cut and any(function.startswith(name) for function in functions)):
                missing.append(f"{case}: {name}")
    cases = [case for case, _, _ in rows if case.startswith("T")]
    print(f"{len(cases)} cases, {len(missing)} names of no test", *missing, sep="\n  ")
    return 0 if not missing and len(cases) == len(set(cases)) == HANDED else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
