package dataset

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// sharded makes the toy dataset as three shards, and merges them.
func sharded(t *testing.T) (dirs []string, out string, merged *Dataset) {
	t.Helper()
	for i := range 3 {
		opt := options(t.TempDir())
		opt.Shard = Shard{2 - i, 3}
		generate(t, opt)
		dirs = append(dirs, opt.OutDir)
	}
	out = filepath.Join(t.TempDir(), "merged")
	return dirs, out, require.Get(Merge(t.Context(), out, dirs...))(t)
}

func TestShardsMergeToTheWhole(t *testing.T) {
	whole := t.TempDir()
	generate(t, options(whole))
	d, want := load(t, whole)
	_, out, merged := sharded(t)
	_, got := load(t, out)
	if !reflect.DeepEqual(got, want) || merged.Hash() != d.Hash() {
		t.Error("merged shards hold other samples than the whole")
	}
	a, b := merged.Counters, d.Counters
	a.WallSeconds, b.WallSeconds = 0, 0
	if !reflect.DeepEqual(a, b) {
		t.Errorf("merged counters are %+v, want %+v", a, b)
	}
	for chunk := range d.Header.chunks() {
		if a, b := read(t, filepath.Join(out, partName(chunk))), read(t, filepath.Join(whole, partName(chunk))); !bytes.Equal(a, b) {
			t.Errorf("part %d has other bytes than that of one machine", chunk)
		}
	}
}

// Merged a second time, in another order, with a shard that was made twice, or where an
// interrupted merge has left some of it, shards are what they were.
func TestMergingAgainChangesNothing(t *testing.T) {
	whole := t.TempDir()
	generate(t, options(whole))
	dirs, out, d := sharded(t)
	twice := options(t.TempDir())
	twice.Shard, twice.Command = Shard{1, 3}, "again"
	generate(t, twice)
	before := contents(t, out)
	for _, given := range [][]string{dirs, {dirs[1], dirs[2], dirs[0]}, append(dirs[:3:3], dirs[0], twice.OutDir), {twice.OutDir, dirs[0], dirs[2]}} {
		if again, err := Merge(t.Context(), out, given...); err != nil || again.Hash() != d.Hash() {
			t.Errorf("merging %v again: %v", given, err)
		}
		if !maps.Equal(contents(t, out), before) {
			t.Errorf("merging %v again changes the dataset", given)
		}
		fresh := filepath.Join(t.TempDir(), "m")
		if _, err := Merge(t.Context(), fresh, given...); err != nil {
			t.Errorf("merging %v: %v", given, err)
		}
		for chunk := range d.Header.chunks() {
			if !bytes.Equal(read(t, filepath.Join(fresh, partName(chunk))), read(t, filepath.Join(whole, partName(chunk)))) {
				t.Errorf("merging %v gives other bytes in part %d", given, chunk)
			}
		}
	}
	// What an interrupted merge has left is completed.
	require.OK(t, os.Remove(filepath.Join(out, headerName)))
	require.OK(t, os.Remove(filepath.Join(out, partName(3))))
	if _, err := Merge(t.Context(), out, dirs...); err != nil || !maps.Equal(contents(t, out), before) {
		t.Errorf("completing a merge: %v", err)
	}
}

func TestMergeRefusals(t *testing.T) {
	dirs, out, _ := sharded(t)
	twice := options(t.TempDir())
	twice.Shard = Shard{1, 3}
	generate(t, twice)
	other := options(t.TempDir())
	other.Seed = 6
	generate(t, other)
	// The same provenance with other samples: only a solver that is not deterministic makes it.
	odd := options(t.TempDir())
	odd.Shard = Shard{1, 3}
	require.Get(Generate(t.Context(), domain.Case{Problem: toy{}, Solver: mutant{&toySolver{}, func(s []domain.Sample) { s[0].U[0] += 0.25 }}}, odd, nil))(t)
	for _, c := range []struct {
		want, target string
		dirs         []string
	}{
		{"shard 2/3 is missing", "", dirs[1:]},
		{"shards 0/3, 2/3 are missing", "", dirs[1:2]},
		{"both hold part 1 (shard 1/3), with other samples", "", append(dirs[:3:3], odd.OutDir)},
		{"part 1 has other samples than " + odd.OutDir, out, []string{dirs[0], odd.OutDir, dirs[2]}},
		{"seed is 5, want 6", other.OutDir, dirs},
		{"it is shard 1/3", twice.OutDir, dirs},
		{filepath.Join(dirs[0], "none", headerName) + ": no such file or directory\ndataset: open " + filepath.Join(dirs[0], "nothing"), "", []string{filepath.Join(dirs[0], "none"), dirs[1], filepath.Join(dirs[0], "nothing")}},
	} {
		if c.target == "" {
			c.target = filepath.Join(t.TempDir(), "m")
		}
		if _, err := Merge(t.Context(), c.target, c.dirs...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %q", err, c.want)
		}
	}
	opt := options(t.TempDir())
	opt.Seed, opt.Shard = 6, Shard{2, 3}
	generate(t, opt)
	if _, err := Merge(t.Context(), filepath.Join(t.TempDir(), "m"), dirs[1], dirs[2], opt.OutDir); err == nil || !strings.Contains(err.Error(), "seed is 6, want 5") {
		t.Errorf("merging another seed: %v", err)
	}
}
