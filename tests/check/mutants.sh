#!/usr/bin/env bash
# Every mutant of the protocols dies in the checker, and the named faults end on their recorded schedules as they did.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -B scripts/mutate.py build
python3 -B scripts/mutate.py faults
python3 -B scripts/mutate.py run --runs 300 --thorough 300 | sed -n '/SURVIVED/,+3p;/LISTED AS/p;/no such mutant/p;/^mutate: /p'
