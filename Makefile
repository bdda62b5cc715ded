# gpc: build, run and test. Everything a fresh machine needs beyond Go and make
# is installed by a target below.
GO        ?= go
# CHANGED marks the commit of a build whose sources are not the commit's: records would name it wrongly.
CHANGED   := $(shell git diff --quiet HEAD -- '*.go' '*.s' '*.cu' '*.cuh' '*.ptx' '*.cubin' '*.m' '*.safetensors' go.mod go.sum 2>/dev/null; [ $$? != 1 ] || echo -changed)
COMMIT    := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)$(CHANGED)
LDFLAGS   := -s -w -X github.com/gpc-engine/gpc/internal/version.Commit=$(COMMIT)
STATICCHECK_VERSION := v0.8.2

.DEFAULT_GOAL := build
.PHONY: bench build check check-generated check-kernels check-ui clean docs fuzz generate gpu-bundle kernels lab lint lint-python \
	nightly nvcc python race run site test test-python test-ui test-wheel tested ui vet-platforms wheel

## build: the gpc binary, without cgo, in bin
build:
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/gpc ./cmd/gpc
	@$(MAKE) --silent build/modules

# Once, what else the tests and go mod tidy need, here and in a system of one's own: then they work without a network.
build/modules: go.mod go.sum lab/go.mod lab/go.sum cli/template/go.mod.tmpl
	@rm -rf build/crane
	@if $(GO) list -deps -test ./... ./lab/... > /dev/null 2>&1 && GOWORK=off $(GO) mod tidy -diff > /dev/null 2>&1 \
		&& bin/gpc new build/crane --source . > /dev/null && cd build/crane && GOWORK=off $(GO) mod tidy 2> /dev/null; \
	then cd ../.. && rm -rf build/crane && touch $@; else echo 'modules that tests need are missing: make test and go mod tidy need a network' >&2; fi

## lab: the laboratory's program, which demonstrates, compares and draws reports, as bin/gpc-lab
lab:
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/gpc-lab ./lab/cmd/gpc-lab

## vet-platforms: vet of both modules for Linux, and a build of them for the other platforms, whose tests have no host shim
vet-platforms:
	for arch in amd64 arm64; do echo "vet linux/$$arch"; GOOS=linux GOARCH=$$arch CGO_ENABLED=0 $(GO) vet ./... ./lab/... || exit 1; done
	for os in darwin windows; do for arch in amd64 arm64; do echo "build $$os/$$arch"; GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 $(GO) build ./... ./lab/... || exit 1; done; done

## run: decide, refine 4096 candidates for every case, check them under the true dynamics, draw the results in out/demo; one dispatch that survives every outage; then from the equations of a cart-pole to a controller, in out/gallery
run: build lab
	@mkdir -p out/demo
	@bin/gpc-lab demo
	@echo; echo 'One dispatch of 39 buses by four methods, and what an outage then breaks:'
	@CGO_ENABLED=0 $(GO) run -trimpath ./lab/secure --steps 1 --seed 2026 --methods mo-opf,dc-secure,direct,secure > out/demo/secure.txt
	@awk -F '  +' 'NR > 1 && NR < 7 {printf "%-11s %-7s %-3s %-17s %-12s %s\n", $$1, $$2, $$3, $$4, $$5, $$6}' out/demo/secure.txt
	@rm -rf out/gallery && mkdir -p out/gallery
	@echo; echo 'A map of a cart-pole from its equations, and its solvers, on 20 starts:'
	@bin/gpc compile cartpole --out out/gallery/cartpole.safetensors --rounds 1 --target 10% --tail 1000% --starts 100 --test-starts 200 > out/demo/compile.txt
	@grep ': the map of' out/demo/compile.txt | fold -s -w 79
	@bin/gpc eval pair cartpole --methods direct,direct-no-guard,mpc-10,nmpc --episodes 20 --seed 2026 --model out/gallery/cartpole.safetensors
	@echo; echo 'Next: open out/demo/report.html; a system of your own:'; echo 'bin/gpc new ../crane --source . (docs/tutorials/your-system.md)'

## test: the tests of every package, on every instruction set this machine has, and the CUDA path on the host shim (needs a C++20 compiler); what is exhaustive is make check's
test: tested
	$(CHECKED) -short ./... ./lab/...

## check: every test in full: all cases, sizes, faults and signals where make test takes some of each
check: tested
	$(CHECKED) ./... ./lab/...

# Without tables for a debugger a hundred test binaries link in half the time; make lint runs vet.
# Properties are drawn from one seed, so that no run fails where the last one passed; RAPID_SEED=0 draws anew.
# A package has an hour, which a hang alone takes: a slow machine beside other work fails no test.
HANGS = -timeout 60m
CHECKED = $(GO) test -vet=off -ldflags='-s -w' $(HANGS)
export RAPID_SEED ?= 1

tested:
	@# Modules outside this one are tested without a network: they need the go.mod of every module there is.
	@$(GO) mod graph > /dev/null
	@$(GO) run ./kernels/build shim

