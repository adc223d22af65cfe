#!/usr/bin/env bash
# mutants.sh faults: the named faults of the protocols end on their recorded schedules as they did.
# mutants.sh all: and every mutant dies in the checker.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -B scripts/mutate.py build
if [[ $1 == faults ]]; then exec python3 -B scripts/mutate.py faults; fi
python3 -B scripts/mutate.py run --runs 300 --thorough 2000 | sed -n '/SURVIVED/,+3p;/LISTED AS/p;/no such mutant/p;/^mutate: /p'
