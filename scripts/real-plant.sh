#!/bin/sh
# real-plant.sh RECORDS TRACES: systems of the gallery whose every state is measured with noise, by the estimate alone and with
# what its errors may take kept off the limits, each method on the same episodes. Traces go to TRACES, statistics and comparisons to
# RECORDS. It ends anywhere and continues behind the last complete episode; a record that is there is kept.
# SYSTEMS, NOISES, LEVELS, METHODS, EPISODES, SEED and PARALLEL vary it. PART=i/n drives every n-th episode from i alone, on this
# machine or another with the same files; whoever finds all n parts joins them. The seed is of no episode that anything was chosen by.
set -eu
records=$1 traces=$2 part=${PART:-0/1}
count=${part#*/}
mkdir -p "$records" "$traces"

# write FILE COMMAND...: what a command prints, whole or not at all.
write() {
	into=$1
	shift
	"$@" >"$into.part"
	mv "$into.part" "$into"
}

# row SYSTEM NOISE LEVEL METHOD: its part of the episodes, and the statistics of all once every part is there.
row() {
	name=$1-noise-$2-level-$3-$4
	[ -s "$records/$name.json" ] && return
	at=$traces/$name-${part%/*}-of-$count
	if [ ! -s "$at.json" ]; then
		write "$at.json" bin/gpc-gallery eval "$1" --method "$4" --estimate "$2" --keep-off "$3" --episodes "${EPISODES:-1000}" \
			--seed "${SEED:-37000001}" --parallel "${PARALLEL:-1}" --shard "$part" --trace "$at.jsonl" --resume --json
	fi
	i=0 runs=
	while [ "$i" -lt "$count" ]; do
		[ -s "$traces/$name-$i-of-$count.json" ] || return 0
		runs=$runs,$traces/$name-$i-of-$count.json
		i=$((i + 1))
	done
	write "$records/$name.json" bin/gpc-gallery eval join "$1" "$traces/$name"-*-of-"$count".jsonl --runs "${runs#,}" --json
}

# compare SYSTEM NOISE LEVEL: the costs of the methods on the episodes in which all are safe, of whole traces.
compare() {
	name=$1-noise-$2-level-$3
	[ -s "$records/$name-compare.json" ] || [ "$count" -gt 1 ] && return
	set --
	for method in ${METHODS:-nmpc direct}; do
		set -- "$@" "$traces/$name-$method-0-of-1.jsonl"
	done
	[ $# -lt 2 ] || write "$records/$name-compare.json" bin/gpc-gallery eval compare "$@" --json
}

for system in ${SYSTEMS:-cartpole cartpole-track quadrotor chain9 chain21 cstr hvac}; do
	for noise in ${NOISES:-0.01 0.03}; do
		for level in ${LEVELS:-0 3 4}; do
			for method in ${METHODS:-nmpc direct}; do
				row "$system" "$noise" "$level" "$method"
			done
			compare "$system" "$noise" "$level"
		done
	done
done
