#!/usr/bin/env bash
# Records what search, polish and data are worth: lab/scripts/curves.sh FOLDER [PATTERN],
# FOLDER the curves folder of a device in lab/results. One run follows another, so that
# none disturbs the times of another. The most important
# records come first, finished ones are skipped, so that the same command continues;
# PATTERN, a glob such as 'opf30-*', picks some. EPISODES (100) scales all. Maps of less
# than the full data are trained into WORK (build/curves) where they are missing:
# `lab/scripts/curves.sh maps` does that alone. The seed was used for nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
out=$1
pattern=${2:-*}
seed=${SEED:-53}
n=${EPISODES:-100}
work=${WORK:-build/curves}
mkdir -p "$work"

# Scenarios of a share of the full dataset, in percent.
scenarios() { # CASE SHARE
  case $1 in integrator-*) echo $((9500 * $2 / 100)) ;; opf30) echo $((5000 * $2 / 100)) ;; esac
}
train() { # CASE SCENARIOS
  local map=$work/$1-$2
  [ ! -s "$map.safetensors" ] || return 0
  echo "training $1 on $2 scenarios" >&2
  "$gpc" dataset "$1" --scenarios "$2" --seed 5 --threads 1 --out "$map-data" >/dev/null 2>&1
  "$gpc" train "$1" --seed 5 --threads 1 --data "$map-data" --out "$map.new" >/dev/null 2>&1
  mv "$map.new" "$map.safetensors"
}

# A record's line in the plan: name, expected seconds, case, scenarios of its map (0: the
# bundled one), arguments.
plan() { # NAME CASE SHARE EPISODES METHODS [OPTION...]
  local name=$1 case=$2 share=$3 episodes=$4 methods=$5 steps=20 seconds=6 of count ms
  shift 5
  # shellcheck disable=SC2053
  [[ $name == $pattern ]] || return 0
  [ "$case" != opf30 ] || steps=300
  for of in ${methods//,/ }; do
    count=$episodes ms=0
    [[ $of != *:* ]] || count=${of#*:}
    case $of in *-4096*) ms=77 ;; *-512*) ms=10 ;; *-64*) ms=1 ;; esac
    seconds=$((seconds + count * steps * ms / 1000))
  done
  local map=0
  [ "$share" = 0 ] || map=$(scenarios "$case" "$share")
  echo "$name $seconds $case $map --methods $methods --episodes $episodes $*"
}
least() { echo $(($1 > 2 ? $1 : 2)); }
few=$(least $((n * 3 / 10))) some=$(least $((n / 10))) five=$(least $((n / 20))) slow=$(least $((n / 5)))
base=direct,polish,refine-64,refine-512
quality() { # CASE SHARE EPISODES EPISODES-4096 EXACT
  local name=$1-quality exact=,$5
  [ "$2" = 0 ] || name=$1-data-$2 exact=
  plan "$name" "$1" "$2" "$3" "$base,refine-4096:$4,refine-64-polish$exact"
}
disturbed() { # CASE EPISODES NOISE...
  local case=$1 episodes=$2 level
  shift 2
  for level in "$@"; do
    plan "$case-noise-$level" "$case" 0 "$episodes" "$base" --noise "$level"
    plan "$case-bias-$level" "$case" 0 "$episodes" "$base" --bias "$level"
  done
}
shifted() { # CASE EPISODES PARAMETER=FACTOR...
  local case=$1 episodes=$2 of
  shift 2
  for of in "$@"; do
    plan "$case-shift-${of/=/-}" "$case" 0 "$episodes" "$base" --shift "$of"
  done
}
around() { # FACTORS PARAMETER...
  local of f
  for of in "${@:2}"; do for f in $1; do echo "$of=$f"; done; done
}
case1() {
  quality integrator-convex 0 "$n" "$slow" nmpc
  quality integrator-convex 1 "$n" "$slow" nmpc
  shifted integrator-convex "$few" ellipse=1.1 obstacle-speed=1.5
  quality integrator-nonconvex 0 "$n" "$slow" nmpc
  quality integrator-nonconvex 1 "$n" "$slow" nmpc
  for share in 10 3 30; do quality integrator-convex $share "$n" "$few" nmpc; done
  # shellcheck disable=SC2046
  shifted integrator-convex "$few" $(around '0.8 0.9 1.1 1.2' ellipse obstacle-speed input-limit slew-limit | grep -vx ellipse=1.1) \
    $(around '0.8 0.9 1.1 1.2' ellipse-major ellipse-minor)
  disturbed integrator-convex "$few" 0.005 0.02 0.05
  for share in 10 3 30; do quality integrator-nonconvex $share "$n" "$some" nmpc; done
}
opf() {
  quality opf30 0 "$some" 2 mo-opf
  quality opf30 1 "$some" 2 mo-opf
  # shellcheck disable=SC2046
  shifted opf30 "$five" $(around '0.9 1.1 0.8 1.2' line-limit load reactance ramp)
  for share in 10 3 30; do quality opf30 $share "$some" 2 mo-opf; done
  disturbed opf30 "$five" 0.001 0.002 0.005
}
maps() {
  local case
  for case in integrator-convex opf30 integrator-nonconvex; do
    for share in 1 3 10 30; do train $case "$(scenarios $case $share)"; done
  done
}
if [ "$out" = maps ]; then
  maps
  exit
fi
mkdir -p "$out"
lane() { # PLAN: what is left of it, in order
  local name seconds case map arguments left=0 expected=0 start=$SECONDS minutes
  local -a lines=()
  while read -r name seconds case map arguments; do
    [ ! -s "$out/$name.json" ] || continue
    lines+=("$name $seconds $case $map $arguments")
    left=$((left + seconds))
  done < <("$1")
  for line in "${lines[@]}"; do
    read -r name seconds case map arguments <<<"$line"
    minutes=$((left / 60 + 1))
    [ $expected = 0 ] || minutes=$((left * (SECONDS - start) / expected / 60 + 1))
    echo "$1: about $minutes min left" >&2
    local model=()
    if [ "$map" != 0 ]; then
      train "$case" "$map"
      model=(--model "$work/$case-$map.safetensors")
    fi
    # shellcheck disable=SC2086
    record "$name" eval pair "$case" $arguments "${model[@]}" --seed "$seed" --threads 1 || {
      # A shift may leave no episode that has an optimum: line limits times 0.8 do.
      rm -f "$out/$name.json.new"
      echo "$name: not recorded; bin/gpc eval pair $case $arguments --seed $seed says why" >&2
    }
    left=$((left - seconds)) expected=$((expected + seconds))
  done
}
lane case1
lane opf
