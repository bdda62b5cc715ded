#!/usr/bin/env bash
# Submits dataset array → merge → train → eval array → join as one chain of dependent
# Slurm jobs, and prints their numbers: lab/scripts/slurm/chain.sh CASE. The same command with
# the same WORK goes on where a chain ended; what is done is not done again.
#
#   WORK           folder of everything, on a file system that all nodes share and that has
#                  locks (${SCRATCH:-out}/gpc-CASE); the result is WORK/evaluation.json
#   GPC            the program (bin/gpc), copied to WORK: one chain, one program
#   SHARDS         tasks of the dataset (16)      EVAL_SHARDS  of the evaluation (16)
#   SCENARIOS      of the dataset (the case's)    EPISODES     of the evaluation (1000)
#   METHOD         that is evaluated (gpc)        CPUS         of a task (1), TRAIN_CPUS (4)
#   SEED           of data and training (1)       EVAL_SEED    of the episodes (2)
#   DATASET_FLAGS, TRAIN_FLAGS, EVAL_FLAGS        further flags of gpc
#   DATASET_TIME, TRAIN_TIME, EVAL_TIME           limits of one run of a task (4:00:00)
#   RESTARTS       how often a task is requeued at most (100)
#
# Account, partition and the like are sbatch's own: SBATCH_ACCOUNT, SBATCH_PARTITION,
# SBATCH_CONSTRAINT. Nodes of one make give one instruction set and one device, which the
# parts have to agree in.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# = 1 ] || { sed -n '2,/^set/{/^set/!p}' "$0" >&2; exit 2; }
export CASE=$1 GPC_SLURM=$here
export SHARDS=${SHARDS:-16} EVAL_SHARDS=${EVAL_SHARDS:-16} EPISODES=${EPISODES:-1000} METHOD=${METHOD:-gpc}
export SEED=${SEED:-1} EVAL_SEED=${EVAL_SEED:-2} RESTARTS=${RESTARTS:-100}
export DATASET_FLAGS="${SCENARIOS:+--scenarios $SCENARIOS }${DATASET_FLAGS:-}" TRAIN_FLAGS=${TRAIN_FLAGS:-} EVAL_FLAGS=${EVAL_FLAGS:-}
work=${WORK:-${SCRATCH:-$here/../../../out}/gpc-$CASE}
mkdir -p "$work/data" "$work/eval" "$work/log"
work=$(cd "$work" && pwd)
[ -x "$work/gpc" ] || cp "${GPC:-$here/../../../bin/gpc}" "$work/gpc"
after= # the job before
submit() { # NAME OPTION...
  local name=$1 log=%x-%j.log job
  shift
  case " $* " in *" --array="*) log=%x-%a.log ;; esac
  job=$(sbatch --parsable --export=ALL --chdir="$work" --output="log/$log" ${after:+--dependency=afterok:"$after" --kill-on-invalid-dep=yes} "$@" "$here/$name.sbatch")
  after=${job%%;*}
  echo "$name $after"
}
submit dataset --array="0-$((SHARDS - 1))" --cpus-per-task="${CPUS:-1}" --time="${DATASET_TIME:-4:00:00}"
submit merge
submit train --cpus-per-task="${TRAIN_CPUS:-4}" --time="${TRAIN_TIME:-4:00:00}"
submit eval --array="0-$((EVAL_SHARDS - 1))" --cpus-per-task="${CPUS:-1}" --time="${EVAL_TIME:-4:00:00}"
submit join
