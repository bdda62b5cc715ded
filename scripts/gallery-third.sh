#!/bin/sh
# Compiles systems of the gallery in a third of the time that their maps had before the equations were a program, and records
# what these maps reach: scripts/gallery-third.sh FOLDER. Forty minutes on two cores that do nothing else; a system whose
# compilation has ended in build/third is not compiled again.
set -eu
out=$1
mkdir -p "$out" build/third
# name, target of the mean and of the worst start, budget
while read -r name target tail budget; do
	map=build/third/$name.safetensors
	if [ ! -e "$map.report.json" ]; then
		# A target that is missed is exit code 1, and a report all the same.
		bin/gpc-gallery compile "$name" --target "$target" --tail "$tail" --budget "$budget" --seed 1 --out "$map" || [ -e "$map.report.json" ]
	fi
	cp "$map.report.json" "$out/compile-$name.json"
done <<'END'
cstr 1.5% 10% 4m
chain21 0.3% 20% 15m
double-pendulum 1.5% 30% 20m
END
