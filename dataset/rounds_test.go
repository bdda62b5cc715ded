package dataset

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// open makes a dataset and opens it.
func open(t *testing.T, c domain.Case, edit func(*Options)) *Dataset {
	t.Helper()
	opt := options(t.TempDir())
	if edit(&opt); opt.Visiting != (Policy{}) && opt.Policy == nil {
		opt.Policy = func() (domain.Controller, error) { return constant(0.25), nil }
	}
	if _, err := Generate(context.Background(), c, opt, nil); err != nil {
		t.Fatal(err)
	}
	d, err := Open(opt.OutDir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func scenarios(c *Columns, from, to int) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(c.Scenario[from:to])))
}

// Rounds of other seeds and policies, solved and distilled, are loaded one behind the
// other: each row is what it is alone, no trajectory goes on in another round, and the
// same scenario keeps its number.
func TestRoundsAreLoadedTogether(t *testing.T) {
	c := domain.Case{Problem: drivable{}, Solver: followed{&toySolver{}}, Plant: drive{}}
	first := open(t, c, func(*Options) {})
	other := open(t, c, func(o *Options) { o.Seed, o.Visiting = 6, Policy{Method: "direct", ModelSHA256: "ab", Backend: "cpu"} })
	same := open(t, c, func(o *Options) { o.Visiting = Policy{Method: "direct", ModelSHA256: "cd", Backend: "cpu"} })
	distilled := open(t, c, func(o *Options) {
		o.Adaptive, o.Distil, o.Visiting.Method, o.Policy = false, true, "half", func() (domain.Controller, error) { return &half{}, nil }
	})
	var shards []*Dataset
	for i := range 2 {
		shards = append(shards, open(t, c, func(o *Options) { o.Seed, o.Shard = 7, Shard{1 - i, 2} }))
	}
	all := []*Dataset{shards[0], first, other, same, distilled, shards[1]}
	got, rounds, hash, err := Load(all...)
	if err != nil {
		t.Fatal(err)
	}
	groups := [][]*Dataset{shards, {first}, {other}, {same}, {distilled}}
	if len(rounds) != len(groups) {
		t.Fatalf("%d rounds, want %d: %+v", len(rounds), len(groups), rounds)
	}
	owner := map[int64]int{}
	at, numbers := 0, make([][]int32, len(groups))
	for k, group := range groups {
		want, alone, own, err := Load(group...)
		if err != nil {
			t.Fatal(err)
		}
		if rounds[k] != alone[0] || own != alone[0].SamplesSHA256 || rounds[k].Samples != want.Rows() {
			t.Errorf("round %d is %+v, alone %+v with hash %s", k, rounds[k], alone, own)
		}
		rows := make([]int, want.Rows())
		for i := range rows {
			rows[i] = at + i
		}
		part := got.Select(rows)
		numbers[k] = scenarios(got, at, at+len(rows))
		for i := range rows {
			if of, seen := owner[part.Trajectory[i]]; seen && of != k {
				t.Fatalf("trajectory %d is in rounds %d and %d", part.Trajectory[i], of, k)
			}
			owner[part.Trajectory[i]] = k
			// The same but for constants.
			part.Trajectory[i] -= got.Trajectory[at] - want.Trajectory[0]
		}
		for i, d := 0, part.Scenario[0]-want.Scenario[0]; i < len(rows); i++ {
			part.Scenario[i] -= d
		}
		if !reflect.DeepEqual(part, want) {
			t.Errorf("round %d holds other samples than alone", k)
		}
		at += len(rows)
	}
	if at != got.Rows() {
		t.Errorf("%d rows, the rounds hold %d", got.Rows(), at)
	}
	// Rounds 1 and 3 draw the same scenarios, the others none of each other's.
	if !slices.Equal(numbers[1], numbers[3]) {
		t.Errorf("the same scenarios are %v and %v", numbers[1], numbers[3])
	}
	seen := map[int32]int{}
	for _, k := range []int{0, 1, 2, 4} {
		for _, n := range numbers[k] {
			if of, twice := seen[n]; twice {
				t.Errorf("scenario %d is in rounds %d and %d", n, of, k)
			}
			seen[n] = k
		}
	}
	hashes := map[string]bool{hash: true}
	for _, r := range rounds {
		hashes[r.SamplesSHA256] = true
	}
	if len(hashes) != len(rounds)+1 {
		t.Errorf("hashes are not all different: %v", slices.Collect(maps.Keys(hashes)))
	}
	if r := rounds[2]; r.Seed != 6 || r.Policy != (Policy{Method: "direct", ModelSHA256: "ab", Backend: "cpu"}) || r.Distilled || r.Scenarios != 23 || r.Program != "v1" {
		t.Errorf("round 2 is recorded as %+v", r)
	}
	if r := rounds[4]; !r.Distilled || r.Policy.Method != "half" {
		t.Errorf("round 4 is recorded as %+v", r)
	}
}

// wide is the toy with another margin.
type wide struct{ drivable }

func (wide) Spec() *domain.Spec {
	s := *drivable{}.Spec()
	s.Margins = []domain.Variable{{Name: "fence", Unit: "m"}}
	return &s
}

func TestRoundsThatDoNotGoTogether(t *testing.T) {
	c := domain.Case{Problem: drivable{}, Solver: followed{&toySolver{}}}
	d := open(t, c, func(*Options) {})
	other := open(t, domain.Case{Problem: wide{}, Solver: c.Solver}, func(*Options) {})
	for name, f := range map[string]struct {
		datasets []*Dataset
		want     string
	}{
		"none":           {nil, "no dataset"},
		"twice":          {[]*Dataset{d, d}, "both hold part 0"},
		"another layout": {[]*Dataset{d, other}, "column margins_0 is fence [m], want wall [m]"},
	} {
		if _, _, _, err := Load(f.datasets...); err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: %v, want %q", name, err, f.want)
		}
	}
}

// crash is the plant drive whose state is lost after the second step of every episode
// that begins right of the middle.
type crash struct{ drive }

func (p crash) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.drive.Episode(seed, index, opt)
	return &crashed{ep.(*ride), ep.(*ride).x > 0.5}, err
}

type crashed struct {
	*ride
	doomed bool
}

func (r *crashed) Apply(u []float64) (domain.Outcome, error) {
	out, err := r.ride.Apply(u)
	out.Failed = r.doomed && r.t >= 2
	return out, err
}

// Of an episode that ends in a lost state nothing is distilled.
func TestALostEpisodeIsNotDistilled(t *testing.T) {
	d := open(t, domain.Case{Problem: drivable{}, Plant: crash{}}, func(o *Options) {
		o.Adaptive, o.Distil, o.Visiting.Method, o.Policy = false, true, "half", func() (domain.Controller, error) { return &half{}, nil }
	})
	all, _, _, err := Load(d)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Rows() {
		if x := all.S.Row(i)[0]; x > 0.5 {
			t.Fatalf("row %d, at %v, is of an episode that is lost", i, x)
		}
	}
	if d.Counters.Infeasible == 0 || int64(all.Rows()) != 3*(d.Counters.Solves-d.Counters.Infeasible) {
		t.Errorf("%d rows of %+v", all.Rows(), d.Counters)
	}
}
