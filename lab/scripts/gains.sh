#!/bin/sh
# gains.sh RECORDS BUILD: systems of the gallery whose actuators have gains of 0.9 to 1.1, drawn for each episode, with 1 % of noise on
# every state and three standard deviations kept off the limits: the exact solver that knows the gains, solver and map by their
# estimates, and both without them (lab/gains). Maps that are conditioned on the estimates are compiled into BUILD, BUDGET of wall
# time each, and for a system without a bundled map one that is not; with METHODS=nmpc there are none. A file of RECORDS for each system
# is written without times, so that the machine may be busy. It ends anywhere, and the same command continues; a record that is there is
# kept. SYSTEMS, each with :EPISODES where it has other than EPISODES, BUDGET, SEED and PARALLEL vary it. The seed is of no episode that
# anything was chosen by.
set -eu
records=$1 build=$2
mkdir -p "$records" "$build"

# map FILE SYSTEM FLAGS…: a compilation with few starts in its own test, as the record is one. A target that is missed is exit code 1, and a
# report all the same.
map() {
	at=$build/$1.safetensors
	shift
	[ -e "$at.report.json" ] || bin/gpc compile "$@" --budget "${BUDGET:-10m}" --test-starts 50 --seed 1 --out "$at" || [ -e "$at.report.json" ]
}

for text in ${SYSTEMS:-cartpole cartpole-track cstr quadrotor cstr-runs-on}; do
	system=${text%%:*}
	[ ! -e "$records/gains-$system.json" ] || continue
	if [ "${METHODS:-}" != nmpc ]; then
		map "$system-gains" "$system" --estimate 0.01 --uncertain-gains 0.1
		[ -e "examples/gallery/models/$system.safetensors" ] || map "$system" "$system" --estimate 0.01
	fi
	bin/record --out "$records/gains-$system.json" bin/gains --maps "$build" --traces "$build/traces" --methods "${METHODS:-nmpc,direct}" \
		--episodes "${EPISODES:-1000}" --seed "${SEED:-37000001}" --parallel "${PARALLEL:-1}" "$text"
done
