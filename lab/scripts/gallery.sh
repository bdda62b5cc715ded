#!/usr/bin/env bash
# Compiles every system of the gallery and records what its map reaches, and what other
# methods do on the same episodes: lab/scripts/gallery.sh FOLDER. Maps are kept in MAPS
# (build/gallery); a system that has a map there with its report is not compiled again.
# The recorded map is then the one that the program carries.
# ONLY="cstr hvac" are these alone, EPISODES (100) those of the comparison. With SHARE=3 maps are
# compiled in a third of the time, and what they reach is all that is recorded. Hours on two cores, and
# the same command continues; the times want a machine that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
out=$1
maps=${MAPS:-build/gallery}
all=${EPISODES:-100}
mkdir -p "$out" "$maps"
while read -r -u 3 name target tail budget few solved; do
  [[ " ${ONLY:-$name} " == *" $name "* ]] || continue
  map=$maps/$name.safetensors
  if [ ! -e "$map.report.json" ]; then
    # A target that is missed is exit code 1, and a report all the same.
    "$gpc" compile "$name" --target "$target" --tail "$tail" --budget "$((${budget%m} / ${SHARE:-1}))m" --seed 1 --out "$map" || [ -e "$map.report.json" ]
  fi
  cp "$map.report.json" "$out/compile-$name.json"
  [ "${SHARE:-1}" = 1 ] || continue
  few=$((few < all ? few : all)) solved=$((solved < all ? solved : all))
  # The method that the map was compiled for is always among them.
  chosen=$(sed -n '/"test": {/,/}/s/.*"method": "\(.*\)",/\1/p' "$map.report.json" | head -n 1)
  methods="direct,direct-no-guard,polish-ahead:$solved,refine-64:$few,refine-64-ahead:$few,refine-64-polish-ahead:$few,nmpc:$solved,nmpc-ahead:$solved,mpc-10:$solved,online,hold"
  case ",$methods," in *",$chosen"[:,]*) ;; *) methods="$methods,$chosen:$few" ;; esac
  [ -e "$out/gallery-$name.json" ] ||
    record "gallery-$name" eval pair "$name" --model "$map" --episodes "$all" --seed 7 --threads 1 \
      --methods "$methods"
  # What the map and its rivals cost in as many episodes as a map is tested on; the machine may be busy.
  [ -e "$out/gallery-$name-thousand.json" ] ||
    "$gpc" eval pair "$name" --model "$map" --episodes 1000 --seed 7 --threads 1 --parallel "$(nproc)" --untimed --json \
      --methods "$(printf '%s\n' direct "$chosen" nmpc nmpc-ahead | awk '!seen[$0]++' | paste -sd,)" >"$out/gallery-$name-thousand.json.new"
  [ ! -e "$out/gallery-$name-thousand.json.new" ] || mv "$out/gallery-$name-thousand.json.new" "$out/gallery-$name-thousand.json"
  [ -e "$out/gallery-$name-steer.json" ] || record "gallery-$name-steer" steer "$name" --model "$map" --divisions 4 --episodes 20 --seed 7
  [ -e "$out/gallery-$name-noise.json" ] ||
    record "gallery-$name-noise" eval pair "$name" --model "$map" --episodes $((solved < 20 ? solved : 20)) --seed 7 --threads 1 --noise 0.002 \
      --methods "direct,refine-64,refine-64-ahead,nmpc,nmpc-ahead"
  [ -e "$out/gallery-$name-parts.json" ] ||
    record "gallery-$name-parts" eval pair "$name" --model "$map" --episodes "$all" --seed 7 --threads 1 --methods "direct,navigator,navigator-no-lie,navigator-no-retraction"
  cp "$map" examples/gallery/models/
done 3< <(lab/scripts/systems.sh)
