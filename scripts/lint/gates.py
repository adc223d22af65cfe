"""All gates by name, in the order they run. A gate takes a Tree and returns the offending lines; its docstring is the reason."""

import code_gates
import label_gates
import lesson_gates
import operator_gate
import text_gates

GATES = {
    "format": code_gates.check_format,
    "atomics": code_gates.check_atomics,
    "sleeps": code_gates.check_sleeps,
    "times": code_gates.check_times,
    "layering": code_gates.check_layering,
    "pragma-once": code_gates.check_pragma_once,
    "headers": code_gates.check_headers,
    "listed": code_gates.check_listed,
    "operators": operator_gate.check_operators,
    "order": label_gates.check_order,
    "errors": label_gates.check_errors,
    "lessons": lesson_gates.check_lessons,
    "listings": lesson_gates.check_listings,
    "unfinished": text_gates.check_unfinished,
    "length": text_gates.check_length,
    "machine-paths": text_gates.check_machine_paths,
    "links": text_gates.check_links,
    "python": text_gates.check_python,
    "bash": text_gates.check_bash,
}

# Only where they are named.
SLOW_GATES = {"all-headers": code_gates.check_all_headers}

FIXES = (code_gates.fix_format, lesson_gates.fix_listings)
