#!/bin/sh
# gains.sh RECORD BUILD: systems of the gallery whose actuators have gains of 0.9 to 1.1, drawn for each episode, with 1 % of noise on
# every state and three standard deviations kept off the limits: the exact solver that knows the gains, solver and map by their
# estimates, and both without them (bench/gains). Maps that are conditioned on the estimates are compiled into BUILD, BUDGET of wall
# time each, and for a system without a bundled map one that is not. RECORD is written without times, so that the machine may be busy. It
# ends anywhere, and the same command continues. SYSTEMS, each with :EPISODES where it has other than EPISODES, BUDGET, SEED and PARALLEL
# vary it. The seed is of no episode that anything was chosen by.
set -eu
record=$1 build=$2
mkdir -p "$build"
: "${SYSTEMS:=cartpole cartpole-track cstr quadrotor cartpole-runs-on cstr-runs-on}"

# map FILE SYSTEM FLAGS…: a compilation with few starts in its own test, as the record is one. A target that is missed is exit code 1, and a
# report all the same.
map() {
	at=$build/$1.safetensors
	shift
	[ -e "$at.report.json" ] || bin/gpc-gallery compile "$@" --budget "${BUDGET:-10m}" --test-starts 50 --seed 1 --out "$at" || [ -e "$at.report.json" ]
}

for text in $SYSTEMS; do
	system=${text%%:*}
	map "$system-gains" "$system" --estimate 0.01 --uncertain-gains 0.1
	[ -e "examples/gallery/models/$system.safetensors" ] || map "$system" "$system" --estimate 0.01
done
# shellcheck disable=SC2086 # a word each
bin/record --out "$record" bin/gains --maps "$build" --traces "$build/traces" --episodes "${EPISODES:-1000}" \
	--seed "${SEED:-37000001}" --parallel "${PARALLEL:-1}" $SYSTEMS
