#!/usr/bin/env bash
# Records the dispatch runs behind the report: lab/scripts/results-opf.sh FOLDER, a
# folder of lab/results named for the device. The seed was used for nothing
# else. One run follows another, so that none disturbs the times of another; everything but
# times is the same on every machine.
# The bundled maps have no rollout-aware refinement (docs/results/dispatch.md): for what it is worth
# to the adaptive priority the same recipe with two epochs of it makes maps in WORK
# (build/opf) where they are missing, on SCENARIOS (5000) of data; 0 leaves that out.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
out=$1
seed=11
episodes=${EPISODES:-20}
scenarios=${SCENARIOS:-5000}
work=${WORK:-build/opf}
mkdir -p "$out" "$work"
refined() { # CASE
  local map=$work/$1-rollout regime
  if [ ! -s "$map.safetensors" ]; then
    echo "training $1 with rollout-aware refinement" >&2
    "$gpc" dataset "$1" --scenarios "$scenarios" --seed 1 --threads 1 --out "$map-data" >/dev/null 2>&1
    "$gpc" train "$1" --seed 1 --threads 1 --rollout-epochs 2 --data "$map-data" --out "$map.new" >/dev/null 2>&1
    mv "$map.new" "$map.safetensors"
  fi
  for regime in paper envelope swing; do
    record "$1-$regime-rollout" eval pair "$1" --methods navigator,navigator-no-rollout --model "$map.safetensors" --regime $regime --episodes $episodes --seed $seed --threads 1
  done
}
case_runs() {
  local case=$1
  for regime in paper envelope swing; do
    for method in navigator direct polish refine-64 refine-512 $("$gpc" methods "$case" --group ablation,baseline --bundled --names | grep -v -- -no-rollout); do # the bundled maps do not hold that D_u
      record "$case-$regime-$method" eval $case --method $method --regime $regime --episodes $episodes --seed $seed --threads 1
    done
  done
  for method in navigator direct; do
    record "$case-envelope-$method-noise-0.002" eval $case --method $method --regime envelope --episodes $episodes --seed $seed --threads 1 --noise 0.002
  done
  record "$case-steer" steer $case --seed $seed --divisions 8 --episodes 2 --threads 1
  for method in direct refine-64 refine-512; do
    record "$case-steer-$method" steer $case --method $method --seed $seed --divisions 8 --episodes 2 --threads 1
  done
  record "$case-certify" certify $case --seed $seed --threads 1
  [ "$scenarios" = 0 ] || refined "$case"
}
case_runs opf30
case_runs opf30-uncertain
for method in navigator $("$gpc" methods opf30-uncertain --group baseline --bundled --names) direct; do
  record "opf30-uncertain-envelope-hidden-$method" eval opf30-uncertain --method $method --regime envelope-hidden --episodes $episodes --seed $seed --threads 1
done
record opf30-uncertain-envelope-estimated eval pair opf30-uncertain --methods direct,navigator,mo-opf-tightened,mo-opf,merit --regime envelope-estimated --episodes $episodes --seed $seed --threads 1 --untimed
