package command

import (
	"flag"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/testing/docsection"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// printed is what pf and opf print with --json, and the objects in it, in the order of their page.
var printed = []pages.Section{
	{Title: "`pf`", Value: results.PowerFlow{}}, {Title: "`pf outages`", Value: results.Security{}}, {Title: "`pf outages --scenarios`", Value: results.Scenarios{}},
	{Title: "`opf`", Value: optimalFlow{}}, {Title: "`opf secure`", Value: results.SecureFlow{}}, {Title: "`opf secure --loads`", Value: secureChain{}},
	{Title: "`opf batch`", Value: optima.OptimalFlows{}}, {Title: "`opf series`", Value: seriesResult{}},
	{Title: "Object `broken outage`", Value: results.Check{}}, {Title: "Object `limit`", Value: results.Limit{}}, {Title: "Object `generator`", Value: results.GenOutput{}}, {Title: "Object `branch`", Value: results.BranchFlow{}},
	{Title: "Object `load`", Value: closedloop.Load{}, Elsewhere: true},
}

var update = flag.Bool("update", false, "rewrite the section of docs/reference/json.md")

//go:generate go test . -count=1 -run JSONPage -update

// The page of JSON keys is what the comments of the fields say of pf and opf.
func TestTheJSONPageIsTheFieldsComments(t *testing.T) {
	text := require.Get(pages.WriteKeys("../..", printed))(t)
	section := docsection.Section{Begin: "<!-- keys of pf and opf: written by make docs -->", End: "<!-- end of keys of pf and opf -->"}
	if differs := require.Get(section.Replace("../../docs/reference/json.md", text, *update))(t); differs && !*update {
		t.Error("docs/reference/json.md is not what the comments of the fields say: run make docs")
	}
}
