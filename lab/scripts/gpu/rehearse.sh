#!/usr/bin/env bash
# Rehearses run.sh of a bundle on the host shim, which stands in for libcuda.so.1: every
# step runs, rows are written as they are measured, a second call does nothing twice, and
# the archive is there when time runs out and where there is no driver.
#
#   lab/scripts/gpu/rehearse.sh BUNDLE FOLDER-OF-THE-STAND-IN
set -euo pipefail
bundle=$(cd "$1" && pwd)
driver=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ample=86400 # s: no step is cut short on a slow machine
fail() { echo "rehearsal: $*" >&2; exit 1; }
run() { GPC_REHEARSAL=1 LD_LIBRARY_PATH=$driver "$bundle/run.sh" "$@" > "$work/said" 2>&1; }
archived() { # FOLDER: at most eight files, the archive one of them, all there
  local n
  n=$(find "$1" -type f | wc -l)
  [ "$n" -le 8 ] || fail "$n files in $1"
  [ "$(tar -tzf "$1/results.tar.gz" | sort | paste -sd' ')" = 'launches.jsonl logs.txt others.jsonl rows.jsonl state.txt steps.jsonl tools.txt' ] || fail "the archive holds $(tar -tzf "$1/results.tar.gz")"
}
lines() { # FILE COUNT: at least so many lines, each a JSON object
  python3 - "$1" "$2" <<'PY' || fail "$1"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert all(isinstance(v, dict) for v in lines), "a line is no object"
assert len(lines) >= int(sys.argv[2]), f"{len(lines)} lines, want at least {sys.argv[2]}"
PY
}

run "$work/out" --budget $ample || { cat "$work/said" "$work/out/logs.txt" | tail -n 80; fail "run.sh ended with an error"; }
archived "$work/out"
lines "$work/out/steps.jsonl" 18
lines "$work/out/rows.jsonl" 15
lines "$work/out/launches.jsonl" 10
lines "$work/out/others.jsonl" 2
grep -q 'gpc host shim' "$work/out/state.txt" || fail 'state.txt does not name the device'
# Of what was run here faults alone are skipped.
skipped=$(sed -n 's/.*"skipped":\[\([^]]*\)\].*/\1/p' "$work/out/steps.jsonl" | tr ',' '\n' | sort -u | paste -sd' ')
[ "$skipped" = '"TestFaultsOfARound" "TestFaultsOfTheDevice"' ] || fail "skipped on a device: $skipped"

before=$(wc -l < "$work/out/rows.jsonl")
run "$work/out" --budget $ample || fail 'a second call failed'
[ "$(wc -l < "$work/out/rows.jsonl")" = "$before" ] || fail 'a second call measured again'
grep -q 'train-whole: done before' "$work/said" || fail 'a second call does not say what is done'

if run "$work/late" --budget 1; then fail 'no time, and no error'; fi
archived "$work/late"
grep -q '"late":true' "$work/late/steps.jsonl" || fail 'what was left out for time is not told'

if GPC_REHEARSAL=1 LD_LIBRARY_PATH=/nowhere "$bundle/run.sh" "$work/none" > "$work/said" 2>&1; then fail 'no driver, and no error'; fi
archived "$work/none"
grep -q 'no CUDA driver library' "$work/none/state.txt" || fail 'state.txt does not say that there is no driver'
echo "rehearsed: $before rows, $(wc -l < "$work/out/steps.jsonl") steps"
