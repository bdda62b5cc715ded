#!/usr/bin/env bash
# Adds to the records of the paper's methods what a later program says of the same run, such as
# which limits were broken and how often: scripts/results-amend.sh FOLDER, a folder of
# bench/results. Every evaluation is run again as its record says; one that does not repeat bit for
# bit is refused and named, and times stay those of the record. So it needs no quiet machine, but
# the record's instruction set. RECORDS are names in FOLDER without .json in place of the paper's
# rows, THREADS (1) is for every run. bin/gpc and bin/record are those of the commit (make build
# bin/record). A record that lacks nothing costs a run and stays as it is.
# Then it records the roll-outs of Case 2 that the paper draws.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
rows() {
  local case method
  for case in integrator-convex integrator-nonconvex; do
    for method in td3 cpo online mpc oracle navigator; do echo "$case-$method"; done
  done
  for case in opf30 opf30-uncertain; do
    for method in td3 cpo mpc mo-opf runopf navigator; do echo "$case-paper-$method"; done
  done
  for case in multiagent-static multiagent-moving; do
    for method in reference ppo ppo-lagrangian ppo-shielded cpo planner; do echo "$case-$method"; done
  done
}
failed=()
for name in ${RECORDS-$(rows)}; do
  model=()
  case $name in
    *-td3 | *-cpo | *-ppo | *-ppo-lagrangian | *-ppo-shielded)
      task=${name/-uncertain/} # an actor of the nominal network runs on the uncertain one too
      model=(--model "baselines/actors/${task/-paper/}-1.safetensors") ;;
  esac
  echo "$name" >&2
  bin/record --amend "$out/$name.json" bin/gpc --threads "${THREADS:-1}" "${model[@]}" || failed+=("$name")
done
# Their whole traces are of megabytes: what the figures show of them is kept.
work=${WORK:-build/rollouts}
mkdir -p "$work"
for episode in ${EPISODES-1 2 16}; do
  trace=$work/multiagent-moving-planner-$episode.jsonl
  rm -f "$trace"
  bin/gpc eval multiagent-moving --method planner --episodes $((episode + 1)) --shard "$episode/$((episode + 1))" --seed 13 --threads 1 --trace "$trace" >/dev/null
  bin/gpc verify "$trace" >&2
  bin/record --rollout "$trace" --out "$out/multiagent-moving-planner-rollout-$episode.json"
done
[ ${#failed[@]} = 0 ] || { echo "not amended, to be recorded anew: ${failed[*]}" >&2; exit 1; }
