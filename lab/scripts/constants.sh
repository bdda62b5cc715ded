#!/usr/bin/env bash
# Records the paper's constants in place of ours, and Case 1 without its projection:
# lab/scripts/constants.sh FOLDER, a folder of lab/results named for the device. Records are without
# times. The maps that it needs are made in WORK (build/constants) where they are missing,
# each from a part of the data: SCENARIOS (950) of Case 1, whose full size is 9500, with targets
# of the case and with targets that keep off every limit by 0.01, as the paper tightens; of opf30
# all 5000 with uniform weights, and FEW (250) with the case's and with 500 epochs.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
ANY_LOAD=1 # nothing is timed
out=$1
work=${WORK:-build/constants}
mkdir -p "$out" "$work"
dataset() { # CASE NAME OPTIONS...
  local case=$1 data=$work/$2
  shift 2
  "$gpc" dataset "$case" --seed 1 --threads 1 --out "$data" "$@" >/dev/null
}
map() { # CASE NAME DATA OPTIONS...
  local case=$1 file=$work/$2.safetensors data=$work/$3
  shift 3
  [ ! -s "$file" ] || return 0
  "$gpc" train "$case" --seed 1 --threads 1 --data "$data" --out "$file" "$@" >/dev/null
}
pairing() { # NAME CASE OPTIONS...
  local name=$1
  shift
  record "$name" eval pair "$@" --threads 1 --untimed
}
for case in integrator-convex integrator-nonconvex; do
  of_case=(--seed 7 --episodes "${EPISODES:-200}")
  for kind in inward lifted; do
    inward=()
    [ $kind = lifted ] || inward=(--inward 0.01)
    [ -s "$work/$case-$kind.safetensors" ] || dataset $case $case-$kind --scenarios "${SCENARIOS:-950}" "${inward[@]}"
    map $case $case-$kind $case-$kind
    pairing $case-projection-$kind $case --methods navigator,navigator-no-projection --model "$work/$case-$kind.safetensors" "${of_case[@]}"
  done
  pairing $case-projection $case --methods navigator,navigator-no-projection "${of_case[@]}"
  replaced=(--methods navigator --constant epsilon=0.05 --constant latent-step=5 --constant top-k=3)
  pairing $case-constants $case "${replaced[@]}" "${of_case[@]}"
  pairing $case-constants-noise $case "${replaced[@]}" --noise 0.02 "${of_case[@]}"
done
of_case=(--seed 11 --episodes "${TRAJECTORIES:-20}" --regime envelope)
replaced=(--methods navigator --constant epsilon=0.05 --constant smoothing=0.3 --constant latent-step=5 --constant top-k=3)
pairing opf30-constants opf30 "${replaced[@]}" "${of_case[@]}"
pairing opf30-constants-noise opf30 "${replaced[@]}" --noise 0.002 "${of_case[@]}"
[ -s "$work/opf30-uniform.safetensors" ] || dataset opf30 opf30-uniform --design uniform
map opf30 opf30-uniform opf30-uniform
pairing opf30-uniform opf30 --methods navigator=paper/models/opf30.safetensors,navigator --model "$work/opf30-uniform.safetensors" "${of_case[@]}"
[ -s "$work/opf30-long.safetensors" ] || dataset opf30 opf30-short --scenarios "${FEW:-250}"
map opf30 opf30-short opf30-short
map opf30 opf30-long opf30-short --epochs 500
pairing opf30-long opf30 --methods "navigator=$work/opf30-short.safetensors,navigator" --model "$work/opf30-long.safetensors" "${of_case[@]}"
