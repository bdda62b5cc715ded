#!/usr/bin/env bash
# Runs conformance and benchmarks on the GPU of this machine, without Go or CUDA: NVIDIA's
# driver is enough. It keeps to a time, the most important first, and whatever fails or
# is cut short, what was written until then is in the archive.
#
#   ./run.sh OUT [--budget SECONDS] [--quick]
#
# OUT gets, as the steps go on,
#
#   state.txt       the driver, the loader's path and the devices, before anything is opened
#   steps.jsonl     every step: how it ended, its seconds, of a suite the tests by name
#   rows.jsonl      every row of a benchmark as it is measured (gpc bench --lines)
#   launches.jsonl  every launch of a step, a refinement and a training update beside its limit
#   others.jsonl    whole refinements, Go benchmarks, PyTorch and JAX, one record a line
#   tools.txt       compute-sanitizer and ncu, where they are found
#   logs.txt        what the steps said
#   results.tar.gz  these seven
#
# A second call into the same folder goes on with the steps that did not end well.
# lab/run gpu-report DIR=OUT DEVICE=name makes records of it. Exits 1 when a step failed, 2
# when time ran out before the last.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage='usage: run.sh OUT [--budget SECONDS] [--quick]'
out=${1:?$usage}
shift
budget=540 quick=
while [ $# -gt 0 ]; do
  case $1 in
    --budget) budget=${2:?$usage}; shift ;;
    --quick) quick=1 ;;
    *) echo "$usage" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
programs=$(mktemp -d)
log=$programs/step.log
failed=0 late=0

archive() {
  cd "$out" && touch state.txt steps.jsonl rows.jsonl launches.jsonl others.jsonl tools.txt logs.txt &&
    tar -czf results.tar.gz state.txt steps.jsonl rows.jsonl launches.jsonl others.jsonl tools.txt logs.txt
  rm -rf "$programs"
}
trap archive EXIT
trap 'exit 1' INT TERM

# state: printed, and kept, before anything of CUDA is opened. Nothing here ends the run.
say() { printf '\n== %s\n' "$*"; timeout 15 "$@" 2>&1 | head -n 200; }
{
  date -u
  say uname -a
  say nproc
  say nvidia-smi
  say nvidia-smi --query-gpu=name,driver_version,compute_cap,clocks.sm,clocks.mem,clocks.max.sm,power.limit,memory.total,memory.used,mig.mode.current --format=csv
  say sh -c 'nvidia-smi -q | grep -i -A4 -E "fabric|ecc mode|compute mode|mig mode"'
  say sh -c 'cat /proc/driver/nvidia/version; ls -l /dev/nvidia* /dev/nvidia-caps 2>&1'
  printf '\nLD_LIBRARY_PATH=%s\nCUDA_VISIBLE_DEVICES=%s\nNVIDIA_VISIBLE_DEVICES=%s\n' "${LD_LIBRARY_PATH-(not set)}" "${CUDA_VISIBLE_DEVICES-(not set)}" "${NVIDIA_VISIBLE_DEVICES-(not set)}"
  say sh -c 'ldconfig -p | grep -i -E "cuda|nvidia"; ls -lL /usr/local/nvidia/lib64/libcuda* /usr/lib/*-linux-gnu/libcuda* /usr/lib64/libcuda* /usr/lib/wsl/lib/libcuda* 2>/dev/null'
  say sh -c 'command -v compute-sanitizer ncu nsys nvcc python3; ls -d /usr/local/cuda*'
  say sh -c 'ldd --version | head -1'
} > "$out/state.txt" 2>&1
cat "$out/state.txt"

if ! "$here/bundle" unpack "$here/programs.tar.zst" "$programs" 2>&1 | tee -a "$out/logs.txt"; then
  exit 1
fi
gpc=$programs/gpc
commit=$("$gpc" --version | sed -n 's/.*(\(.*\)).*/\1/p')