## race: the race detector on what is concurrent (needs a C compiler); it does not see inside assembly, so the suite runs on the Go kernels; without what is long and of one thread
UNRACED = HasLessRegretThan|AllocateNothing|DoesNotAllocate|AllocatesNothing|AgainstFloat64|^TestAutoSurvivesAFaultAtEveryDriverCall$$|^TestConformance$$/^avx|^TestConformance$$/^generic$$/^net|^TestNearestIsBruteForceBitForBit$$|^TestTheLoopThroughLinesIsThatOfEval$$/^integrator|^TestLimitsHold|^TestMarginsAreOfTheStateThatIsReached$$|^TestADelayIsPredictedAway$$|^TestAWindow
race:
	CGO_ENABLED=1 $(GO) test $(HANGS) -race -short -skip '$(UNRACED)' ./cpu_fallback/... ./internal/simd/neighbours ./dataset/... ./ocp ./train/... ./batchnav/... ./closedloop/... ./serve ./view ./kernels/driver ./kernels/shim ./engine
	CGO_ENABLED=1 $(GO) test $(HANGS) -race -short -run Threads ./paper/...
	CGO_ENABLED=1 $(GO) test $(HANGS) -race -short -run '^TestLoopsAreProjected|^TestFewLoops' ./kernels

## ui: the page of gpc view and gpc serve --ui from its TypeScript, view/ui to view/page; commit what it writes (needs node 20 and npm)
NPM ?= npm
ui: build/ui/ready
	cd view/ui && $(NPM) run --silent build
build/ui/ready: view/ui/package.json view/ui/package-lock.json
	cd view/ui && $(NPM) ci --silent --ignore-scripts
	mkdir -p build/ui && touch $@

## check-ui: make it again and fail where the committed page differs
check-ui: ui
	@git diff --exit-code --stat -- view/page || { echo 'the page differs from the committed one: run make ui and commit'; exit 1; }

## test-ui: drive it, and a report, in a headless Chromium (CHROMIUM=file), screenshots in out/ui; with DOCS=--docs those of docs/how-to/view.md too, with TIMES=--times how soon a drag changes the dispatch
test-ui: build lab build/ui/ready
	cd view/ui && node test.mjs $(DOCS) $(TIMES)

## python: the library of the Python package in place, python/gpc/_libgpc.so (Linux; needs a C compiler)
PYTHON ?= python3
python:
	@CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -buildmode=c-shared -ldflags '$(LDFLAGS)' -o python/gpc/_libgpc.so ./python/libgpc
	@rm -f python/gpc/_libgpc.h

## wheel: the Python package with its library, dist/gpc-VERSION-py3-none-manylinux_2_N_ARCH.whl, the same bytes for the same commit and tools (needs python3, a C compiler)
wheel: python build/wheel/ready
	@rm -rf dist
	@cd python && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) ../build/wheel/bin/hatchling build -t wheel -d ../dist
	@ls -l dist
build/wheel/ready: python/requirements/build.txt
	@$(PYTHON) -m venv build/wheel
	@build/wheel/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

## test-python: the wheel in a clean virtual environment, its type hints and its tests (PYTHON=python3.10 to python3.13; GPC_LONG=1: a million calls)
test-python: build wheel
	$(MAKE) test-wheel

# test-wheel is the same of the wheel that is in dist (TESTS=files)
TESTS ?= python/tests
test-wheel:
	rm -rf build/test-python
	$(PYTHON) -m venv build/test-python
	build/test-python/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r python/requirements/test.txt
	build/test-python/bin/python -m pip install --quiet --no-deps --no-index dist/gpc-*.whl
	$(MAKE) lint-python
	GPC=$(CURDIR)/bin/gpc build/test-python/bin/pytest -q -p no:cacheprovider $(TESTS)

# lint-python is the package's type hints, by mypy's strict rules, as this Python and its NumPy have them (after test-python)
lint-python:
	cd python && ../build/test-python/bin/mypy

## bench: latency and throughput of every operation against this machine's measured ceilings
bench: build
	bin/gpc bench

## lint: formatting, vet and staticcheck
lint: check-format
	$(GO) vet ./... ./lab/...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION) ./... ./lab/...

check-format:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }

## generate: rewrite generated assembly (generators are modules of their own, _asm/) and documents
generate:
	GOWORK=off $(GO) generate ./...
	GOWORK=off $(GO) -C lab generate ./...

## check-generated: fail when a generated file differs from what its generator writes
GENERATED = '*_amd64.s' '*/eig/stubs_amd64.go' '*/neighbours/stubs_amd64.go' '*/rollout/stubs_amd64.go' '*/dots/stubs_amd64.go' '*/dense/add_*_amd64.go' internal/gotrace/types.bundle docs/contribute/numerics.md
check-generated: generate
	@git diff --exit-code --stat -- $(GENERATED) || { echo 'generated files differ from the committed ones: run make generate and commit'; exit 1; }

