#!/usr/bin/env bash
# Runs lab/scripts/slurm/chain.sh on a Slurm of its own, one node under build/slurm with its own
# ports, kills what can be killed in the middle, and compares dataset, map and evaluation
# with what one machine makes: lab/scripts/test-slurm.sh, as root on Debian (it installs slurmctld,
# slurmd and munge where they are missing). Prints a table; exit code 1 where a row differs.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/slurm
case=opf30
export SCENARIOS=${SCENARIOS:-8000} EPISODES=${EPISODES:-24} SHARDS=4 EVAL_SHARDS=3 TRAIN_CPUS=2 CPUS=1 METHOD=refine-64
export DATASET_FLAGS="--weights 1 --chunk 100" TRAIN_FLAGS="--epochs 60 --rollout-epochs 6 --hidden 32 --latent 6"
export EVAL_FLAGS="--regime paper" SEED=991 EVAL_SEED=992
export PATH=$PATH:/usr/sbin:/sbin
log() { printf '%5ss %s\n' $((SECONDS - began)) "$*" >&2; }
began=$SECONDS
if ! command -v slurmctld slurmd munged sbatch >/dev/null; then
  apt-get update -q >&2
  # The packages' own services are not wanted.
  policy=/usr/sbin/policy-rc.d
  [ ! -e $policy ] || policy=
  [ -z "$policy" ] || install -m 755 <(printf '#!/bin/sh\nexit 101\n') $policy
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends slurmctld slurmd slurm-client munge >&2
  [ -z "$policy" ] || rm -f $policy
  log installed
fi

