#!/bin/sh
# real-plant.sh FOLDER: systems of the gallery whose every state is measured with noise, by the estimate alone and with
# what its errors may take kept off the limits, each method on the same episodes; a record that is there is kept.
# EPISODES, SEED, NOISES, LEVELS and SYSTEMS vary it. The seed is of no episode that anything was chosen by.
set -eu
folder=$1
mkdir -p "$folder"
for system in ${SYSTEMS:-cartpole cartpole-track quadrotor chain9 chain21 cstr hvac}; do
	for noise in ${NOISES:-0.01 0.03}; do
		for level in ${LEVELS:-0 3 4}; do
			record=$folder/$system-noise-$noise-level-$level.json
			[ -s "$record" ] && continue
			bin/gpc-gallery eval pair "$system" --methods "${METHODS:-nmpc,direct}" --estimate "$noise" --keep-off "$level" \
				--episodes "${EPISODES:-1000}" --parallel "${PARALLEL:-1}" --seed "${SEED:-37000001}" --json >"$record.part"
			mv "$record.part" "$record"
		done
	done
done