# step NAME SECONDS COMMAND…: runs it under a timeout that the budget may shorten, and
# writes how it ended. What the command adds to the line is in $extra.
extra=
# A rehearsal asks whether everything runs, on a machine of any speed.
scale=1
[ -z "${GPC_REHEARSAL-}" ] || scale=100
step() {
  local name=$1 most=$((scale * $2)) left start=$SECONDS code
  shift 2
  if grep -q "\"step\":\"$name\",\"ok\":true" "$out/steps.jsonl" 2> /dev/null; then
    echo "$name: done before"
    return 0
  fi
  left=$((budget - SECONDS))
  if [ $left -lt 3 ]; then
    late=1
    printf '{"step":"%s","ok":false,"late":true,"seconds":0,"commit":"%s"}\n' "$name" "$commit" | tee -a "$out/steps.jsonl"
    return 1
  fi
  [ "$most" -lt $left ] || most=$left
  extra=
  timeout --kill-after=5 "$most" "$@" > "$log" 2>&1
  code=$?
  [ "$(type -t "after_${name%%-*}")" = function ] && "after_${name%%-*}"
  { printf '\n==== %s: %s\n' "$name" "$*"; head -c 4000000 "$log"; } >> "$out/logs.txt"
  printf '{"step":"%s","ok":%s,"code":%d,"seconds":%d,"limit":%d,"commit":"%s"%s}\n' \
    "$name" "$([ $code -eq 0 ] && echo true || echo false)" $code $((SECONDS - start)) "$most" "$commit" "$extra" | tee -a "$out/steps.jsonl"
  if [ $code -ne 0 ]; then
    failed=1
    tail -n 15 "$log"
  fi
  return $code
}

# names MARK: the tests that the log marks so, as JSON strings.
names() { sed -n "s/^ *--- $1: \([^ ]*\) .*/\"\1\"/p" "$log" | paste -sd, -; }
after_suite() {
  extra=$(printf ',"passed":%d,"failed":[%s],"skipped":[%s]' "$(grep -c -- '--- PASS' "$log")" "$(names FAIL)" "$(names SKIP)")
}
# keep NAME: the log's last line of JSON as a record of others.jsonl.
keep() { sed -n '/^{.*}$/p' "$log" | tail -n 1 | sed "s/^/{\"step\":\"$1\",\"record\":/; s/\$/}/" >> "$out/others.jsonl"; }

# Sizes. The rehearsal on the host shim asks whether everything runs, not how fast.
time=1s
[ -n "$quick" ] && time=100ms
few=1,64,4096 many=65536 one=4096 codes=250000 large=1048576 trained=size:opf30 conformance='TestConformance|TestTensorCore|TestOperandsOf|TestSearchOf|TestKernelsHaveNoRaces' short=(-test.short)
if [ -n "${GPC_REHEARSAL-}" ]; then
  time=1ms few=1,3 many=3 one=6 codes=500 large=9 trained=size:integrator conformance='TestConformance/(eig|index)$|TestTensorCoresAdd|TestOperandsOf|TestFaultsOf'
fi
suite() { # NAME SECONDS PROGRAM ARGUMENTS…
  local name=$1 most=$2 program=$3
  shift 3
  step "$name" "$most" env GPC_TEST_GPU=1 "$programs/$program.test" -test.v -test.timeout "$((scale * most + 60))s" "$@"
}
bench() { # NAME SECONDS ARGUMENTS…
  local name=$1 most=$2
  shift 2
  step "$name" "$most" "$gpc" bench "$@" --backend cuda --time "$time" --lines "$out/rows.jsonl"
}
refine() { # CASE FLAGS…
  local case=$1
  shift
  bench "refine-$case${1:+-tf32}" 60 refine --case "$case" --model "$programs/$case.safetensors" --batch $one "$@"
}
go_bench() { # NAME SECONDS PROGRAM PATTERN
  step "$1" "$2" env GPC_TEST_GPU=1 "$programs/$3.test" -test.run '^$' -test.bench "$4" -test.benchtime "$time" || return
  awk -v name="$1" -v commit="$commit" '
    BEGIN { printf "{\"step\":\"%s\",\"record\":{\"commit\":\"%s\",\"benchmarks\":[", name, commit }
    /^Benchmark/ && NF > 3 { printf "%s{\"name\":\"%s\",\"iterations\":%d", n++ ? "," : "", $1, $2; for (i = 3; i < NF; i += 2) printf ",\"%s\":%s", $(i + 1), $i; printf "}" }
    END { print "]}}" }' "$log" >> "$out/others.jsonl"
}

