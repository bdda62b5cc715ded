#!/usr/bin/env bash
# Whole controllers as C on a Cortex-M7 under QEMU: lab/scripts/export-loops-cortex-m.sh CASE|MODEL[--FLAG=VALUE]..., lines of a benchmark with
# bytes, the instructions of decisions of EPISODES (2) closed loops beside those of the map alone, and how many of
# the loops were unsafe there and here. A loop that is safe in one of them alone ends it. Instructions are counted in steps
# of 40; "full" is the most where every roll-out goes to its end and all units are active. METHOD=nmpc drives exact controllers, which have no
# map and no roll-outs. Flags are those of the export, such as cartpole-track--estimate=0.005--delay=1; of maps that estimate, decisions are told
# apart by what they do. Instructions are QEMU's and not a processor's cycles. Stack is the largest frame of a function of the controller and its plant.
set -euo pipefail
for tool in arm-none-eabi-gcc arm-none-eabi-size qemu-system-arm; do
  command -v "$tool" > /dev/null || { echo "$tool is not here; on Debian: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm" >&2; exit 1; }
done
cd "$(dirname "$0")/../.."
here=lab/scripts/cortex-m
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc='arm-none-eabi-gcc -std=c99 -O3 -Wall -Wextra -Werror -mthumb -mfloat-abi=hard -mcpu=cortex-m7 -mfpu=fpv5-d16 -ffp-contract=off -DGPC_FMA'

# figure NAME: the number after it in what the test printed.
figure() { awk -v name="$1" '$1 == name { print $2 }' "$work/out"; }

# section NAME: bytes of the sections of the controller's object files so named.
section() { arm-none-eabi-size -A "$work"/gpc_*.o | awk -v name="$1" '$1 ~ "^\\." name { sum += $2 } END { print sum + 0 }'; }

# of NAME: how many decisions are of this kind, the median of their instructions and the most.
of() {
  [ "$(figure "$1")" ] && echo "$(figure "$1") $1"
  [ "$(figure "$1")" -gt 0 ] 2> /dev/null && echo "$(figure "$1_p50") $1_p50 $(figure "$1_most") $1_most"
  true
}

# run FLAGS...: compiles the controller with them and drives its loops on the board.
run() {
  rm -f "$work"/*.o "$work"/*.su
  for source in "$work"/c/gpc_*.c; do
    $cc "$@" -pedantic -fstack-usage -c "$source" -o "$work/$(basename "$source" .c).o"
  done
  $cc -DGPC_TICKS=instructions -I "$work/c" "$work/c/main_test.c" "$work"/gpc_*.o "$here/startup.c" -T "$here/mps2.ld" -nostartfiles --specs=rdimon.specs -Wl,--no-warn-rwx-segments -o "$work/test.elf" -lm
  qemu-system-arm -M mps2-an500 -display none -semihosting -icount shift=0 -kernel "$work/test.elf" > "$work/out"
}

method=${METHOD:-direct-no-rescue} full=
for what in "$@"; do
  read -r -a flags <<< "${what//--/ --}"
  map=${flags[0]}
  rm -rf "$work/c"
  ${GPC:-bin/gpc} export "${flags[@]}" --method "$method" --c "$work/c" --episodes "${EPISODES:-2}" > /dev/null
  if [ "$method" = nmpc ]; then
    name=BenchmarkCortexMExact
  else
    run -DGPC_DENSE -DGPC_FULL || true # other decisions than gpc's
    name=BenchmarkCortexMLoops full=$(figure decisions_most)
    [[ $what != *--estimate=* ]] || name=BenchmarkCortexMEstimates
  fi
  run || { cat "$work/out" >&2; exit 1; }
  stack=$(awk '$(NF - 1) > most { most = $(NF - 1) } END { print most }' "$work"/*.su)
  own="$(figure ticks_map_most) map_instructions $full instructions_full $(figure guarded) guarded"
  case $name in
    *Exact) own="$(figure loop_bytes) loop_bytes $(figure cold) cold $(figure unsolved) unsolved" ;;
    *Estimates) own="$own $(figure loop_bytes) loop_bytes $(for kind in decisions filter first followed renewed rolled; do of $kind; done | tr '\n' ' ')" ;;
  esac
  echo "$name/$(basename "$map" .safetensors)${what#"$map"}/M7 1 $(section text) code_bytes $(section rodata) constants_bytes $(section bss) static_bytes $stack frame_bytes" \
    "$own $(figure decisions_mean) instructions $(figure decisions_most) instructions_most" \
    "$(figure episodes) episodes $(figure unsafe) unsafe $(figure unsafe_gpc) unsafe_gpc"
done
