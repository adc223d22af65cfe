"""What tests/cases.md quotes as the name of a test is the name, or the beginning of the name, of one.

usage: cases_page.py ROOT
"""

import re
import sys
from pathlib import Path

SOURCES = (".cpp", ".py", ".sh")


def main(root):
    sources = (path for path in (root / "tests").rglob("*") if path.suffix in SOURCES)
    tests = "\n".join(path.read_text(encoding="utf-8") for path in sources).replace('\\"', '"')
    page = (root / "tests" / "cases.md").read_text(encoding="utf-8")
    quoted = re.findall(r'"([^"\n]+)"', page)
    missing = [name for name in quoted if not all(part.strip() in tests for part in name.split("..."))]
    print(f"{len(quoted)} names, {len(missing)} of no test", *missing, sep="\n  ")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
