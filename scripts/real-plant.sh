#!/bin/sh
# real-plant.sh RECORDS TRACES: systems of the gallery whose states are measured with noise, all of them (MEASURED=all) or those that
# part names (MEASURED=part), by the estimate alone and with what its errors may take kept off the limits, each method on the same episodes. Traces go to TRACES; RECORDS has how often each
# method is safe and what it costs above the first, without times, so that the machine may be busy. It ends anywhere and continues
# behind the last complete episode; a record of so many episodes that is there is kept.
# MEASURED, SYSTEMS, NOISES, LEVELS, METHODS, EPISODES, SEED and PARALLEL vary it. The seed is of no episode that anything was chosen by.
set -eu
records=$1 traces=$2
mkdir -p "$records" "$traces"

# part SYSTEM: the states that an encoder, a camera or a thermometer shows.
part() {
	case $1 in
	cartpole*) echo x,theta ;;
	quadrotor) echo x,z,angle ;;
	cstr) echo reactor,jacket ;;
	hvac) echo sensor ;;
	chain9) echo x1,y1,z1,x2,y2,z2 ;;
	chain21) echo x1,y1,z1,x2,y2,z2,x3,y3,z3,x4,y4,z4 ;;
	*) echo "scripts/real-plant.sh: no states are named that a part of $1 would be" >&2 && return 1 ;;
	esac
}

# drive SYSTEM STATES NOISE LEVEL METHOD NAME: its trace, whole. STATES "" are all.
drive() {
	at=$traces/$6-$5
	[ "$(cat "$at.whole" 2>/dev/null)" = "${EPISODES:-1000}" ] && return
	bin/gpc-gallery eval "$1" --method "$5" --estimate "$3" ${2:+--estimate-from "$2"} --keep-off "$4" --episodes "${EPISODES:-1000}" \
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

for measured in ${MEASURED:-all part}; do
	for system in ${SYSTEMS:-cartpole cartpole-track cstr hvac quadrotor chain9 chain21}; do
		states='' kind=''
		[ "$measured" = all ] || { states=$(part "$system") && kind=-part; }
		for noise in ${NOISES:-0.01 0.03}; do
			for level in ${LEVELS:-0 3 4}; do
				name=$system$kind-noise-$noise-level-$level
				grep -qs "\"episodes\": *${EPISODES:-1000}," "$records/$name.json" && continue
				for method in ${METHODS:-nmpc direct}; do
					drive "$system" "$states" "$noise" "$level" "$method" "$name"
				done
				compare "$records/$name.json" "$name"
			done
		done
	done
done
