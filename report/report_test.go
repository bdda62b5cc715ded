package report

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/testdomain"
	"github.com/gpc-engine/gpc/paper"
)

// known are the paper's cases, and "arena" with methods that are compared by their
// candidates.
func known() map[string]Case {
	catalogue := paper.Cases()
	cases := map[string]Case{}
	for _, c := range catalogue.All() {
		cases[c.Name()] = Case{Methods: c.Methods(), Paper: c.Definition().Paper}
	}
	cases["arena"] = Case{Methods: []domain.Method{
		{Name: "gpc", Needs: domain.NeedsMap, Candidates: 4096}, {Name: "gpc-256", Needs: domain.NeedsMap, Candidates: 256},
		{Name: "gpc-latent-search-256", Needs: domain.NeedsMap, Candidates: 256},
		{Name: "gpc-no-latent", Candidates: 4096}, {Name: "gpc-no-latent-1024", Candidates: 1024},
	}}
	return cases
}

// recorded are the committed records, by device.
func recorded(t *testing.T) []*Records {
	t.Helper()
	dirs, err := Devices("../bench/results")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%d folders of records, error %v", len(dirs), err)
	}
	var all []*Records
	for _, dir := range dirs {
		r := must.Get(Load(t.Context(), dir, known()))(t)
		all = append(all, r)
	}
	return all
}

// reported is the folder and the Markdown of a report of one record.
func reported(t *testing.T, record string) (dir, page string) {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(in, "record.json"), []byte(record), 0o644))
	r := must.Get(Load(t.Context(), in, known()))(t)
	if _, err := r.Write(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	text := must.Get(os.ReadFile(filepath.Join(out, "report.md")))(t)
	return out, string(text)
}

func TestTheCommittedReportsAreWhatTheRecordedRunsGive(t *testing.T) {
	for i, r := range recorded(t) {
		dir := t.TempDir()
		files := must.Get(r.Write(t.Context(), dir))(t)
		for _, f := range files {
			if info, err := os.Stat(f); err != nil || info.Size() == 0 {
				t.Errorf("%s was named and not written", f)
			}
		}
		got := must.Get(os.ReadFile(filepath.Join(dir, "report.md")))(t)
		committed := "../docs/results/report.md"
		if i > 0 {
			committed = filepath.Join("../docs/results", r.Device, "report.md")
		}
		want := must.Get(os.ReadFile(committed))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs; write it again with make report", committed)
		}
	}
}

func TestTheReadmeShowsTheRecordedRuns(t *testing.T) {
	want := must.Get(os.ReadFile("../README.md"))(t)
	path := filepath.Join(t.TempDir(), "README.md")
	must.OK(t, os.WriteFile(path, want, 0o644))
	if err := WriteSummary(path, recorded(t)...); err != nil {
		t.Fatal(err)
	}
	got := must.Get(os.ReadFile(path))(t)
	if !bytes.Equal(got, want) {
		t.Error("README.md differs; write it again with make report")
	}
	must.OK(t, os.WriteFile(path, []byte("no marks\n"), 0o644))
	if err := WriteSummary(path, recorded(t)...); err == nil {
		t.Error("a document without marks was accepted")
	}
}

// A case that two devices have recorded is summarized once, as on the first.
func TestSummaryOfSeveralDevices(t *testing.T) {
	eval := func(name, method string, regret float64) closedloop.Result {
		return closedloop.Result{Case: name, Method: method, Episodes: 1, RegretPct: closedloop.Number(regret)}
	}
	methods := batchnav.Methods(testdomain.NewCart(1), false)
	cases := map[string]Case{"one": {Methods: methods}, "two": {Methods: methods}}
	a := &Records{Evaluations: []closedloop.Result{eval("one", "gpc", 1)}, cases: cases}
	b := &Records{Evaluations: []closedloop.Result{eval("one", "gpc", 2), eval("two", "gpc", 3)}, cases: cases}
	text := Summary(a, b)
	if strings.Count(text, "| one |") != 1 || !strings.Contains(text, "| one | `gpc` | 1.0000") || !strings.Contains(text, "| two | `gpc` | 3.0000") {
		t.Errorf("the summary is\n%s", text)
	}
}

func TestAFileThatIsNoRecordIsNamed(t *testing.T) {
	for name, text := range map[string]string{"empty.json": "{}", "broken.json": "{", "cut.jsonl": "{}\n"} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		if _, err := Load(t.Context(), dir, known()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A front over three objectives is two figures; a preference without a comparison is
// in neither, and a front without any gives none.
func TestFrontsOfThreeObjectives(t *testing.T) {
	nan := closedloop.Number(math.NaN())
	s := &closedloop.Steering{Case: "grid", Method: "gpc", Front: []closedloop.FrontPoint{
		{J: []closedloop.Number{2, 0.03, 110}, OracleJ: []closedloop.Number{1, 1e-6, 100}},
		{J: []closedloop.Number{nan, nan, nan}, OracleJ: []closedloop.Number{nan, nan, nan}},
		{J: []closedloop.Number{3, 0.02, 105}, OracleJ: []closedloop.Number{2, 0.01, 90}},
	}}
	figures := steeringFigures(*s)
	if len(figures) != 2 || figures[0].Name != "grid-front-1" || figures[1].Name != "grid-front-2" {
		t.Fatalf("%d figures", len(figures))
	}
	for i, f := range figures {
		svg, err := f.SVG()
		if err != nil || bytes.Contains(svg, []byte("NaN")) {
			t.Errorf("figure %d: %v, or a coordinate that is not a number", i, err)
		}
	}
	s.Front = s.Front[1:2]
	if figures := steeringFigures(*s); len(figures) != 0 {
		t.Errorf("without a comparison: %d figures", len(figures))
	}
}
