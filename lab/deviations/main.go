// Command deviations writes into docs/contribute/numerics.md how far every instruction set
// of this CPU, and the CUDA kernels on the host shim and as executed PTX, are from float64, operation
// by operation (backendtest.Deviations, rollouttest.Deviations), and with the bundled maps and objectives of
// the problems that have device functions (problems.go).
//
//	go run ./lab/deviations
//	go run ./lab/deviations -problems   these alone
//
// Its tables belong to the CPU it names, so `make generate` leaves them alone. The
// shim needs a C++20 compiler.
package main

import (
	"flag"
	"fmt"
	"log"
	"runtime"
	"strings"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/docsection"
	"github.com/gpc-engine/gpc/internal/testing/training"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// rows of every batch; docs/contribute/numerics.md says so.
const rows = 256

var (
	operations = docsection.Section{Begin: "<!-- begin measured: go run ./lab/deviations -->", End: "<!-- end measured -->"}
	ofProblems = docsection.Section{Begin: "<!-- begin measured problems: go run ./lab/deviations -problems -->", End: "<!-- end measured problems -->"}
)

func main() {
	log.SetFlags(0)
	page := flag.String("page", "docs/contribute/numerics.md", "page whose measured sections are rewritten")
	problems := flag.Bool("problems", false, "measure the problems with their bundled maps alone")
	flag.Parse()
	err := measure(*page, *problems)
	if err != nil {
		log.Fatal("deviations: ", err)
	}
}

func measure(page string, problems bool) error {
	made, err := open()
	if err != nil {
		return err
	}
	defer made.close()
	if !problems {
		section, err := made.table(func(b backend.Backend) ([]backendtest.Deviation, error) {
			d, err := backendtest.Deviations(b, rows)
			if err != nil {
				return nil, err
			}
			plans, err := planDeviations(b)
			return append(d, plans...), err
		})
		if err == nil {
			_, err = operations.Replace(page, section, true)
		}
		if err != nil {
			return err
		}
	}
	section, err := made.table(problemDeviations)
	if err == nil {
		_, err = ofProblems.Replace(page, section, true)
	}
	return err
}

// backends are the columns of a table.
type backends struct {
	all    []backend.Backend
	names  []string
	device string
}

// open gives the reference, whose deviation is the rounding of its results to float32
// alone, every instruction set of the CPU backend, and CUDA on the shim and as PTX.
func open() (*backends, error) {
	m := &backends{all: []backend.Backend{training.New()}, names: []string{"rounding alone"}}
	for _, level := range isa.Available() {
		b, err := cpufallback.New(cpufallback.Options{ISA: level.String()})
		if err != nil {
			return nil, err
		}
		m.all, m.names, m.device = append(m.all, b), append(m.names, level.String()), b.Describe().Device
	}
	for _, c := range []struct {
		name    string
		options kernels.Options
	}{{"cuda (shim)", kernels.Options{}}, {"cuda TF32 (shim)", kernels.Options{TF32: true}}} {
		b, err := onShim(c.options)
		if err != nil {
			return nil, err
		}
		m.all, m.names = append(m.all, b), append(m.names, c.name)
	}
	for _, c := range []struct {
		name    string
		options kernels.Options
	}{{"cuda (PTX executed)", kernels.Options{}}, {"cuda TF32 (PTX executed)", kernels.Options{TF32: true}}} {
		context, err := driver.Open(device.New(ptx.Options{}), 0)
		if err != nil {
			return nil, err
		}
		b, err := kernels.New(context, c.options)
		if err != nil {
			return nil, err
		}
		m.all, m.names = append(m.all, b), append(m.names, c.name)
	}
	return m, nil
}

func (m *backends) close() {
	for _, b := range m.all {
		b.Close()
	}
}

// table measures every backend.
func (m *backends) table(measure func(backend.Backend) ([]backendtest.Deviation, error)) (string, error) {
	var columns [][]backendtest.Deviation
	for i, b := range m.all {
		d, err := measure(b)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.names[i], err)
		}
		log.Printf("measured: %s", m.names[i])
		columns = append(columns, d)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "Made on %s (%s/%s), with %s.\n\n", m.device, runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintf(&s, "| operation | size | %s |\n|---|---%s|\n", strings.Join(m.names, " | "), strings.Repeat("|---", len(m.names)))
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
func onShim(options kernels.Options) (backend.Backend, error) {
	library, err := shim.Make()
	if err != nil {
		return nil, err
	}
	context, err := driver.Open(library, 0)
	if err != nil {
		return nil, err
	}
	return kernels.New(context, options)
}
