#!/usr/bin/env bash
# Records Algorithm 2 with steps of four sizes, from ours to the paper's Δt of 5, and without its parts at each:
# lab/scripts/steps.sh FOLDER, a folder of lab/results named for the device. Records are without times. Every row runs
# the same episodes: EPISODES (200) of Case 1, TRAJECTORIES (20) of 300 dispatches. CASES and NOISES choose. The γ_L with
# which the Lie residual moves the action by a thousandth and a hundredth of its range are those of FOLDER/latent-step.json
# (lab/run latent-step), measured on episodes of another seed without noise.
set -euo pipefail
cd "$(dirname "$0")/../.."
. lab/scripts/record.sh
ANY_LOAD=1 # nothing is timed
out=$1
gain() { # CASE Δt SHARE: of that record, to three digits
  python3 - "$out/latent-step.json" "BenchmarkLatentStep/$1/noise_0/step_$2" "gain_$3_%" <<'PYTHON'
import json, sys
file, name, metric = sys.argv[1:]
print("%.3g" % next(b["metrics"][metric] for b in json.load(open(file))["benchmarks"] if b["name"] == name))
PYTHON
}
steps() { # CASE EXACT Δt… -- OPTIONS...
  local case=$1 exact=$2 sizes=() noise size
  shift 2
  while [ "$1" != -- ]; do sizes+=("$1"); shift; done
  shift
  for noise in $noises; do
    for size in "${sizes[@]}"; do
      record "$case-step-$size-noise-$noise" eval pair "$case" --methods "navigator,direct,$exact" --first-constant "latent-step=$size" \
        --constant lie-gain=0 --constant retraction=0 --constant raw-weights=1 --constant "lie-gain=$(gain "$case" "$size" 0.1)" --constant "lie-gain=$(gain "$case" "$size" 1)" \
        --noise "$noise" --threads 1 --untimed "$@"
    done
  done
}
for case in ${CASES:-integrator-convex integrator-nonconvex opf30 opf30-uncertain}; do
  case $case in
    integrator-*)
      noises=${NOISES:-"0 0.02"}
      steps $case nmpc 0.005 0.05 0.5 5 -- --constant smoothing=1 --seed 7 --episodes "${EPISODES:-200}"
      # The ellipse as the limit where it is when the robot gets there: plant, projection and solver know it.
      record "$case-obstacle-age-0" eval pair $case --methods direct,navigator,nmpc --seed 7 --episodes "${EPISODES:-200}" --shift obstacle-age=0 --threads 1 --untimed
      ;;
    opf30*)
      noises=${DISPATCH_NOISES:-"0 0.002"}
      steps $case mo-opf 0.002 0.02 0.2 5 -- --seed 11 --episodes "${TRAJECTORIES:-20}" --regime envelope
      ;;
  esac
done
