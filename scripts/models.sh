#!/usr/bin/env bash
# Makes the bundled models from nothing, dataset and map. Each model's header
# records the command and the seed.
set -euo pipefail
cd "$(dirname "$0")/.."
gpc=bin/gpc
work=${WORK:-build/models}
mkdir -p "$work"
for case in integrator-convex integrator-nonconvex opf30 opf30-uncertain; do
  $gpc dataset $case --seed 1 --out "$work/$case"
  $gpc train $case --seed 1 --data "$work/$case" --out "$work/$case.safetensors" \
    --curves "$work/$case.csv"
  cp "$work/$case.safetensors" models/
done
# The convex map is trained on once more with a larger share of its errors.
$gpc train integrator-convex --seed 1 --data "$work/integrator-convex" --init "$work/integrator-convex.safetensors" \
  --lr 3e-4 --epochs 7 --rollout-epochs 3 --emphasis 0.7 --out "$work/integrator-convex-2.safetensors"
cp "$work/integrator-convex-2.safetensors" models/integrator-convex.safetensors
