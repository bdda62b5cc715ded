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
# Case 2: the full datasets are these commands without --shard; the bundled maps
# are made from two shards of each.
shards() { # case, number of shards
  for k in 0 1; do $gpc dataset "$1" --seed 1 --shard "$k/$2" --out "$work/$1-$k"; done
  $gpc train "$1" --seed 1 --data "$work/$1-0,$work/$1-1" --out "$work/$1.safetensors" --curves "$work/$1.csv"
  cp "$work/$1.safetensors" models/
}
shards multiagent-static 8
shards multiagent-moving 15