# 1. Is there a device? Where the loader finds no driver, one that lies elsewhere is tried.
doctor() { step doctor 60 "$gpc" doctor --json --backend cuda; }
if ! doctor; then
  found=$(timeout 20 find / -xdev -name 'libcuda.so.1' -not -path '*/stubs/*' 2> /dev/null | head -n 1)
  if [ -n "$found" ] && [ -z "${LD_LIBRARY_PATH-}" ]; then
    echo "again with $found" | tee -a "$out/state.txt"
    export LD_LIBRARY_PATH=${found%/*}
    doctor
  fi
fi
cp "$log" "$programs/doctor.log" && { printf '\n== gpc doctor\n'; cat "$programs/doctor.log"; } >> "$out/state.txt"
if ! grep -q '"step":"doctor","ok":true' "$out/steps.jsonl"; then
  "$gpc" doctor 2>&1 | tee -a "$out/state.txt"
  exit 1
fi

# 2. Are its results right? The operations and the tensor cores' products first.
suite suite-operations 150 kernels "${short[@]}" -test.run "$conformance"

# 3. How long do a step, its launches, refinements and a training update take?
bench step-opf30-size 60 step --case size:opf30 --batch $few
bench step-integrator 60 step --case integrator-convex --batch $few
step launches-step 60 "$gpc" bench kernels --case size:opf30 --batch $one,1 --backend cuda --time "$time" --lines "$out/launches.jsonl"
for case in integrator-convex opf30 integrator-nonconvex opf30-uncertain; do refine $case; done
go_bench refine-multiagent 60 kernels '^BenchmarkRefineCase2$/^float32'
bench train 60 train train-epochs --case $trained --batch $one

# 4. The same on tensor cores, each beside its error in float32.
bench step-opf30-size-tf32 60 step --case size:opf30 --batch $few --tf32
refine integrator-convex --tf32
refine opf30 --tf32
bench train-tf32 60 train train-epochs --case $trained --batch $one --tf32
step launches-step-tf32 60 "$gpc" bench kernels --case size:opf30 --batch $one --backend cuda --tf32 --time "$time" --lines "$out/launches.jsonl"

# 5. The rest of the suites: captured graphs, closed loops, refinement, training, roll-outs.
if [ -z "${GPC_REHEARSAL-}" ]; then
  suite suite-kernels 240 kernels "${short[@]}" -test.skip "$conformance"
  suite suite-rollout 90 rollout "${short[@]}" -test.skip NumericsPage # a page of the checkout
else
  suite suite-rollout 60 rollout "${short[@]}" -test.run 'TestOneGraph|TestPlansInPlace|TestFaults'
fi

# 6. The other sizes and operations.
bench step-opf30 60 step --case opf30 --batch $few
bench step-large 60 step --case size:opf30 --batch $many,$large
if [ -z "${GPC_REHEARSAL-}" ]; then
  bench localize 60 step+localize localize --case opf30 --codes $codes --batch 1,$one
  bench parts 60 gemm jacobian metric eig --batch 64,$one
  bench parts-tf32 60 gemm jacobian metric --batch 64,$one --tf32
fi
step decision-opf30 60 "$gpc" refine opf30 --model "$programs/opf30.safetensors" --state "$here/opf30-state.json" --candidates $one --repeat $([ -n "${GPC_REHEARSAL-}" ] && echo 2 || echo 20) --backend cuda --json && keep decision-opf30
[ -n "${GPC_REHEARSAL-}" ] || go_bench rollout 60 rollout '^BenchmarkDevice$'
# Refinements of systems of equations, and their optima, on the device and on its host's cores; NVRTC has to be there. Their rates are in the log.
if [ -z "${GPC_REHEARSAL-}" ]; then
  for case in cartpole hvac quadrotor chain21; do refine $case; done
  for backend in cuda cpu; do
    step "dataset-$backend" 60 "$gpc" dataset quadrotor --scenarios 400 --seed 7 --out "$programs/dataset-$backend" --backend $backend
  done
fi

# 7. NVIDIA's tools, where they are.
tool() { PATH=$PATH:/usr/local/cuda/bin:/opt/nvidia/nsight-compute command -v "$1"; }
if sanitizer=$(tool compute-sanitizer); then
  # The binding asks the driver for a kernel's arguments until it says that there are no more: that answer is no error.
  for check in memcheck racecheck synccheck initcheck; do
    quiet=()
    [ $check != memcheck ] || quiet=(--report-api-errors no)
    step "sanitizer-$check" 60 env GPC_TEST_GPU=1 "$sanitizer" --tool $check "${quiet[@]}" --error-exitcode 9 "$programs/kernels.test" -test.short -test.run 'TestConformance/(eig|index|step-plain)$|TestTensorCoresAdd'
    { printf '\n== compute-sanitizer %s\n' $check; tail -n 40 "$log"; } >> "$out/tools.txt"
  done
else
  echo 'compute-sanitizer: not found' | tee -a "$out/tools.txt"
fi
if ncu=$(tool ncu); then
  step ncu 90 "$ncu" --clock-control none --section SpeedOfLight --section Occupancy --section LaunchStats --launch-count 60 "$gpc" bench kernels --case size:opf30 --batch $one --backend cuda
  { printf '\n== ncu\n'; head -c 2000000 "$log"; } >> "$out/tools.txt"
else
  echo 'ncu: not found' | tee -a "$out/tools.txt"
fi

# 8. PyTorch and JAX on the same device, where this machine's Python has them with CUDA.
python_has() { timeout 60 python3 -c "$1" 2> /dev/null; }
if python_has 'import safetensors, numpy, torch; assert torch.cuda.is_available()' || python_has 'import safetensors, jax; assert jax.default_backend() == "gpu"'; then
  step peers-step 120 python3 "$here/peers/step.py" --gpc "$gpc" --backend cuda --batch $one --out "$programs/peers-step.json" &&
    { tr -d '\n' < "$programs/peers-step.json" > "$log"; echo >> "$log"; keep peers-step; }
else
  echo 'no PyTorch or JAX with CUDA (and safetensors, numpy) in python3' | tee -a "$out/tools.txt"
fi
if python_has 'import torch; assert torch.cuda.is_available()'; then
  step peers-multiagent 120 "$programs/peers-multiagent" --device cuda --python python3 --out "$programs/peers-multiagent.json" &&
    { tr -d '\n' < "$programs/peers-multiagent.json" > "$log"; echo >> "$log"; keep peers-multiagent; }
fi

# 9. Last, what takes longest: 500 epochs of 250 000 samples, really run.
if [ -z "${GPC_REHEARSAL-}" ]; then
  bench train-whole 240 train-epochs --case size:opf30 --batch $one --epochs 500 --samples 250000
else
  bench train-whole 60 train-epochs --case size:integrator --batch $one --epochs 1 --samples 12
fi

[ $failed -eq 0 ] || { echo "a step failed; see $out/logs.txt"; exit 1; }
[ $late -eq 0 ] || { echo "time ran out; the same call with the same folder goes on"; exit 2; }
echo "everything ran; results are in $out/results.tar.gz"
