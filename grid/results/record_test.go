package results

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A record that shards and interrupted runs have written gives the bytes of one run without any. What it has is not solved
// again, and of another list it is refused.
func TestARecordIsTheWhole(t *testing.T) {
	c := networktest.Case(t, "case_ieee30")
	n := require.Get(network.New(c))(t)
	list, _ := secure.Named(n, "all")
	lines, labels := &strings.Builder{}, 0
	for i := range n.Branches() {
		for j := range i {
			fmt.Fprintf(lines, "branch %d, branch %d\n", n.BranchRow[j]+1, n.BranchRow[i]+1)
			labels++
		}
	}
	for g := range n.Gens() {
		for k := range n.Branches() {
			for j := range k {
				fmt.Fprintf(lines, "%d %d %d: unit %d, branch %d, branch %d\n", g, j, k, n.GenRow[g]+1, n.BranchRow[j]+1, n.BranchRow[k]+1)
				labels++
			}
		}
		if labels > 2*outagesPerPart {
			break
		}
	}
	_, groups, err := ReadOutages(n, "pairs", strings.NewReader(lines.String()))
	require.OK(t, err)
	opt := SecurityOptions{Emergency: 1.2, Threads: 2, List: list, Groups: groups}
	flow := FlowProblem{Options: powerflow.Options{EnforceQ: true}}
	all := require.Get(After(t.Context(), n, flow, opt))(t)
	opt.Worst = 300 // which are those of the whole list, with its counts
	after := func(ctx context.Context, r *Record, progress func(done, total int)) (string, error) {
		opt := opt
		opt.Record, opt.Progress = r, progress
		got, err := After(ctx, n, flow, opt)
		if err != nil {
			return "", err
		}
		got.WallMS = 0
		return string(require.Get(json.Marshal(got))(t)), nil
	}
	whole := require.Get(after(t.Context(), nil, nil))(t)
	all.WallMS, all.Outages = 0, all.Outages[:300]
	if text := require.Get(json.Marshal(all))(t); string(text) != whole || all.Count != len(list)+len(groups) || all.Breaking+all.Secure+all.Unsolved > all.Count {
		t.Errorf("the worst 300 of %d outages are not those of the whole list", all.Count)
	}
	folder := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	if _, err := after(ctx, &Record{Folder: folder, Index: 1, Count: 2}, func(done, _ int) {
		if done == 10 {
			stop()
		}
	}); err == nil {
		t.Error("a run that was interrupted has no error")
	}
	for i := range 2 {
		if part := require.Get(after(t.Context(), &Record{Folder: folder, Index: i, Count: 2}, nil))(t); strings.Contains(part, fmt.Sprintf(`"count":%d,`, all.Count)) {
			t.Errorf("shard %d counts all outages", i)
		}
	}
	files := require.Get(filepath.Glob(filepath.Join(folder, "*")))(t)
	if want := (len(list) + len(groups) + outagesPerPart - 1) / outagesPerPart; len(files) != want || want < 3 {
		t.Fatalf("%d files of %d parts", len(files), want)
	}
	before := require.Get(os.Stat(files[0]))(t)
	calls := 0
	if joined := require.Get(after(t.Context(), &Record{Folder: folder}, func(int, int) { calls++ }))(t); joined != whole {
		t.Error("the joined shards differ from one run")
	}
	if again := require.Get(os.Stat(files[0]))(t); calls != 0 || again.ModTime() != before.ModTime() {
		t.Errorf("a whole record was solved again: %d calls of progress", calls)
	}
	refused := func(of string, record *Record) {
		if _, err := after(t.Context(), record, nil); err == nil || !strings.Contains(err.Error(), "another network, list, options or build") {
			t.Errorf("a record of another %s: %v", of, err)
		}
	}
	// What the power flow without outages does not depend on: a unit's largest power, which chooses a reference, numbers.
	original := n
	for of, edit := range map[string]func(n *network.Network){
		"P_max":      func(n *network.Network) { n.PMax = edited(n.PMax) },
		"P_min":      func(n *network.Network) { n.PMin = edited(n.PMin) },
		"bus number": func(n *network.Network) { n.BusID = slices.Clone(n.BusID); n.BusID[3] = 333 },
		"branch row": func(n *network.Network) { n.BranchRow = slices.Clone(n.BranchRow); n.BranchRow[40] = 99 },
	} {
		copied := *original
		n = &copied
		edit(n)
		refused(of, &Record{Folder: folder})
	}
	n = original
	opt.List = list[1:]
	refused("list", &Record{Folder: folder})
}

// edited are values of which one is another.
func edited(values []float64) []float64 {
	values = slices.Clone(values)
	values[len(values)-1] += 0.01
	return values
}
