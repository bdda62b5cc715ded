#!/usr/bin/env bash
# Records exact solver, projection, direct and search from 30 to 1354 buses and writes the
# table of docs/opf.md: scripts/networks.sh FOLDER. Every network gets a small map of
# its own. Hours on two cores, and the same command continues; the times want a machine that
# does nothing else. case1354pegase is MATPOWER's (make matpower).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/record.sh
out=$1
mkdir -p "$out" build/networks
seed=11
export GOMAXPROCS=1
# name, file, loads, levels, scenarios, epochs, episodes
networks="
case30 case30.m envelope 0.6:1.05 400 24 4
case118 case118.m envelope:0.7:1 0.65:1.05 200 16 4
pglib118 pglib_opf_case118_ieee.m envelope:0.75:0.98 0.7:1.02 200 16 4
pglib300 pglib_opf_case300_ieee.m envelope:0.92:1 0.88:1.02 120 12 2
case1354 build/matpower/matpower/data/case1354pegase.m envelope:0.9:1 0.88:1.02 24 8 1
"
echo "$networks" | while read -r name file regime levels scenarios epochs episodes; do
  [ -n "$name" ] || continue
  map=build/networks/$name.safetensors
  if [ ! -e "$map" ]; then
    "$gpc" dataset "opf:$file" --scenarios "$scenarios" --weights 2 --range "level=$levels" --seed 1 --out "build/networks/$name"
    "$gpc" train "opf:$file" --data "build/networks/$name" --epochs "$epochs" --seed 1 --out "$map"
  fi
  for method in mo-opf direct gpc-refine-64; do
    [ -e "$out/networks-$name-$method.json" ] ||
      record "networks-$name-$method" eval "opf:$file" --method $method --model "$map" --regime "$regime" --episodes "$episodes" --seed $seed --threads 1
  done
done
[ -e "$out/networks.bench" ] || { go test ./domains/opf -run '^$' -bench Networks -benchtime 200x >"$out/networks.bench.new" && mv "$out/networks.bench.new" "$out/networks.bench"; }
python3 scripts/networks.py "$out" docs/opf.md
