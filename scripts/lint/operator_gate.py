"""The gate on operators: what ops/README asks of one, and nothing else would miss."""

import re

_DECLARED = re.compile(r"^Result<void> (\w+)\(runtime::Communicator& comm, (?:const )?(?:\w+Args|LowLatencyTables)& \w+", re.M)
_MUTANTS = "scripts/mutate/schemata.py"


def _calls(sources, name):
    return any(re.search(rf"\bops::{name}\(", s.code) for s in sources)


def check_operators(tree):
    """an operator is called by a test in tests/ops and a program in apps/check, and its source is among the mutants"""
    tests = [s for s in tree.cpp("tests") if s.path.startswith("tests/ops/")]
    programs = [s for s in tree.cpp("apps") if s.path.startswith("apps/check/")]
    mutants = next((s.text for s in tree.sources if s.path == _MUTANTS), "")
    found = []
    for header in tree.headers("ops"):
        source = header.path.removesuffix(".hpp") + ".cpp"
        for name in _DECLARED.findall(header.text):
            missing = [] if _calls(tests, name) else [f"no test in tests/ops calls ops::{name}"]
            missing += [] if _calls(programs, name) else [f"no program in apps/check calls ops::{name}"]
            missing += [] if f'"{source}"' in mutants else [f"{source} is not in FILES of {_MUTANTS}"]
            found += [f"{header.path}: {name}: {text}; ops/README, Adding one" for text in missing]
    return found
