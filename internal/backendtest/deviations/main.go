// Command deviations writes into docs/numerics.md how far every instruction set
// of this CPU, and the CUDA kernels on the host shim, are from float64, operation
// by operation (backendtest.Deviations, rollouttest.Deviations).
//
//	go run ./internal/backendtest/deviations
//
// Its table belongs to the CPU it names, so `make generate` leaves it alone. The
// shim needs a C++20 compiler.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"

	"github.com/google/renameio/v2"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
	"github.com/gpc-engine/gpc/domains/multiagent/rollout/rollouttest"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/backendtest"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// rows of every batch; docs/numerics.md says so.
const rows = 256

const (
	begin = "<!-- begin measured: go run ./internal/backendtest/deviations -->\n"
	end   = "<!-- end measured -->\n"
)

func main() {
	log.SetFlags(0)
	page := flag.String("page", "docs/numerics.md", "page whose measured section is rewritten")
	flag.Parse()
	section, err := table()
	if err == nil {
		err = rewrite(*page, section)
	}
	if err != nil {
		log.Fatal("deviations: ", err)
	}
}

// table measures the reference, whose deviation is the rounding of its results
// to float32 alone, and every instruction set of the CPU backend.
func table() (string, error) {
	backends := []backend.Backend{ref.New()}
	names := []string{"rounding alone"}
	rollouts := []rollout.Evaluator{nil}
	device := ""
	for _, level := range isa.Available() {
		b, err := cpufallback.New(cpufallback.Options{ISA: level.String()})
		if err != nil {
			return "", err
		}
		defer b.Close()
		backends, names, device = append(backends, b), append(names, level.String()), b.Describe().Device
		rollouts = append(rollouts, rollout.NewProcessor(rollout.On(level)))
	}
	for _, c := range []struct {
		name    string
		options kernels.Options
	}{{"cuda (shim)", kernels.Options{}}, {"cuda TF32 (shim)", kernels.Options{TF32: true}}} {
		b, err := onShim(c.options)
		if err != nil {
			return "", err
		}
		defer b.Close()
		backends, names = append(backends, b), append(names, c.name)
		device, err := rollout.NewDevice(b)
		if err != nil {
			return "", err
		}
		rollouts = append(rollouts, device)
	}
	var columns [][]backendtest.Deviation
	for i, b := range backends {
		d, err := backendtest.Deviations(b, rows)
		if err != nil {
			return "", fmt.Errorf("%s: %w", names[i], err)
		}
		plans, err := rollouttest.Deviations(rollouts[i], rows)
		if err != nil {
			return "", fmt.Errorf("%s: %w", names[i], err)
		}
		for _, p := range plans {
			d = append(d, backendtest.Deviation{Operation: p.Operation, Size: p.Size, Absolute: p.Absolute, Relative: p.Relative})
		}
		columns = append(columns, d)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "Made on %s (%s/%s), with %s.\n\n", device, runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintf(&s, "| operation | size | %s |\n|---|---%s|\n", strings.Join(names, " | "), strings.Repeat("|---", len(names)))
	for i, d := range columns[0] {
		fmt.Fprintf(&s, "| %s | %s |", d.Operation, d.Size)
		for _, c := range columns {
			fmt.Fprintf(&s, " %.1e / %.1e |", c[i].Absolute, c[i].Relative)
		}
		s.WriteByte('\n')
	}
	return s.String(), nil
}

// onShim is the CUDA backend on the host shim.
func onShim(options kernels.Options) (*kernels.Backend, error) {
	root, err := shim.Root()
	if err != nil {
		return nil, err
	}
	sources, err := shim.Sources(root)
	if err != nil {
		return nil, err
	}
	path, err := shim.Build(root, sources)
	if err != nil {
		return nil, err
	}
	library, err := shim.Load(path)
	if err != nil {
		return nil, err
	}
	context, err := driver.Open(library, 0)
	if err != nil {
		return nil, err
	}
	return kernels.New(context, options)
}

func rewrite(page, section string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf("%s has no section between %q and %q", page, begin, end)
	}
	return renameio.WriteFile(page, []byte(string(before)+begin+section+end+string(after)), 0o644)
}
