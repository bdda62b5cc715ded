#!/usr/bin/env bash
# Maps as C on a Cortex-M4F and a Cortex-M7 under QEMU: lab/scripts/export-cortex-m.sh CASE|MODEL..., lines of a benchmark with
# bytes, instructions of a decision, and how many entries of the recorded plans are equal. A decision beyond the tolerance
# ends it. Instructions are counted in steps of 40, QEMU's and not a processor's cycles: it has no pipeline and no
# memory that waits. Stack is the sum over all functions of the map.
set -euo pipefail
for tool in arm-none-eabi-gcc arm-none-eabi-size qemu-system-arm; do
  command -v "$tool" > /dev/null || { echo "$tool is not here; on Debian: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm" >&2; exit 1; }
done
cd "$(dirname "$0")/../.."
here=lab/scripts/cortex-m
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# figure NAME: the number after it in what the test printed.
figure() { awk -v name="$1" '$1 == name { print $2 }' "$work/out"; }

# section PATTERN: bytes of the sections of the map's object file so named.
section() { arm-none-eabi-size -A "$work/map.o" | awk -v name="$1" '$1 ~ "^\\." name { sum += $2 } END { print sum + 0 }'; }

# run FLAGS...: compiles the map with them and runs its test on the board.
run() {
  $cc "$@" -pedantic -fstack-usage -c "$source" -o "$work/map.o"
  $cc -DGPC_TICKS=instructions -I "$work/c" "$work/c/main_test.c" "$work/map.o" "$here/startup.c" -T "$here/mps2.ld" -nostartfiles --specs=rdimon.specs -Wl,--no-warn-rwx-segments -o "$work/test.elf"
  qemu-system-arm -M $board -display none -semihosting -icount shift=0 -kernel "$work/test.elf" > "$work/out" || { cat "$work/out" >&2; exit 1; }
}

for map in "$@"; do
  for weights in float32 float16; do
    rm -rf "$work/c"
    half=; [ $weights = float32 ] || half=--half
    ${GPC:-bin/gpc} export "$map" --map-only --c "$work/c" $half > /dev/null
    source=$(ls "$work"/c/gpc_*.c)
    for processor in M4F M7; do
      case $processor in
        M4F) target='-mcpu=cortex-m4 -mfpu=fpv4-sp-d16' board=mps2-an386 ;;
        M7) target='-mcpu=cortex-m7 -mfpu=fpv5-d16' board=mps2-an500 ;;
      esac
      cc="arm-none-eabi-gcc -std=c99 -O3 -Wall -Wextra -Werror -mthumb -mfloat-abi=hard -mfp16-format=ieee $target -ffp-contract=off -DGPC_FMA"
      run -DGPC_DENSE
      dense=$(figure ticks_most)
      run
      stack=$(awk '{ sum += $(NF - 1) } END { print sum }' "$work/map.su")
      read -r equal entries < <(sed -n 's/^equal_bits \([0-9]*\) of \([0-9]*\)$/\1 \2/p' "$work/out")
      echo "BenchmarkCortexM/$(basename "$map" .safetensors)/$weights/$processor 1 $(section text) code_bytes $(section rodata) constants_bytes $(section bss) static_bytes $stack stack_bytes" \
        "$(figure ticks_mean) instructions $(figure ticks_most) instructions_most $dense instructions_dense $equal equal $entries entries"
    done
  done
done
