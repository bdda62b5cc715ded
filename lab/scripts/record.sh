# Sourced by the scripts that record results: record NAME ARGUMENTS… runs gpc and
# keeps its JSON as $out/NAME.json, replaced whole. What takes times is refused where
# the machine's load average is above MAX_LOAD before or after it. It waits
# up to WAIT seconds for the load to fall, and begins again twice. With ANY_LOAD=1 it is
# recorded all the same, and says so. With CONTINUE=1 a record that is newer than the program
# is kept.
gpc=bin/gpc
max_load=${MAX_LOAD:-5}
# program is gpc-lab for a command of the laboratory.
program() { case "$1 ${2:-}" in certify* | demo* | report* | compare* | "bench scaling" | "bench dispatch") echo "$gpc-lab" ;; *) echo "$gpc" ;; esac; }
record() {
  local name=$1 limit=() try
  shift
  [ -z "${CONTINUE:-}" ] || [ ! "$out/$name.json" -nt "$gpc" ] || return 0
  case "${1:-} ${2:-}" in
    "eval join" | "eval compare" | steer* | certify*) ;;
    *) limit=(--max-load "$max_load" ${ANY_LOAD:+--any-load}) ;;
  esac
  echo "$name" >&2
  for try in 1 2 3; do
    [ ${#limit[@]} != 2 ] || quiet
    if "$(program "$1" "${2:-}")" "$@" "${limit[@]}" --json >"$out/$name.json.new" 2>"$out/$name.log"; then
      mv "$out/$name.json.new" "$out/$name.json"
      rm -f "$out/$name.log"
      return 0
    fi
    cat "$out/$name.log" >&2
    grep -q 'too busy' "$out/$name.log" || break
  done
  rm -f "$out/$name.json.new" "$out/$name.log"
  return 1
}
# quiet waits for the load to fall; where the system does not say it there is no wait.
quiet() {
  local waited=0
  while [ -r /proc/loadavg ] && [ $waited -lt "${WAIT:-600}" ] && awk -v most="$max_load" '{ exit !($1 > most) }' /proc/loadavg; do
    sleep 5
    waited=$((waited + 5))
  done
}
