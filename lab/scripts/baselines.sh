#!/usr/bin/env bash
# Trains every learned baseline, runs their actors, and writes docs/results/baselines.md: lab/scripts/baselines.sh
# FOLDER, a device's folder of lab/results. Known answers come first; what is trained is
# skipped and what was interrupted goes on, so that the same command continues. JOBS (2)
# trainings run side by side, each on one core; SEEDS (1,2,3) are run one behind the other, ONLY is a
# glob of TASK-METHOD-SEED. SEARCH=1 runs the search of settings first. lab/run baselines makes what it runs with.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
python=${PYTHON:-build/baselines/venv/bin/python}
export PYTHONPATH=python${PYTHONPATH:+:$PYTHONPATH} GOMAXPROCS=1 OMP_NUM_THREADS=1
queue=(--seeds "${SEEDS:-1,2,3}" --only "${ONLY:-*}")
mkdir -p "$out/baselines"
[ -z "${SEARCH:-}" ] || "$python" lab/baselines/search.py "$out"
"$python" lab/baselines/all.py plan "$out" "${queue[@]}" >&2
"$python" lab/baselines/all.py train "$out" --jobs "${JOBS:-2}" "${queue[@]}"
"$python" lab/baselines/all.py evaluate "$out" "${queue[@]}"
"$python" lab/baselines/report.py "$out"
