#!/bin/sh
# secure-chains.sh CASES: the lines of a benchmark of secure optimal power flows of PGLib's networks in the folder CASES, one from
# nothing and 39 begun at the last one, while loads move by up to 0.1, 1 or 3 % a step. Outages are those of branches that leave no
# island. Left out are those without a power flow at the plain optimum and the rows named here, after which something would have to
# give at that load.
set -eu
cases=$(cd "$1" && pwd)

# chain NETWORK LEVEL ROWS
chain() {
	GPC_CASE=$cases/$1.m GPC_LEVEL=$2 GPC_WITHOUT=$3 \
		"${GO:-go}" test ./grid/secure -run '^$' -bench '^BenchmarkChain$' -benchtime 1x -cpu 1 -timeout 60m
}

chain pglib_opf_case118_ieee 0.9 ''
chain pglib_opf_case300_ieee 0.7 66,244,367,369,373,381
chain pglib_opf_case500_goc 0.7 70,277
