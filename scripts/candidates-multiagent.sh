#!/usr/bin/env bash
# What the learned map contributes to Case 2: cost at equal numbers of candidates,
# with latents among them and without, on the same validation scenes, and how many
# candidates without latents the cost of each number with them is worth.
#   scripts/candidates-multiagent.sh CASE EPISODES [SEED]
# Costs are over the episodes in which every run is safe: with moving obstacles the
# default leaves out the numbers at which hardly any is without latents. MODEL is a
# model file in place of the bundled one, BUDGETS the numbers, WORK the folder of the
# traces; started again, it continues where it was interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
case=$1 episodes=$2 seed=${3:-993}
work=${WORK:-build/candidates}
budgets=${BUDGETS:-96 192 384 768 1536 4096}
[ "$case" != multiagent-moving ] || budgets=${BUDGETS:-384 768 1536 4096}
mkdir -p "$work"
[ -x "$work/gpc" ] || cp bin/gpc "$work/gpc"
model=()
[ -z "${MODEL:-}" ] || model=(--model "$MODEL")
traces=()
for with in gpc-no-latent gpc; do
  for n in $budgets; do
    method=$with-$n options=()
    [ "$n" != 4096 ] || method=$with
    [ "$with" != gpc ] || options=("${model[@]}")
    trace=$work/$case-$seed-$method.jsonl
    echo "$method" >&2
    "$work/gpc" eval "$case" --method "$method" --episodes "$episodes" --seed "$seed" --resume "${options[@]}" --trace "$trace" >/dev/null
    traces+=("$trace")
  done
done
"$work/gpc" eval compare "${traces[@]}" | tee "$work/$case-$seed.txt"
# The cost without latents is taken as linear in log N between the numbers run.
awk '
$1 ~ /^multiagent/ && $5 == 0 { print "no episode is safe in every run"; none = 1; exit }
$1 ~ /^multiagent/ {
  n = $2; sub(/.*-/, "", n); n = n ~ /^[0-9]+$/ ? n : 4096
  if ($2 ~ /no-latent/) { size[++k] = n; cost[k] = $6 } else { own[++m] = n; paid[m] = $6 }
}
END {
  if (none) exit 1
  print ""
  for (i = 1; i <= m; i++) {
    word = "less than"; equal = size[1]
    for (j = 1; j <= k && cost[j] > paid[i]; j++) { word = "more than"; equal = size[j] }
    if (word == "more than" && j <= k) {
      word = "as much as"
      equal = exp(log(size[j-1]) + (log(size[j]) - log(size[j-1])) * (cost[j-1] - paid[i]) / (cost[j-1] - cost[j]))
    }
    printf "%4d candidates with latents are worth %s %.0f without: factor %.1f\n", own[i], word, equal, equal / own[i]
  }
}' "$work/$case-$seed.txt"
