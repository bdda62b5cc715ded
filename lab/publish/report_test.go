package publish

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/dynamicprogram"
	"github.com/gpc-engine/gpc/lab/report"
)

// known are the paper's cases, and "arena" with methods that are compared by their
// candidates.
func known() map[string]report.Case { return maps.Clone(knownCases()) }

var knownCases = sync.OnceValue(func() map[string]report.Case {
	catalogue := dynamicprogram.Cases()
	cases := report.CasesOf(catalogue.All())
	cases["arena"] = report.Case{Methods: []domain.Method{
		{Name: "planner", Needs: domain.NeedsMap, Candidates: 4096}, {Name: "planner-256", Needs: domain.NeedsMap, Candidates: 256},
		{Name: "planner-no-latent", Candidates: 4096}, {Name: "planner-no-latent-1024", Candidates: 1024},
	}}
	return cases
})

// recorded are the committed records, by device. They are read once; every test has copies, to
// which it may append.
func recorded(t *testing.T) (all []*report.Records) {
	t.Helper()
	for _, r := range require.Get(committed())(t) {
		own := *r
		all = append(all, &own)
	}
	return all
}

var committed = sync.OnceValues(func() ([]*report.Records, error) {
	return report.LoadAll(context.Background(), "../results", known())
})

// unwrapped is a page of the repository with its lines joined.
func unwrapped(t *testing.T, page string) string {
	t.Helper()
	return strings.Join(strings.Fields(string(require.Get(os.ReadFile(filepath.Join("../..", page)))(t))), " ")
}

// A figure in a generated part of a page that is not its record's, or a part without
// records, is found.
func TestTheDocumentsShowTheRecordedRuns(t *testing.T) {
	all := recorded(t)
	texts := require.Get(documentTexts(all))(t)
	differed := require.Get(placeTexts("../..", false, texts))(t)
	if len(differed) > 0 {
		t.Errorf("%v differ from lab/results; write them again with make docs", differed)
	}
	root := t.TempDir()
	pages := map[string][]byte{}
	for _, d := range documents {
		pages[d.page] = require.Get(os.ReadFile(filepath.Join("../..", d.page)))(t)
	}
	for page, text := range pages {
		require.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, page)), 0o755))
		require.OK(t, os.WriteFile(filepath.Join(root, page), text, 0o644))
	}
	for _, d := range documents {
		begin := strings.Index(string(pages[d.page]), d.marks().Begin) + len(d.marks().Begin)
		part, _, _ := bytes.Cut(pages[d.page][begin:], []byte(d.marks().End))
		at := bytes.IndexAny(part, "123456789")
		if at < 0 {
			at = strings.Index(string(part), noRecord)
		}
		forged := bytes.Clone(pages[d.page])
		forged[begin+at] ^= 1 // another digit, or letter where nothing is recorded
		path := filepath.Join(root, d.page)
		require.OK(t, os.WriteFile(path, forged, 0o644))
		if differed := require.Get(placeTexts(root, false, texts))(t); len(differed) != 1 || differed[0] != path {
			t.Errorf("a digit changed in %q of %s: %v differ", d.name, d.page, differed)
		}
		require.Get(placeTexts(root, true, texts))(t)
		if got := require.Get(os.ReadFile(path))(t); !bytes.Equal(got, pages[d.page]) {
			t.Errorf("%s is not what it was before %q was changed", d.page, d.name)
		}
	}
	if _, err := WriteDocuments(root, false); err == nil || !strings.Contains(err.Error(), "no records") {
		t.Errorf("without records: %v", err)
	}
	require.OK(t, os.WriteFile(filepath.Join(root, "README.md"), []byte("no marks\n"), 0o644))
	if _, err := placeTexts(root, true, texts); err == nil {
		t.Error("a document without marks was accepted")
	}
}

// What the text says of a record outside of the generated parts is what the record says.
func TestTheTextsFiguresAreTheRecords(t *testing.T) {
	all := devices(recorded(t))
	evaluation := func(name, method string) closedloop.Result {
		for _, r := range all {
			for _, e := range report.Of[closedloop.Result](r) {
				if e.Case == name && e.Method == method {
					return e
				}
			}
		}
		t.Fatalf("no record of %s in %s", method, name)
		return closedloop.Result{}
	}
	blind, planned := evaluation("multiagent-moving", "planner-no-lookahead"), evaluation("multiagent-moving", "planner")
	for _, want := range []struct{ page, text string }{
		{"docs/results/robots.md", fmt.Sprintf("a moving scene is not survived: %.0f of %d.", float64(blind.Safe)*float64(blind.Episodes), blind.Episodes)},
		{"docs/results/robots.md", fmt.Sprintf("In the %d 000 decisions of `planner` among moving obstacles %s found no plan", planned.Decisions/1000, []string{"none", "one", "two", "three", "four", "five"}[planned.Fallback])},
	} {
		if page := string(require.Get(os.ReadFile(filepath.Join("../..", want.page)))(t)); !strings.Contains(page, want.text) {
			t.Errorf("%s does not say %q", want.page, want.text)
		}
	}
}
