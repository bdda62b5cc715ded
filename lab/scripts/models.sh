#!/usr/bin/env bash
# Makes the bundled models from nothing, dataset and map: lab/scripts/models.sh [CASE…], all
# the paper's six and opf-secure by default. Each model's header records the command, the seed and the commit, so
# that a program whose sources are not a commit's is refused. The maps are the same
# whatever the number of threads: two cases may be made side by side.
set -euo pipefail
cd "$(dirname "$0")/../.."
gpc=bin/gpc
case $("$gpc" doctor --json | tr -d ' \n' | grep -o '"commit":"[^"]*"') in
  *-changed* | *unknown*)
    echo "the bundled models are made by a program of a clean commit: commit, then make build" >&2
    exit 2
    ;;
esac
work=${WORK:-build/models}
mkdir -p "$work"
[ $# -gt 0 ] || set -- integrator-nonconvex opf30 opf30-uncertain multiagent-static multiagent-moving opf-secure integrator-convex
for case; do
  "$gpc" dataset "$case" --seed 1 --out "$work/$case"
  "$gpc" train "$case" --seed 1 --data "$work/$case" --out "$work/$case.safetensors" \
    --curves "$work/$case.csv"
  [ "$case" = integrator-convex ] || cp "$work/$case.safetensors" paper/models/
done
case " $* " in *" integrator-convex "*) ;; *) exit ;; esac
# The convex map goes on in three rounds: with a larger share of its errors, on more
# scenarios, and at the states that it leads itself to. The last one counts: the
# second changes its regret by nothing, the third by a fifth.
map="$work/integrator-convex.safetensors"
go_on() { # NAME DATA OPTIONS...
  local out="$work/integrator-convex-$1.safetensors" data=$2
  shift 2
  "$gpc" train integrator-convex --seed 1 --data "$data" --init "$map" --out "$out" "$@"
  map=$out
}
go_on emphasis "$work/integrator-convex" --lr 3e-4 --epochs 7 --rollout-epochs 3 --emphasis 0.7
"$gpc" dataset integrator-convex --seed 2 --scenarios 24000 --out "$work/integrator-convex-more"
go_on more "$work/integrator-convex-more" --lr 5e-4 --epochs 10 --rollout-epochs 2 --emphasis 0.7
"$gpc" dataset integrator-convex --seed 1 --policy "$map" --out "$work/integrator-convex-visited"
go_on visited "$work/integrator-convex-visited" --lr 3e-4 --epochs 8 --rollout-epochs 1 --emphasis 0.5
cp "$map" paper/models/integrator-convex.safetensors
