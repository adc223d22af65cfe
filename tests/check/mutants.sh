#!/usr/bin/env bash
# mutants.sh faults: the named faults of the protocols end on their recorded schedules as they did.
# mutants.sh judges: those who prove deadlocks and name causes, each with a fault, are found out by an exhibit or a test.
# mutants.sh all: every mutant dies in the checker.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ $1 == judges ]]; then exec python3 -B scripts/mutate.py judges; fi
python3 -B scripts/mutate.py build
if [[ $1 == faults ]]; then exec python3 -B scripts/mutate.py faults; fi
python3 -B scripts/mutate.py run --runs 300 --thorough 2000 | sed -n '/SURVIVED/,+3p;/LISTED AS/p;/no such mutant/p;/^mutate: /p'
