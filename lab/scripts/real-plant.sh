#!/bin/sh
# real-plant.sh RECORDS TRACES: systems of the gallery whose states are measured with noise, all of them (MEASURED=all) or those that
# part names (MEASURED=part), by the estimate alone and with what its errors may take kept off the limits, and systems without noise
# whose actions come DELAYS periods late (MEASURED=late), each method on the same episodes. Traces go to TRACES; RECORDS has how
# often each method is safe and what it costs above the first, without times, so that the machine may be busy. It ends anywhere and
# continues behind the last complete episode; a record of so many episodes that is there is kept.
# MEASURED, SYSTEMS, NOISES, LEVELS, DELAYS, METHODS, EPISODES, SEED and PARALLEL vary it. The seed is of no episode that anything
# was chosen by.
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
	*) echo "lab/scripts/real-plant.sh: no states are named that a part of $1 would be" >&2 && return 1 ;;
	esac
}

# pair NAME SYSTEM FLAGS…: every method's trace, whole, and the record of them.
pair() {
	name=$1 system=$2
	shift 2
	grep -qs "\"episodes\": *${EPISODES:-1000}," "$records/$name.json" && return
	for method in ${METHODS:-nmpc direct}; do
		at=$traces/$name-$method
		[ "$(cat "$at.whole" 2>/dev/null)" = "${EPISODES:-1000}" ] && continue
		bin/gpc eval "$system" --method "$method" "$@" --episodes "${EPISODES:-1000}" \
			--seed "${SEED:-37000001}" --parallel "${PARALLEL:-1}" --trace "$at.jsonl" --resume
		echo "${EPISODES:-1000}" >"$at.whole"
	done
	set --
	for method in ${METHODS:-nmpc direct}; do
		set -- "$@" "$traces/$name-$method.jsonl"
	done
	[ $# -gt 1 ] || return 0
	bin/gpc eval compare "$@" --untimed --json >"$records/$name.json.part"
	mv "$records/$name.json.part" "$records/$name.json"
}

for measured in ${MEASURED:-all part late}; do
	for system in ${SYSTEMS:-cartpole cartpole-track cstr hvac quadrotor chain9 chain21}; do
		if [ "$measured" = late ]; then
			for delay in ${DELAYS:-1}; do
				pair "$system-delay-$delay" "$system" --delay "$delay"
			done
			continue
		fi
		kind='' states=''
		[ "$measured" = all ] || { states=$(part "$system") && kind=-part; }
		for noise in ${NOISES:-0.01 0.03}; do
			for level in ${LEVELS:-0 3 4}; do
				pair "$system$kind-noise-$noise-level-$level" "$system" --estimate "$noise" ${states:+--estimate-from "$states"} --keep-off "$level"
			done
		done
	done
done
