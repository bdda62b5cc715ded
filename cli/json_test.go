package cli

import (
	"flag"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/docsection"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// printed is what each command prints with --json, and the objects in it, in the order of their page.
var printed = []pages.Section{
	{Title: "`new`", Value: moduleResult{}}, {Title: "`cases`", Value: listed{}}, {Title: "`system`", Value: writtenSystem{}}, {Title: "`check`", Value: checked{}}, {Title: "Object `finding`", Value: diagnosis.Finding{}}, {Title: "`methods`", Value: methods{}},
	{Title: "Object `spec`", Value: gpc.SpecDescription{}}, {Title: "Object `variable`", Value: gpc.VariableDescription{}}, {Title: "Object `switch`", Value: domain.Switch{}},
	{Title: "`doctor`", Value: doctor{}}, {Title: "`dataset`", Value: dataset.Counters{}}, {Title: "`dataset merge`", Value: merged{}}, {Title: "`train`", Value: Trained{}},
	{Title: "`compile`", Value: compile.Report{}}, {Title: "Object `score`", Value: compile.Score{}}, {Title: "`refine`", Value: batchnav.Refinement{}}, {Title: "`front`", Value: Trades{}},
	{Title: "`serve`", Note: "One object a line, for each line that was read, with or without `--json`, and the same over HTTP. The keys of each operation stand in [serve.md](serve.md).", Value: serve.Answer{}},
	{Title: "`eval`, `eval join`, `plant`", Value: closedloop.Result{}}, {Title: "`eval pair`", Value: closedloop.Pairing{}},
	{Title: "`scene`", Value: sceneResult{}}, {Title: "`mcap`", Value: gpc.Recorded{}}, {Title: "`eval compare`", Value: closedloop.Compared{}},
	{Title: "Object `missing reference`", Value: closedloop.MissingReference{}}, {Title: "Object `distribution`", Value: closedloop.RegretStatistics{}},
	{Title: "Object `band`", Note: "A quantity at each point along the episodes, over those that came so far.", Value: closedloop.Band{}},
	{Title: "Object `latency`", Value: closedloop.Latency{}}, {Title: "Object `quantiles`", Value: closedloop.Quantiles{}}, {Title: "Object `load`", Value: closedloop.Load{}}, {Title: "Object `guard`", Value: closedloop.GuardCounts{}},
	{Title: "Object `integration`", Value: closedloop.Integration{}},
	{Title: "Object `manifold losses`", Value: backend.ManifoldLosses{}}, {Title: "Object `rollout losses`", Value: backend.RolloutLosses{}},
	{Title: "`view`", Value: viewed{}}, {Title: "`verify`", Value: closedloop.Verification{}},
	{Title: "`steer`", Value: closedloop.Steering{}}, {Title: "`export`", Value: export.Result{}}, {Title: "`bench`", Value: bench.Record{}},
	{Title: "Object `measurement`", Value: bench.Result{}},
}

var update = flag.Bool("update", false, "rewrite the generated section of docs/reference/json.md")

//go:generate go test . -count=1 -run JSONPage -update

// The page of JSON keys is what the comments of the fields say of every command, except of pf and opf, which grid/command writes.
func TestTheJSONPageIsTheFieldsComments(t *testing.T) {
	text := require.Get(pages.WriteKeys("..", printed))(t)
	section := docsection.Section{Begin: "<!-- keys of the commands: written by make docs -->", End: "<!-- end of keys of the commands -->"}
	if differs := require.Get(section.Replace("../docs/reference/json.md", text, *update))(t); differs && !*update {
		t.Error("docs/reference/json.md is not what the comments of the fields say: run make docs")
	}
}

// Every command has a section on the page of JSON keys.
func TestEveryCommandHasASectionOfJSON(t *testing.T) {
	app, _ := cart(t)
	var titles strings.Builder
	for _, s := range printed {
		titles.WriteString(s.Title)
	}
	var visit func(parent *cobra.Command, path string)
	visit = func(parent *cobra.Command, path string) {
		for _, c := range parent.Commands() {
			name := path + c.Name()
			if visit(c, name+" "); c.RunE != nil && c.GroupID != "help" && !strings.Contains(titles.String(), "`"+name+"`") {
				t.Errorf("%s is a command whose JSON is not on the page", name)
			}
		}
	}
	visit(app.root(), "")
}

// The backend is named in one line; of a GPU it speaks where there is one, or a driver that
// gives none.
func TestTheBackendIsNamedInOneLine(t *testing.T) {
	about := gpc.About{Backend: "cpu", ISA: "avx2", Threads: 2, Reason: "auto: the CPU, because CUDA is not to be had: device 0 is old\ndevice 1 is older"}
	if got := BackendLine(about, false); got != "backend cpu (avx2, 2 threads)" {
		t.Errorf("without a driver: %q", got)
	}
	if got := BackendLine(about, true); strings.Contains(got, "\n") || !strings.HasSuffix(got, "device 0 is old; device 1 is older") {
		t.Errorf("with a driver: %q", got)
	}
	about.Backend = "cuda"
	if got := BackendLine(about, false); !strings.Contains(got, "CUDA") {
		t.Errorf("on a GPU: %q", got)
	}
}
