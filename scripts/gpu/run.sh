#!/usr/bin/env bash
# Runs the conformance suites and the benchmarks on the GPU of this machine, without
# Go or CUDA: NVIDIA's driver is enough.
#
#   ./run.sh OUT [--quick]
#
# writes OUT/*.json (and the logs of the suites), to be committed under
# bench/results/DEVICE/. Exits 1 when a suite or a benchmark failed; what ran is kept.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: run.sh OUT [--quick]}
quick=${2:-}
mkdir -p "$out"
out=$(cd "$out" && pwd)
failed=0

programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
tar -xzf "$here/programs.tar.gz" -C "$programs"

commit=$("$programs/gpc" --version | sed -n 's/.*(\(.*\)).*/\1/p')

"$programs/gpc" doctor --json --backend cuda > "$out/doctor.json" || { cat "$out/doctor.json"; "$programs/gpc" doctor; exit 1; }
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv > "$out/nvidia-smi.csv" 2>/dev/null

# The kernels held to the float64 reference, on the device.
flags=(-test.v -test.timeout 20m)
[ -n "$quick" ] && flags+=(-test.short)
suite() { # NAME: runs NAME.test
  local name=$1 start=$SECONDS code
  (cd "$out" && GPC_TEST_GPU=1 "$programs/$name.test" "${flags[@]}") > "$out/$name.log" 2>&1
  code=$?
  [ $code -eq 0 ] || failed=1
  printf '{"suite":"%s","ok":%s,"passed":%d,"failed":%d,"skipped":%d,"wall_s":%d,"commit":"%s","command":"GPC_TEST_GPU=1 %s.test %s"}\n' \
    "$name" "$([ $code -eq 0 ] && echo true || echo false)" \
    "$(grep -c -- '--- PASS' "$out/$name.log")" "$(grep -c -- '--- FAIL' "$out/$name.log")" "$(grep -c -- '--- SKIP' "$out/$name.log")" \
    $((SECONDS - start)) "$commit" "$name" "${flags[*]}"
}
suite kernels > "$out/conformance.json"
suite rollout > "$out/conformance-rollout.json"
cat "$out/conformance.json" "$out/conformance-rollout.json"

bench() { # NAME ARGUMENTS…
  local name=$1
  shift
  "$programs/gpc" bench "$@" --backend cuda --json > "$out/$name.json" 2> "$out/$name.log" || { failed=1; cat "$out/$name.log"; }
}
time=2s
[ -n "$quick" ] && time=100ms
# Every figure in float32, then in TF32 with its error beside it.
for precision in fp32 tf32; do
  tf32=()
  [ $precision = tf32 ] && tf32=(--tf32)
  bench step-opf30-$precision step --case opf30 --batch 1,64,4096,65536 --time $time "${tf32[@]}"
  bench step-opf30-size-$precision step --case size:opf30 --batch 1,64,4096,65536 --time $time "${tf32[@]}"
  bench step-integrator-$precision step --case integrator-convex --batch 1,64,4096,65536 --time $time "${tf32[@]}"
  bench localize-$precision step+localize --case opf30 --codes 250000 --batch 1,4096 --time $time "${tf32[@]}"
  bench refine-$precision refine --case integrator-convex --model "$here/integrator-convex.safetensors" --batch 4096 --time $time "${tf32[@]}"
  bench refine-opf30-$precision refine --case opf30 --model "$here/opf30.safetensors" --batch 4096 --time $time "${tf32[@]}"
  bench parts-$precision gemm jacobian metric eig --batch 64,4096 --time $time "${tf32[@]}"
  bench train-$precision train train-epochs --case size:opf30 --batch 4096 --time $time "${tf32[@]}"
done
bench localize localize --codes 20000,250000 --batch 1,4096 --time $time
# The whole training, really run: 500 epochs of 250 000 samples.
[ -n "$quick" ] || bench train-whole train-epochs --case size:opf30 --batch 4096 --epochs 500 --samples 250000

# The same step in PyTorch and JAX, where this machine's Python has them with CUDA.
if python3 -c 'import safetensors, numpy' 2>/dev/null && python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
  python3 -c 'import safetensors, jax; assert jax.default_backend() == "gpu"' 2>/dev/null; then
  python3 "$here/peers/step.py" --gpc "$programs/gpc" --backend cuda --batch 4096 --out "$out/peers-step.json" 2> "$out/peers-step.log" || { failed=1; cat "$out/peers-step.log"; }
else
  echo 'no PyTorch or JAX with CUDA (and safetensors, numpy) in python3: peers-step.json is left out'
fi

# A whole refinement of one dispatch, the strict plant's power flows included: one
# graph. The first of the repetitions pays for captures; the last is reported.
"$programs/gpc" refine opf30 --model "$here/opf30.safetensors" --state "$here/opf30-state.json" --candidates 4096 --repeat 20 --backend cuda --json > "$out/refine-opf30.json" 2> "$out/refine-opf30.log" ||
  { failed=1; cat "$out/refine-opf30.log"; }

# Case 2, as Go benchmarks: roll-outs and decisions of 4096 plans, and whole
# refinements of 4096 latents of one robot's view.
gobench() { # NAME PROGRAM PATTERN
  local name=$1 flags=(-test.run '^$' -test.bench "$3" -test.benchtime "$time")
  GPC_TEST_GPU=1 "$programs/$2.test" "${flags[@]}" > "$out/$name.txt" 2>&1 || { failed=1; cat "$out/$name.txt"; return; }
  awk -v commit="$commit" -v command="GPC_TEST_GPU=1 $2.test ${flags[*]}" '
    BEGIN { printf "{\"commit\":\"%s\",\"command\":\"%s\",\"benchmarks\":[", commit, command }
    /^Benchmark/ && NF > 3 { printf "%s{\"name\":\"%s\",\"iterations\":%d", n++ ? "," : "", $1, $2; for (i = 3; i < NF; i += 2) printf ",\"%s\":%s", $(i + 1), $i; printf "}" }
    END { print "]}" }' "$out/$name.txt" > "$out/$name.json"
  cat "$out/$name.json"
}
gobench bench-rollout rollout '^BenchmarkDevice$'
gobench bench-refine-multiagent kernels '^BenchmarkRefineCase2$'
# Beside PyTorch where this machine has it.
if python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
  "$programs/peers-multiagent" --device cuda --python python3 --out "$out/peers-multiagent.json" 2> "$out/peers-multiagent.log" || { failed=1; cat "$out/peers-multiagent.log"; }
else
  echo 'python3 has no torch that finds the GPU: the peers are left out'
fi

[ $failed -eq 0 ] && echo "everything ran; results are in $out" || echo "something failed; see the logs in $out"
exit $failed
