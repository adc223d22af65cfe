"""Prints 'passed failed skipped' of one ctest run.

usage: read_junit.py REPORT EXIT_CODE

ctest files a test whose program is missing under "skipped"; here it is failed, because only the test itself may decide to skip.
A run that ends badly without saying which test failed counts as one failure.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def verdict(case):
    if case.get("status") == "run":
        return "passed"
    if case.get("status") == "disabled":
        return "skipped"
    skipped = case.find("skipped")
    by_itself = skipped is not None and skipped.get("message", "").startswith("SKIP_")
    return "skipped" if by_itself else "failed"


def main(report, exit_code):
    verdicts = []
    if Path(report).exists():
        verdicts = [verdict(case) for case in ET.parse(report).getroot().iter("testcase")]
    passed, failed, skipped = (verdicts.count(kind) for kind in ("passed", "failed", "skipped"))
    if exit_code != 0 and failed == 0:
        failed = 1
    print(passed, failed, skipped)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
