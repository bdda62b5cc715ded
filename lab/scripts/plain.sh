#!/usr/bin/env bash
# Records what the geometry of a map is worth: lab/scripts/plain.sh FOLDER [CASE…], a folder of
# lab/results named for the device. On SHARE percent (2, of opf30 5) of a case's scenarios two maps are trained
# in WORK (build/plain): one by the paper's losses, one plain, by the action loss alone in as many
# epochs. Both, and the bundled map, drive the same episodes by `direct`. The same command goes on;
# records are without times.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
ANY_LOAD=1 # nothing is timed
out=$1
work=${WORK:-build/plain}
mkdir -p "$out" "$work"
shift
[ $# -gt 0 ] || set -- integrator-convex opf30 integrator-nonconvex opf30-uncertain
map() { # KIND OPTIONS…: of $case
  local file=$work/$case-$1.safetensors
  shift
  [ -s "$file" ] || "$gpc" train "$case" --seed 1 --threads 1 --resume --data "$work/$case" --out "$file" "$@" >/dev/null
}
pairing() { # NAME OPTIONS…: of $case
  local name=$1
  shift
  [ -s "$out/$name.json" ] || record "$name" eval pair "$case" --methods "direct=$work/$case-structured.safetensors,direct,direct=paper/models/$case.safetensors" \
    --model "$work/$case-plain.safetensors" --threads 1 --untimed "$@"
}
for case; do
  case $case in
    integrator-*) all=9500 share=${SHARE:-2} epochs=(--epochs 40) ;; # 36 and 4 of rollout-aware refinement
    *) all=5000 share=${SHARE:-5} epochs=() ;;
  esac
  [ -s "$work/$case-structured.safetensors" ] || "$gpc" dataset "$case" --seed 1 --scenarios $((all * share / 100)) --threads 1 --out "$work/$case" >/dev/null
  map structured
  map plain --plain "${epochs[@]}"
  case $case in
    integrator-*) pairing "plain-$case" --seed 7 --episodes "${EPISODES:-1000}" ;;
    *) for regime in paper envelope; do pairing "plain-$case-$regime" --seed 11 --episodes "${TRAJECTORIES:-20}" --regime $regime; done ;;
  esac
done
