#!/usr/bin/env bash
# Compiles the systems of examples/python by a Python that has the package, drives them from unseen starts, and drives
# the exported controllers in C from the same: python-systems.sh PYTHON FOLDER. Prints a line of a benchmark for each.
set -euo pipefail
for system in cartpole crane glucose; do
	"$1" "examples/python/$system.py" --budget 4m --out "$2/$system" --bench
done
