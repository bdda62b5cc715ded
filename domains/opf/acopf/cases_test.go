package acopf

import (
	"testing"

	"github.com/gpc-engine/gpc/domains/opf/network"
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
