#!/bin/sh
# secure-chains.sh CASES: the lines of a benchmark of secure optimal power flows of PGLib's networks in the folder CASES, one from
# nothing and 39 begun at the last one, while loads move by up to 0.1, 1 or 3 % a step. Outages are those of branches that leave no
# island, or those of a list. A chain ends after 60 s of CPU time.
set -eu
cases=$(cd "$1" && pwd)
lists=$(pwd)/lab/secure/outages

# chain NETWORK LEVEL [LIST]
chain() {
	GPC_CASE=$cases/$1.m GPC_LEVEL=$2 GPC_OUTAGES=${3-} \
		"${GO:-go}" test ./grid/secure -run '^$' -bench '^BenchmarkChain$' -benchtime 1x -cpu 1 -timeout 60m
}

chain pglib_opf_case118_ieee 0.9
chain pglib_opf_case300_ieee 0.7 "$lists/pglib_opf_case300_ieee.txt"
chain pglib_opf_case500_goc 0.7 "$lists/pglib_opf_case500_goc.txt"
