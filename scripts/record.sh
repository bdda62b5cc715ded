# Sourced by the scripts that record results: record NAME ARGUMENTS… runs gpc and
# keeps its JSON as $out/NAME.json, replaced whole.
gpc=bin/gpc
record() {
  local name=$1
  shift
  echo "$name" >&2
  "$gpc" "$@" --json >"$out/$name.json.new" 2>/dev/null &&
    mv "$out/$name.json.new" "$out/$name.json"
}
