# Sourced by the batch scripts of this folder: `run ARGUMENTS…` runs gpc to its end, hands on
# the signals that Slurm sends to a batch script, and requeues the job where gpc ends with
# exit code 75 or was killed, RESTARTS times at most. Any other code ends the job.
child=
hand_on() { [ -z "$child" ] || kill "-$1" "$child" 2>/dev/null || true; }
trap 'hand_on USR1' USR1
trap 'hand_on TERM' TERM INT

run() {
  local code=0 job=$SLURM_JOB_ID
  echo "$(date -Is) $(hostname) restart ${SLURM_RESTART_COUNT:-0}: gpc $*" >&2
  ./gpc "$@" --requeue &
  child=$!
  wait "$child" || code=$?
  while [ $code -gt 128 ] && kill -0 "$child" 2>/dev/null; do # a signal ended the wait, not gpc
    code=0
    wait "$child" || code=$?
  done
  child=
  [ $code != 0 ] || return 0
  echo "$(date -Is) gpc ended with exit code $code" >&2
  if [ $code != 75 ] && [ $code -le 128 ]; then
    exit $code
  fi
  # By its number alone the last task of an array is the whole array.
  [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  # A job that is being cancelled would come back, a preempted one does so by itself.
  if [ "$(squeue --noheader --jobs "$job" --format %T)" != RUNNING ]; then
    exit $code
  fi
  if [ "${SLURM_RESTART_COUNT:-0}" -ge "$RESTARTS" ]; then
    echo "not requeued: restarted $SLURM_RESTART_COUNT times" >&2
    exit 1
  fi
  scontrol requeue "$job" >&2
  exit $code
}