## fuzz: each fuzz target for a short while (FUZZTIME=30s)
FUZZTIME ?= 15s
FUZZ = $(GO) test -run '^$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 20x
fuzz:
	$(FUZZ) -fuzz '^FuzzRead$$' ./model
	$(FUZZ) -fuzz '^FuzzRead$$' ./equations/program
	$(FUZZ) -fuzz '^FuzzUnmarshal$$' ./equations/systemfile
	$(FUZZ) -fuzz '^FuzzDecode$$' ./internal/policy
	$(FUZZ) -fuzz '^FuzzParse$$' ./kernels/ptx
	$(FUZZ) -fuzz '^FuzzOpen$$' ./dataset
	$(FUZZ) -fuzz '^FuzzCheckpoint$$' ./train
	$(FUZZ) -fuzz '^FuzzTrace$$' ./closedloop
	$(FUZZ) -fuzz '^FuzzReadState$$' ./closedloop
	$(FUZZ) -fuzz '^FuzzSceneFile$$' ./closedloop
	$(FUZZ) -fuzz '^FuzzExact$$' ./internal/jsonin
	$(FUZZ) -fuzz '^FuzzStage$$' ./paper/multiagent/world
	$(FUZZ) -fuzz '^FuzzStage$$' ./paper/opf
	$(FUZZ) -fuzz '^FuzzScene$$' ./closedloop
	$(FUZZ) -fuzz '^FuzzRecord$$' ./lab/report
	$(FUZZ) -fuzz '^FuzzRecord$$' ./lab/compare
	$(FUZZ) -fuzz '^FuzzTrace$$' ./lab/report
	$(FUZZ) -fuzz '^FuzzArguments$$' ./cli
	$(FUZZ) -fuzz '^FuzzLine$$' ./serve
	$(FUZZ) -fuzz '^FuzzRequest$$' ./view
	$(FUZZ) -fuzz '^FuzzBody$$' ./serve
	$(FUZZ) -fuzz '^FuzzReplay$$' ./paper/integrator
	$(FUZZ) -fuzz '^FuzzReplay$$' ./paper/multiagent/world
	$(FUZZ) -fuzz '^FuzzUnpack$$' ./kernels/images
	$(FUZZ) -fuzz '^FuzzReplay$$' ./paper/opf
	$(FUZZ) -fuzz '^FuzzEmbedded$$' ./paper/opf
	$(FUZZ) -fuzz '^FuzzRead$$' ./grid/formats
	$(FUZZ) -fuzz '^FuzzRead$$' ./grid/matpower
	$(FUZZ) -fuzz '^FuzzLoads$$' ./grid/series
	$(FUZZ) -fuzz '^FuzzLinear$$' ./grid/results
	$(FUZZ) -fuzz '^FuzzLines$$' ./grid/results

## docs: the generated parts of README.md and docs/*.md alone: from records, from the help of commands, from the comments of JSON keys
docs:
	$(GO) run ./lab/publish/pages
	$(GO) run ./cmd/gpc help --markdown > docs/reference/cli.md.new
	mv docs/reference/cli.md.new docs/reference/cli.md
	$(GO) generate ./cli ./grid/command ./lab/command

## site: docs/ as a static site in build/site/html, by MkDocs Material; a link that leads nowhere fails it
site: build/site/venv/ready
	$(PYTHON) lab/scripts/site/stage.py build/site/docs
	NO_MKDOCS_2_WARNING=1 build/site/venv/bin/mkdocs build --quiet --config-file build/site/mkdocs.yml
build/site/venv/ready: lab/scripts/site/requirements.txt
	$(PYTHON) -m venv build/site/venv
	build/site/venv/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r $<
	touch $@

# nvcc is the CUDA C++ compiler that `make kernels` uses, from its PyPI wheel, into build/nvcc (Linux, amd64)
NVRTC = nvidia-cuda-nvrtc-cu12==12.2.140 --hash=sha256:b1cdcae6443cb7cdcfb5d1bf51896a148c9f82f9e65b27db9ab095eaed689aa7
nvcc: build/nvcc/nvidia
build/nvcc/nvidia:
	mkdir -p build/nvcc
	echo '$(NVRTC)' > build/nvcc/requirements.txt
	python3 -m pip install --quiet --no-deps --require-hashes --only-binary :all: --target build/nvcc -r build/nvcc/requirements.txt

## kernels: CUDA sources to PTX (compute_80) and cubin (sm_90), in the folder images beside them; commit what it writes
kernels: nvcc
	$(GO) run ./kernels/build compile
	$(GO) run ./kernels/build compile examples/outside

## check-kernels: compile every kernel again and fail where the committed image differs
check-kernels: nvcc
	$(GO) run ./kernels/build verify
	$(GO) run ./kernels/build verify examples/outside

## gpu-bundle: what runs conformance and benchmarks on a machine with a GPU and without Go, in build/gpu-bundle (Linux, amd64)
gpu-bundle:
	lab/run bundle

## nightly: what is longer than a change waits for, before an issue is said to be resolved: every test in full, the kernels under checks and as PTX, other drivers and processors
nightly:
	.ci/nightly

## clean: remove what was built
clean:
	rm -rf bin out build dist python/gpc/_libgpc.so
