#!/usr/bin/env bash
# Records what the learned map is worth in Case 2: lab/scripts/candidates-multiagent.sh
# FOLDER [CASE…], a folder of lab/results named for the device, both cases by
# default. The planner with the map stands beside itself without it, the latents' share
# given to the primitives or to the descents, on the same episodes of a seed that is
# used for nothing else: with as many candidates, and with as many as take its time, one
# method after another in one run. How many those are is found on EPISODES of another seed,
# in two runs: they are rounded to whole blocks of sixteen.
# UNTIMED=1 records the first comparison alone and no times, on a machine that does other work.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
out=$1
shift
[ -z "${UNTIMED:-}" ] || ANY_LOAD=1
seed=31 pilot_seed=993
episodes=${EPISODES:-100} pilot_episodes=${PILOT_EPISODES:-10}
work=${WORK:-build/candidates}
mkdir -p "$out" "$work"
[ $# -gt 0 ] || set -- multiagent-static multiagent-moving
# means prints the mean times of a decision in a record, µs, in the order of its methods.
means() { tr -d ' \n' <"$1" | grep -o '"latency_mean_us":[0-9.e+]*' | cut -d: -f2; }
# as_long CASE PREFIX NUMBER prints the methods without the map with as many candidates as take
# the time of NUMBER with it. A time is taken as a power of the number, between NUMBER and
# eight times it.
as_long() {
  local with=planner@$3 without methods=
  for without in primitives descents; do
    local m=planner-no-latent-$without
    (out=$work; record "$2-$without" eval pair "$1" --methods "$with,$m@$3,$m@$((8 * $3))" --episodes "$pilot_episodes" --seed $pilot_seed --threads 1)
    methods+=,$m@$(means "$work/$2-$without.json" | awk -v n="$3" '{ t[NR] = $1 } END { if (NR != 3) exit 1; print 16 * int(n * exp(log(t[1] / t[2]) / log(t[3] / t[2]) * log(8)) / 16 + 0.5) }')
  done
  echo "$methods"
}
for case; do
  for n in 4096 384; do
    with=planner suffix=
    [ $n = 4096 ] || with=planner@$n suffix=-$n
    methods=$with
    for without in primitives descents; do
      methods+=,planner-no-latent-$without
      [ $n = 4096 ] || methods+=@$n
    done
    [ -n "${UNTIMED:-}" ] || methods+=$(as_long "$case" "$case$suffix" $n)
    record "$case-candidates$suffix" eval pair "$case" --methods "$methods" --episodes "$episodes" --seed $seed --threads 1 ${UNTIMED:+--untimed}
  done
done
