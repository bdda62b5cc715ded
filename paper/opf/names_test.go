package opf

import (
	"bytes"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every network is a valid case, with parallel branches and several units of one bus too: their
// entries are told apart by their number in the file, and the first keeps its name.
func TestEveryNetworkIsAValidCase(t *testing.T) {
	for _, name := range cases.Names() {
		for _, options := range []Options{{}, {Uncertain: true}} {
			c := require.Get(FromText(name, "a dispatch", require.Get(cases.Text(name))(t), options))(t)
			if err := c.Validate(); err != nil {
				t.Errorf("%s, %+v: %v", name, options, err)
			}
		}
	}
	text := append(bytes.Clone(require.Get(cases.Text("pglib_opf_case118_ieee"))(t)), "\nmpc.gen(2, 1) = 1;\nmpc.gen(3, 1) = 1;\n"...)
	c := require.Get(FromText("twins", "a dispatch", text, Options{Uncertain: true}))(t)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	spec := c.Problem.Spec()
	for name, in := range map[string][]domain.Variable{
		"S49-54": spec.Margins, "S49-54#2": spec.Margins, "b49-54#2": spec.Context, "Pg1#3": spec.Action, "Vg1#2": spec.Action, "ramp1#3": spec.Margins, "Pg_prev1#2": spec.Context,
	} {
		if !slices.ContainsFunc(in, func(v domain.Variable) bool { return v.Name == name }) {
			t.Errorf("no %s", name)
		}
	}
}
