#!/usr/bin/env bash
# What the learned map contributes to Case 2: cost at equal numbers of candidates,
# with latents among them, with a search over latents and without, on the same
# validation scenes, with the time of a decision beside it.
#   scripts/candidates-multiagent.sh CASE EPISODES [SEED]
# prints the comparison and, with RESULTS, records it there for the report, which
# says how many candidates without latents each number with them is worth. Costs are
# over the episodes in which every run is safe: with moving obstacles the default
# leaves out the numbers at which hardly any is without latents. MODEL is a model
# file in place of the bundled one, BUDGETS the numbers, WORK the folder of the
# traces; started again, it continues where it was interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/record.sh
case=$1 episodes=$2 seed=${3:-993}
work=${WORK:-build/candidates}
budgets=${BUDGETS:-4096 1536 768 384 192 96}
[ "$case" != multiagent-moving ] || budgets=${BUDGETS:-4096 1536 768 384}
mkdir -p "$work"
[ -x "$work/gpc" ] || cp "$gpc" "$work/gpc"
gpc=$work/gpc
traces=()
run() { # METHOD
  local trace=$work/$case-$seed-$1.jsonl model=()
  case $1 in gpc-no-latent*) ;; *) [ -z "${MODEL:-}" ] || model=(--model "$MODEL") ;; esac
  echo "$1" >&2
  "$gpc" eval "$case" --method "$1" --episodes "$episodes" --seed "$seed" --resume "${model[@]}" --trace "$trace" >/dev/null
  traces+=("$trace")
}
# The first is what the others are compared with.
for with in gpc-no-latent gpc gpc-latent-search; do
  for n in $budgets; do
    suffix=-$n
    [ "$n" != 4096 ] || suffix=
    run "$with$suffix"
  done
done
"$gpc" eval compare "${traces[@]}"
if [ -n "${RESULTS:-}" ]; then
  out=$RESULTS
  mkdir -p "$out"
  record "$case-candidates" eval compare "${traces[@]}"
fi
