package acopf

import (
	"testing"

	"github.com/gpc-engine/gpc/domains/opf/acopf/internal/lanes"
	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/matpower/cases"
)

// load is a network that is shipped with the project.
func load(tb testing.TB, name string) *network.Network {
	tb.Helper()
	c, err := cases.Read(name)
	if err != nil {
		tb.Fatal(err)
	}
	n, err := network.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// kernels lists every way to run programs that this CPU and build have.
func kernels() (out []kernel) {
	for _, level := range isa.Available() {
		for _, n := range lanes.Widths(level) {
			out = append(out, kernel{level, n})
		}
	}
	return out
}
