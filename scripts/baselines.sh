#!/usr/bin/env bash
# Trains every learned baseline, runs their actors, and writes docs/baselines.md: scripts/baselines.sh
# FOLDER, a device's folder of bench/results. Known answers come first; what is trained is
# skipped and what was interrupted goes on, so that the same command continues. JOBS (2)
# trainings run side by side, each on one core; ONLY is a glob of TASK-METHOD-SEED. make baselines
# makes what it runs with.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
python=${PYTHON:-build/baselines/venv/bin/python}
export PYTHONPATH=python${PYTHONPATH:+:$PYTHONPATH} GOMAXPROCS=1
mkdir -p "$out/baselines"
"$python" baselines/all.py plan --jobs "${JOBS:-2}" --only "${ONLY:-*}" >&2
"$python" baselines/all.py train --jobs "${JOBS:-2}" --only "${ONLY:-*}" --curves "$out/baselines"
"$python" baselines/all.py evaluate "$out" --only "${ONLY:-*}"
"$python" baselines/report.py "$out"