# The daemons, all of them children of this script.
rm -rf "$root"
mkdir -p "$root"/{state,spool,munge,one,etc}
chmod 700 "$root/munge"
dd if=/dev/urandom of="$root/munge/key" bs=128 count=1 status=none
chmod 600 "$root/munge/key"
name=$(hostname -s)
cat >"$root/etc/slurm.conf" <<C
ClusterName=gpc
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=${CONTROLLER_PORT:-16817}
SlurmdPort=${NODE_PORT:-16818}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$root/munge/socket,cred_expire=${REQUEUE_WAIT:-5}
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool
SlurmctldPidFile=$root/slurmctld.pid
SlurmdPidFile=$root/slurmd.pid
SlurmctldLogFile=$root/slurmctld.log
SlurmdLogFile=$root/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=5
KillWait=3
MinJobAge=3600
MpiDefault=none
NodeName=$name NodeAddr=127.0.0.1 CPUs=3 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
C
# No plugin above needs control groups, but slurmd loads one; cgroup/v1 asks nothing of the system.
case $(slurmd -V) in *" 22."* | *" 23.02"*) cgroup=cgroup/v1 ;; *) cgroup=disabled ;; esac
echo "CgroupPlugin=$cgroup" >"$root/etc/cgroup.conf"
export SLURM_CONF=$root/etc/slurm.conf
# The processes of jobs, by their files: gpc, the batch scripts, the daemons of their steps.
of() { find /proc/[0-9]*/exe -maxdepth 0 -lname "$1" 2>/dev/null | cut -d/ -f3 || true; } # FILE; processes come and go
tasks() { of "$root/*/gpc"; }
scripts() { local p; for p in $(of "$(readlink -f "$(command -v bash)")"); do ! grep -qa "$root/spool/.*slurm_script" "/proc/$p/cmdline" 2>/dev/null || echo "$p"; done; }
steps() { of "$stepd"; }
stepd=$(readlink -f "$(command -v slurmstepd || find / -xdev -name slurmstepd -type f 2>/dev/null | head -1)")
controller= node= munge=
start_node() {
  slurmd -D >>"$root/slurmd.out" 2>&1 &
  node=$!
}
finish() {
  local code=$?
  scancel --user=root --signal=KILL --full >/dev/null 2>&1 || true
  scancel --user=root >/dev/null 2>&1 || true
  for p in $(tasks) $(scripts) $(steps) $node $controller $munge; do kill -9 "$p" 2>/dev/null || true; done
  [ $code = 0 ] || for f in "$root"/*.log "$root"/munge.out "$root"/chain/log/*.log; do
    ! [ -e "$f" ] || { echo "== $f"; tail -n 20 "$f"; }
  done >&2
}
trap finish EXIT
munged --foreground --force --key-file="$root/munge/key" --socket="$root/munge/socket" --pid-file="$root/munge/pid" \
  --log-file="$root/munge/log" --seed-file="$root/munge/seed" >"$root/munge.out" 2>&1 &
munge=$!
until [ -S "$root/munge/socket" ]; do
  kill -0 $munge 2>/dev/null || { cat "$root/munge.out" "$root/munge/log" >&2; exit 1; }
  sleep 0.1
done
slurmctld -D >"$root/slurmctld.out" 2>&1 &
controller=$!
start_node
up=$SECONDS
until sinfo --noheader --format %t 2>/dev/null | grep -q idle; do
  kill -0 $controller 2>/dev/null && kill -0 $node 2>/dev/null || exit 1
  [ $((SECONDS - up)) -lt 60 ] || exit 1
  sleep 0.2
done
version=$(slurmctld -V)
log "$version is up"

wait_for() { # WHAT COMMAND...
  local what=$1 start=$SECONDS
  shift
  until "$@"; do
    [ $((SECONDS - start)) -lt "${PATIENCE:-180}" ] || { log "waited for $what in vain"; squeue >&2; exit 1; }
    sleep 0.1
  done
}
parts() { [ "$(find "$root/chain/data" -name '*.parquet' | wc -l)" -ge "$1" ]; }
busy() { [ "$(tasks | wc -w)" -ge "$1" ]; }
running() { [ "$(squeue --noheader --name="gpc-$1" --states=RUNNING | wc -l)" -ge "${2:-1}" ] && [ -n "$(tasks)" ]; }
restarts() { scontrol show job --oneliner | sed -n "s/.*JobName=gpc-$1 .*Restarts=\\([0-9]*\\).*/\\1/p" | awk '{ n += $1 } END { print n + 0 }'; }
restarted() { [ "$(restarts "$1")" -ge "$2" ]; }

export WORK=$root/chain GPC=${GPC:-$PWD/bin/gpc}
lab/scripts/slurm/chain.sh $case >&2
log 'chain submitted'
rows=()
row() { rows+=("| $1 | $2 | $3 |"); }

wait_for 'the first parts' parts 3
victim=$(tasks | head -1)
kill -9 "$victim"
wait_for 'its restart' restarted dataset 1
wait_for 'the restarted task' busy 3
row 'kill -9 of a task' 'dataset' 'requeued by its batch script'
log 'a task was killed'

wait_for 'tasks' running dataset 2
kill -9 $node
wait $node 2>/dev/null || true
sleep 1
start_node
row 'kill -9 of slurmd, started again' 'dataset' 'tasks went on'
log 'slurmd was killed'

wait_for 'tasks' running dataset 2
lost=$(restarts dataset)
kill -9 $node $(steps) $(scripts) $(tasks) 2>/dev/null || true
wait $node 2>/dev/null || true
wait_for 'restarts by Slurm' restarted dataset $((lost + 1))
start_node
row 'kill -9 of slurmd and of all its processes, a node that died' 'dataset' 'requeued by Slurm'
log 'the node was killed'

wait_for 'training' running train
sleep 1
job=$(squeue --noheader --name=gpc-train --format %i)
scancel --signal=USR1 --batch "$job"
wait_for 'its restart' restarted train 1
row 'SIGUSR1 to the batch script, as before a time limit' 'train' 'exit code 75, requeued, resumed'
log 'training was signalled'

wait_for 'evaluation' running eval
kill -TERM $(tasks | head -1)
wait_for 'its restart' restarted eval 1
row 'SIGTERM to a task' 'eval' 'exit code 75, requeued, resumed'
log 'an evaluation was signalled'

ended() { [ -z "$(squeue --noheader)" ]; }
wait_for 'the end of the chain' ended
log 'the chain has ended'
[ -s "$WORK/evaluation.json" ] || { log 'the chain has no result'; exit 1; }
total=$(restarts '[a-z]*')
cp "$WORK/evaluation.json" "$root/evaluation.json"
before=$(find "$WORK" -type f ! -path '*/log/*' ! -name '*.json' -exec sha256sum {} + | sort)

lab/scripts/slurm/chain.sh $case >&2
wait_for 'the end of the second chain' ended
after=$(find "$WORK" -type f ! -path '*/log/*' ! -name '*.json' -exec sha256sum {} + | sort)
again=DIFFERS
[ "$before" != "$after" ] || again=same
row 'the same chain once more' 'its files' "$again"
log 'the chain has run again'

cancelled=$(WORK=$root/cancelled SCENARIOS=100000 lab/scripts/slurm/chain.sh $case | sed -n 's/^dataset //p')
wait_for 'tasks' running dataset 3
scancel "$cancelled"
wait_for 'the end of the cancelled chain' ended
sleep 8
back=$(scontrol show job --oneliner "$cancelled" | grep -vc 'JobState=CANCELLED.* Restarts=0 ' || true)
row 'scancel of the array' 'dataset' "$([ "$back" = 0 ] && ended && echo 'cancelled, with all that depend on it' || echo "COMES BACK")"
log 'a chain was cancelled'

# The same on one machine, by the same program and, where a file names its command, by the same words.
cd "$root/one"
ln -s "$WORK/gpc" gpc
# shellcheck disable=SC2086
{
  ./gpc dataset $case --seed $SEED --scenarios "$SCENARIOS" $DATASET_FLAGS --out data/merged
  ./gpc train $case --seed $SEED --threads $TRAIN_CPUS $TRAIN_FLAGS --data data/merged --out model.safetensors --requeue
  mkdir -p eval
  ./gpc eval $case --method $METHOD --model model.safetensors --seed $EVAL_SEED --episodes "$EPISODES" $EVAL_FLAGS --trace eval/whole.jsonl
  ./gpc eval join $case eval/whole.jsonl --json >evaluation.json
} >"$root/one.log" 2>&1
log 'one machine has done the same'
code=0
case ${rows[*]} in *DIFFERS* | *'COMES BACK'*) code=1 ;; esac
same() { # WHAT COUNT COMMAND...
  local what=$1 count=$2 verdict=same
  shift 2
  "$@" >&2 || { verdict=DIFFERS code=1; }
  rows+=("| $what | $count | $verdict |")
}
# Times are measured: of a manifest all but wall_s and the seal over it, of the evaluation all but times and load.
manifests() { for f in "$1"/part-*.json; do grep -vE '"(wall_s|sha256)"' "$f"; done; }
header() { grep -vE '"(command|sha256)"' "$1/dataset.json"; }
timeless() { python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); [r.pop(k, None) for k in ("latency_us", "shares_us", "load")]; (r.get("guard") or {}).pop("rescue_worst_us", None); print(json.dumps(r))' "$1"; }
parquet() { for f in "$WORK"/data/merged/part-*.parquet; do cmp "$f" "data/merged/${f##*/}"; done; }
same 'parts of the dataset, byte for byte' "$(find data/merged -name '*.parquet' | wc -l)" parquet
same 'their manifests, but for `wall_s`' "$(find data/merged -name 'part-*.json' | wc -l)" diff <(manifests "$WORK/data/merged") <(manifests data/merged)
same 'the header, but for `command`' 1 diff <(header "$WORK/data/merged") <(header data/merged)
same 'the map, byte for byte' 1 cmp "$WORK/model.safetensors" model.safetensors
same 'the joined evaluation, but for times' "$EPISODES episodes" diff <(timeless "$WORK/evaluation.json") <(timeless evaluation.json)
cd - >/dev/null
echo
echo "$version, one node of 3 CPUs, $SCENARIOS scenarios in $SHARDS tasks, $EPISODES episodes in $EVAL_SHARDS, $total restarts, $((SECONDS - began)) s"
echo
echo '| what | where | then |'
echo '|---|---|---|'
printf '%s\n' "${rows[@]}"
exit $code
