#!/usr/bin/env bash
# Records the dispatch runs behind the report: scripts/results-opf.sh FOLDER, a
# folder of bench/results named for the device. The seed was used for nothing
# else. The two cases run side by side, each on one core; latencies want a machine
# that does nothing else, everything but them is the same on every machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/record.sh
out=$1
seed=11
episodes=${EPISODES:-20}
mkdir -p "$out"
case_runs() {
  local case=$1
  for regime in paper envelope swing; do
    for method in gpc direct gpc-polish gpc-refine-64 gpc-refine-512 $("$gpc" methods "$case" --group ablation,baseline --bundled --names | grep -v -- -no-rollout); do # the maps do not hold that D_u
      record "$case-$regime-$method" eval $case --method $method --regime $regime --episodes $episodes --seed $seed --threads 1
    done
  done
  for method in gpc direct; do
    record "$case-envelope-$method-noise-0.002" eval $case --method $method --regime envelope --episodes $episodes --seed $seed --threads 1 --noise 0.002
  done
  record "$case-steer" steer $case --seed $seed --divisions 8 --episodes 2 --threads 1
  for method in direct gpc-refine-64 gpc-refine-512; do
    record "$case-steer-$method" steer $case --method $method --seed $seed --divisions 8 --episodes 2 --threads 1
  done
  record "$case-certify" certify $case --seed $seed --threads 1
}
case_runs opf30 &
case_runs opf30-uncertain &
wait -n
wait -n
for method in gpc direct; do
  record "opf30-uncertain-envelope-hidden-$method" eval opf30-uncertain --method $method --regime envelope-hidden --episodes $episodes --seed $seed --threads 1
done
