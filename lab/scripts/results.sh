#!/usr/bin/env bash
# Records the runs behind the report: lab/scripts/results.sh FOLDER, a folder of
# lab/results named for the device. The seed was used for nothing else. One run
# follows another, so that none disturbs the times of another.
# Everything but the latencies is the same on every machine. Methods with fewer
# episodes than navigator's have the first of them, and the report compares on those.
# EPISODES (1000) scales all.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
out=$1
seed=7
all=${EPISODES:-1000}
mkdir -p "$out"
first() { echo $(($1 < all ? $1 : all)); }
case_runs() {
  local case=$1
  for method in navigator direct polish refine-64 refine-512; do
    record "$case-$method" eval "$case" --method $method --episodes "$all" --seed $seed --threads 1
  done
  local method episodes
  for method in $("$gpc" methods "$case" --group exact,ablation,baseline --bundled --names); do
    episodes=$(first 200)
    case $method in
      nmpc) episodes=$all ;;       # as many as the map that it stands beside
      dp) episodes=$(first 50) ;; # half a second a decision
    esac
    record "$case-$method" eval "$case" --method "$method" --episodes $episodes --seed $seed --threads 1
  done
  for noise in 0.02 0.05; do
    for method in navigator navigator-observer direct; do
      record "$case-$method-noise-$noise" eval "$case" --method $method --episodes "$(first 100)" --seed $seed --threads 1 --noise $noise
    done
  done
  rm -f "$out/$case-navigator.jsonl.gz"
  "$gpc" eval "$case" --method navigator --episodes "$(first 12)" --seed $seed --trace "$out/$case-navigator.jsonl" >/dev/null
  "$gpc" verify "$out/$case-navigator.jsonl"
  gzip -9n "$out/$case-navigator.jsonl"
  record "$case-steer" steer "$case" --seed $seed --episodes "$(first 20)"
  for method in direct refine-64; do
    record "$case-steer-$method" steer "$case" --method $method --seed $seed --episodes "$(first 20)"
  done
  record "$case-certify" certify "$case" --seed $seed --threads 1
}
for case in integrator-convex integrator-nonconvex; do
  case_runs $case
done
record bench bench
for case in integrator-convex opf30; do
  record "bench-refine-$case" bench refine --case $case
done
record scaling bench scaling --out "$out"
record bench-train-epochs bench train-epochs
