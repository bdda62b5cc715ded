#!/usr/bin/env bash
# Records the runs of Case 2 behind the report: lab/scripts/results-multiagent.sh
# FOLDER, a folder of lab/results named for the device. The seed was used for
# nothing else. One run follows another, so that none disturbs the times of another. Their
# traces stay in WORK: started again, it continues where it was interrupted, with the
# program it was begun with. Every trace is re-simulated. MODELS is a folder of
# CASE.safetensors in place of the bundled ones, CASES one of the two. METHODS are the rows to
# record in place of all, such as "planner-no-latent-primitives planner-no-latent-descents".
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
out=$1
seed=13
work=${WORK:-build/multiagent}
mkdir -p "$out" "$work"
[ -x "$work/gpc" ] || cp "$gpc" "$work/gpc"
gpc=$work/gpc
evaluate() { # CASE METHOD EPISODES
  local name=$1-$2 model=()
  [ -z "${MODELS:-}" ] || case $2 in reference* | planner-no-latent*) ;; *) model=(--model "$MODELS/$1.safetensors") ;; esac
  record "$name" eval "$1" --method "$2" --episodes "$3" --seed $seed --threads 1 --resume --trace "$work/$name.jsonl" "${model[@]}"
  "$gpc" verify "$work/$name.jsonl" >&2
}
declare -A episodes=([multiagent-static]=${STATIC:-1000} [multiagent-moving]=${MOVING:-300})
# Other numbers of candidates are lab/scripts/candidates-multiagent.sh's.
rows=${METHODS:-$("$gpc" methods multiagent-static --all --bundled --names | grep -vx planner)}
for case in ${CASES:-multiagent-static multiagent-moving}; do
  for method in $rows; do
    number=${EPISODES:-100}
    # What the map stands beside, in as many episodes, and the reference that both are measured by.
    case $method in reference | planner-no-latent-primitives) number=${episodes[$case]} ;; esac
    evaluate $case "$method" "$number"
  done
  [ -z "${METHODS:-}" ] || continue
  # The first episode, for the figures.
  model=()
  [ -z "${MODELS:-}" ] || model=(--model "$MODELS/$case.safetensors")
  rm -f "$out/$case-planner.jsonl.gz"
  "$gpc" eval $case --method planner --episodes 1 --seed $seed "${model[@]}" --trace "$out/$case-planner.jsonl" >/dev/null
  gzip -9n "$out/$case-planner.jsonl"
  evaluate $case planner "${episodes[$case]}"
  record "$case-certify" certify $case --seed $seed --threads 1 "${model[@]}"
done
[ -z "${METHODS:-}" ] || exit 0
# The roll-outs that the paper draws. Their whole traces are of megabytes: what the figures show of them is kept.
for episode in ${ROLLOUTS-1 2 16}; do
  trace=$work/multiagent-moving-planner-rollout-$episode.jsonl
  rm -f "$trace"
  "$gpc" eval multiagent-moving --method planner --episodes $((episode + 1)) --shard "$episode/$((episode + 1))" --seed $seed --threads 1 --trace "$trace" >/dev/null
  "$gpc" verify "$trace" >&2
  bin/record --rollout "$trace" --out "$out/multiagent-moving-planner-rollout-$episode.json"
done
