#!/usr/bin/env bash
# Records methods of opf30 at fixed weightings of its objectives: lab/scripts/weightings.sh FOLDER, a
# folder of lab/results named for the device. Under its own priority the objectives other than cost
# are next to nothing of J_total; at these weightings they are not. Records are without times.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
ANY_LOAD=1 # nothing is timed
out=$1
mkdir -p "$out"
for w in 0.25,0.25,0.5 0.5,0.25,0.25 0.5,0.5,0 1,0,0; do
  name=opf30-weighting-${w//,/-}
  [ -s "$out/$name.json" ] || record "$name" eval pair opf30 --methods mo-opf,direct,navigator,runopf,merit,hold --preference $w \
    --seed 11 --episodes "${TRAJECTORIES:-5}" --regime envelope --threads 1 --untimed
done
