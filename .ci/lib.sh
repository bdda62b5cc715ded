# Sourced by run and nightly: what both are made of.
# Here a machine that cannot test the CUDA path fails instead of saying so.
export GPC_REQUIRE_SHIM=1
# Properties are drawn as make test draws them.
export RAPID_SEED=1

step() { printf '\n=== %s (%ss)\n' "$1" "$SECONDS"; }

# needs installs Debian's packages where a command is missing: needs COMMAND PACKAGE...
needs() {
  local command=$1
  shift
  command -v "$command" >/dev/null || { apt-get update -q && apt-get install -qy --no-install-recommends "$@"; }
}

# Much here is one thread: beside runs a command in the background, joined waits for it
# and shows what it wrote.
logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$logs"' EXIT
beside() { "$@" >"$logs/beside" 2>&1 & beside=$!; }
joined() { local rc=0; wait "$beside" || rc=$?; cat "$logs/beside"; return "$rc"; }

toolchain() {
  command -v go >/dev/null || { echo 'go is not installed: https://go.dev/doc/install'; exit 1; }
  go version
  needs g++ g++ libc6-dev
  needs musl-gcc musl-tools
  python3 -c 'import ensurepip, pip' >/dev/null 2>&1 || { apt-get update -q && apt-get install -qy python3-pip python3-venv; }
}
