package report

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/dynamicprogram"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// known are the paper's cases, and "arena" with methods that are compared by their
// candidates.
func known() map[string]Case { return maps.Clone(knownCases()) }

var knownCases = sync.OnceValue(func() map[string]Case {
	catalogue := dynamicprogram.Cases()
	cases := CasesOf(catalogue.All())
	cases["arena"] = Case{Methods: []domain.Method{
		{Name: "planner", Needs: domain.NeedsMap, Candidates: 4096}, {Name: "planner-256", Needs: domain.NeedsMap, Candidates: 256},
		{Name: "planner-no-latent", Candidates: 4096}, {Name: "planner-no-latent-1024", Candidates: 1024},
	}}
	return cases
})

// recorded are the committed records, by device. They are read once; every test has copies, to
// which it may append.
func recorded(t *testing.T) (all []*Records) {
	t.Helper()
	for _, r := range require.Get(committed())(t) {
		own := *r
		all = append(all, &own)
	}
	return all
}

var committed = sync.OnceValues(func() ([]*Records, error) {
	return LoadAll(context.Background(), "../results", known())
})

// reported is the folder and the Markdown of a report of one record.
func reported(t *testing.T, record string) (dir, page string) {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	require.OK(t, os.WriteFile(filepath.Join(in, "record.json"), []byte(record), 0o644))
	r := require.Get(Load(t.Context(), in, known()))(t)
	if _, err := r.Write(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	text := require.Get(os.ReadFile(filepath.Join(out, "report.md")))(t)
	return out, string(text)
}

func TestTheCommittedReportsAreWhatTheRecordedRunsGive(t *testing.T) {
	for i, r := range recorded(t) {
		dir := t.TempDir()
		files := require.Get(r.Write(t.Context(), dir))(t)
		for _, f := range files {
			if info, err := os.Stat(f); err != nil || info.Size() == 0 {
				t.Errorf("%s was named and not written", f)
			}
		}
		got := require.Get(os.ReadFile(filepath.Join(dir, "report.md")))(t)
		committed := "../../docs/results/report.md"
		if i > 0 {
			committed = filepath.Join("../../docs/results", r.Device, "report.md")
		}
		want := require.Get(os.ReadFile(committed))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs; write it again with lab/run report", committed)
		}
	}
}

func TestAFileThatIsNoRecordIsNamed(t *testing.T) {
	for name, text := range map[string]string{"empty.json": "{}", "broken.json": "{", "cut.jsonl": "{}\n"} {
		dir := t.TempDir()
		require.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		if _, err := Load(t.Context(), dir, known()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Evaluations of one case that are of two problems, or of two maps though their methods have
// the case's, are refused: both are named.
func TestRecordsOfTwoProblemsOrMapsAreRefused(t *testing.T) {
	first, second := strings.Repeat("a", 64), strings.Repeat("b", 64)
	load := func(change func(r *closedloop.Result)) error {
		dir := t.TempDir()
		one, other := testrecords.Run("opf30", "navigator", "paper", 1), testrecords.Run("opf30", "direct", "paper", 1)
		one.ProblemSHA256, one.ModelSHA256 = first, first
		other.ProblemSHA256, other.ModelSHA256 = first, first
		change(&other)
		for name, r := range map[string]closedloop.Result{"a.json": one, "b.json": other} {
			require.OK(t, os.WriteFile(filepath.Join(dir, name), require.Get(json.Marshal(r))(t), 0o644))
		}
		_, err := Load(t.Context(), dir, known())
		return err
	}
	for what, change := range map[string]func(r *closedloop.Result){
		"two problems": func(r *closedloop.Result) { r.ProblemSHA256 = second },
		"two maps":     func(r *closedloop.Result) { r.ModelSHA256 = second },
	} {
		if err := load(change); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), second) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func(r *closedloop.Result){
		"of one":              func(*closedloop.Result) {},
		"of an older program": func(r *closedloop.Result) { r.ProblemSHA256, r.ModelSHA256 = "", "" },
		"without a map":       func(r *closedloop.Result) { r.Method, r.ModelSHA256 = "mo-opf", "" },
		"on another plant":    func(r *closedloop.Result) { r.ProblemSHA256, r.Shift = second, map[string]float64{"load": 0.9} },
	} {
		if err := load(change); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A front over three objectives is two figures; a preference without a comparison is
// in neither, and a front without any gives none.
func TestFrontsOfThreeObjectives(t *testing.T) {
	nan := closedloop.Number(math.NaN())
	s := &closedloop.Steering{Case: "grid", Method: "navigator", Front: []closedloop.FrontPoint{
		{J: []closedloop.Number{2, 0.03, 110}, OracleJ: []closedloop.Number{1, 1e-6, 100}},
		{J: []closedloop.Number{nan, nan, nan}, OracleJ: []closedloop.Number{nan, nan, nan}},
		{J: []closedloop.Number{3, 0.02, 105}, OracleJ: []closedloop.Number{2, 0.01, 90}},
	}}
	figures := New("here", nil).steeringFigures(*s)
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
	if figures := New("here", nil).steeringFigures(*s); len(figures) != 0 {
		t.Errorf("without a comparison: %d figures", len(figures))
	}
}

// A compressed trace is drawn as the same trace.
func TestCompressedTrace(t *testing.T) {
	plain, packed := t.TempDir(), t.TempDir()
	require.OK(t, os.WriteFile(filepath.Join(plain, "arena.jsonl"), []byte(arenaText()), 0o644))
	var text bytes.Buffer
	w := gzip.NewWriter(&text)
	_, err := w.Write([]byte(arenaText()))
	require.OK(t, err)
	require.OK(t, w.Close())
	require.OK(t, os.WriteFile(filepath.Join(packed, "arena.jsonl.gz"), text.Bytes(), 0o644))
	a, err := Load(t.Context(), plain, known())
	require.OK(t, err)
	b, err := Load(t.Context(), packed, known())
	require.OK(t, err)
	if len(a.Traces) != 1 || fmt.Sprint(a.Traces) != fmt.Sprint(b.Traces) {
		t.Errorf("traces %v, compressed %v", a.Traces, b.Traces)
	}
	require.OK(t, os.WriteFile(filepath.Join(packed, "arena.jsonl.gz"), text.Bytes()[:40], 0o644))
	if _, err := Load(t.Context(), packed, known()); err == nil {
		t.Error("a cut file is read")
	}
}
