#!/bin/sh
# real-plant.sh RECORDS TRACES: systems of the gallery whose every state is measured with noise, by the estimate alone and with
# what its errors may take kept off the limits, each method on the same episodes. Traces go to TRACES; RECORDS has how often each
# method is safe and what it costs above the first, without times, so that the machine may be busy. It ends anywhere and continues
# behind the last complete episode; a record of so many episodes that is there is kept.
# SYSTEMS, NOISES, LEVELS, METHODS, EPISODES, SEED and PARALLEL vary it. The seed is of no episode that anything was chosen by.
set -eu
records=$1 traces=$2
mkdir -p "$records" "$traces"

# drive SYSTEM NOISE LEVEL METHOD: its trace, whole.
drive() {
	at=$traces/$1-noise-$2-level-$3-$4
	[ "$(cat "$at.whole" 2>/dev/null)" = "${EPISODES:-1000}" ] && return
	bin/gpc-gallery eval "$1" --method "$4" --estimate "$2" --keep-off "$3" --episodes "${EPISODES:-1000}" \
		--seed "${SEED:-37000001}" --parallel "${PARALLEL:-1}" --trace "$at.jsonl" --resume
	echo "${EPISODES:-1000}" >"$at.whole"
}

# compare RECORD NAME: the record of its methods.
compare() {
	record=$1
	shift
	for method in ${METHODS:-nmpc direct}; do
		set -- "$@" "$traces/$1-$method.jsonl"
	done
	shift
	[ $# -gt 1 ] || return 0
	bin/gpc-gallery eval compare "$@" --untimed --json >"$record.part"
	mv "$record.part" "$record"
}

for system in ${SYSTEMS:-cartpole cartpole-track cstr hvac quadrotor chain9 chain21}; do
	for noise in ${NOISES:-0.01 0.03}; do
		for level in ${LEVELS:-0 3 4}; do
			name=$system-noise-$noise-level-$level
			grep -qs "\"episodes\": *${EPISODES:-1000}," "$records/$name.json" && continue
			for method in ${METHODS:-nmpc direct}; do
				drive "$system" "$noise" "$level" "$method"
			done
			compare "$records/$name.json" "$name"
		done
	done
done
