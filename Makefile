# gpc: build, run and test. Everything a fresh machine needs beyond Go and make
# is installed by a target below.
GO        ?= go
COMMIT    := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X github.com/gpc-engine/gpc/internal/version.Commit=$(COMMIT)
STATICCHECK_VERSION := v0.8.2

.DEFAULT_GOAL := build
.PHONY: build run test race bench lint generate deviations check-generated fuzz kernels models clean

## build: the gpc binary, without cgo, in bin/gpc
build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/gpc ./cmd/gpc

## run: decide, refine 4096 candidates for every case, check them under the true dynamics, draw the results in out/demo
run: build
	bin/gpc demo --out out/demo

## test: every test, on every instruction set this machine has
test:
	$(GO) test ./...

## race: the race detector on what is concurrent (needs a C compiler); it does not see inside assembly, so the suite runs on the Go kernels
race:
	CGO_ENABLED=1 $(GO) test -race -short -skip '^TestConformance$$/^avx' ./cpu_fallback/... ./internal/neighbours ./offline/... ./train/... ./batchnav/... ./closedloop/...
	CGO_ENABLED=1 $(GO) test -race -short -run Threads ./domains/...

## bench: latency and throughput of every operation against this machine's measured ceilings
bench: build
	bin/gpc bench

## lint: vet and staticcheck
lint:
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION) ./...

## generate: rewrite generated assembly (generators are modules of their own, _asm/) and documents
generate:
	$(GO) generate ./...

## deviations: measure every instruction set of this CPU against float64, into docs/numerics.md
deviations:
	$(GO) run ./internal/backendtest/deviations

## check-generated: fail when a generated file differs from what its generator writes
GENERATED = '*_amd64.s' '*/eig/stubs_amd64.go' '*/neighbours/stubs_amd64.go' '*/rollout/stubs_amd64.go' docs/numerics.md
check-generated: generate
	@git diff --exit-code --stat -- $(GENERATED) || { echo 'generated files differ from the committed ones: run make generate and commit'; exit 1; }

## fuzz: each fuzz target for a short while (FUZZTIME=30s)
FUZZTIME ?= 15s
FUZZ = $(GO) test -run '^$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 20x
fuzz:
	$(FUZZ) -fuzz '^FuzzRead$$' ./model
	$(FUZZ) -fuzz '^FuzzOpen$$' ./offline
	$(FUZZ) -fuzz '^FuzzCheckpoint$$' ./train
	$(FUZZ) -fuzz '^FuzzTrace$$' ./closedloop
	$(FUZZ) -fuzz '^FuzzReadState$$' ./closedloop
	$(FUZZ) -fuzz '^FuzzReplay$$' ./domains/integrator
	$(FUZZ) -fuzz '^FuzzReplay$$' ./domains/multiagent

.PHONY: results

## results: record the runs behind the report (RESULTS=bench/results/NAME), then draw them in docs/results
RESULTS ?= bench/results/local
results: build
	scripts/results.sh $(RESULTS)
	bin/gpc report --results $(RESULTS) --out docs/results

## kernels: CUDA sources to PTX and cubin (this version has no CUDA backend)
kernels:
	@echo 'this version computes on the CPU: there are no CUDA sources to compile'

## models: make the bundled models again from nothing (about half an hour on two cores)
models: build
	scripts/models.sh

clean:
	rm -rf bin out build
