#!/usr/bin/env bash
# Compiles every system of the gallery with three seeds and tests a plain network of the same size beside
# each map: lab/scripts/trainings.sh FOLDER. Reports are FOLDER/trainings/compile-NAME-seedN.json, one that is there is
# kept; maps are kept in MAPS (build/trainings). Budgets are those of systems.sh over SHARE (3), in CPU time of two cores
# whatever THREADS (1) there are, so the machine may do other work and the run may be stopped and continued.
# SYSTEMS="cstr hvac" are these alone, SEEDS="1 2 3" those of each. Hours, and the same command continues.
set -euo pipefail
cd "$(dirname "$0")/../.."
gpc=${GPC:-bin/gpc}
out=$1/trainings
maps=${MAPS:-build/trainings}
threads=${THREADS:-1}
mkdir -p "$out" "$maps"
while read -r -u 3 name target tail budget _; do
  [[ " ${SYSTEMS:-$name} " == *" $name "* ]] || continue
  for seed in ${SEEDS:-1 2 3}; do
    record=$out/compile-$name-seed$seed.json
    map=$maps/$name-seed$seed.safetensors
    [ ! -e "$record" ] || continue
    if [ ! -e "$map.report.json" ]; then
      # A target that is missed is exit code 1, and a report all the same.
      "$gpc" compile "$name" --target "$target" --tail "$tail" --budget "$((${budget%m} * 2 * 60 / threads / ${SHARE:-3}))s" --budget-cpu --plain \
        --seed "$seed" --threads "$threads" --out "$map" || [ -e "$map.report.json" ]
    fi
    "${PYTHON:-python3}" -m json.tool --compact "$map.report.json" "$record.new"
    mv "$record.new" "$record"
  done
done 3< <(lab/scripts/systems.sh | sort -s -n -k4,4) # the cheapest first
