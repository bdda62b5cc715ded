package command

import (
	"flag"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/docsection"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/certificate"
	"github.com/gpc-engine/gpc/lab/compare"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// printed is what the laboratory's commands print with --json, in the order of their page.
var printed = []pages.Section{
	{Title: "`gpc-lab demo`", Value: demonstration{}}, {Title: "`gpc-lab report`", Value: drawn{}},
	{Title: "`gpc-lab compare`", Value: compare.Comparison{}}, {Title: "`gpc-lab certify`", Value: certificate.Certified{}}, {Title: "`gpc-lab bench deadline`", Note: "A release is the moment at which a decision should begin.", Value: deadline.Deadlines{}}, {Title: "Object `times`", Value: deadline.Spread{}},
	{Title: "`gpc-lab bench scaling`", Value: scaling.Scaling{}},
	{Title: "`refine`", Value: batchnav.Refinement{}, Elsewhere: true}, {Title: "`train`", Value: cli.Trained{}, Elsewhere: true},
	{Title: "`eval`, `eval join`, `plant`", Value: closedloop.Result{}, Elsewhere: true}, {Title: "Object `measurement`", Value: bench.Result{}, Elsewhere: true},
	{Title: "Object `load`", Value: closedloop.Load{}, Elsewhere: true},
}

var update = flag.Bool("update", false, "rewrite the generated section of docs/reference/json.md")

//go:generate go test . -count=1 -run JSONPage -update

// The page of JSON keys is what the comments of the fields say of the laboratory's commands.
func TestTheJSONPageIsTheFieldsComments(t *testing.T) {
	text := require.Get(pages.WriteKeys("../..", printed))(t)
	section := docsection.Section{Begin: "<!-- keys of the laboratory: written by make docs -->", End: "<!-- end of keys of the laboratory -->"}
	if differs := require.Get(section.Replace("../../docs/reference/json.md", text, *update))(t); differs && !*update {
		t.Error("docs/reference/json.md is not what the comments of the fields say: run make docs")
	}
}
