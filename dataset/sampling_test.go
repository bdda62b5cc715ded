package dataset

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/domain"
)

func TestHypercubeHasOnePointPerStratum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		axes := make([]domain.Variable, rapid.IntRange(1, 5).Draw(t, "axes"))
		for i := range axes {
			axes[i].Lo = rapid.Float64Range(-10, 9).Draw(t, "lo")
			axes[i].Hi = axes[i].Lo + rapid.Float64Range(0.1, 20).Draw(t, "width")
		}
		points, err := LatinHypercube(axes, n, seed)
		if err != nil {
			t.Fatal(err)
		}
		for j, a := range axes {
			seen := make([]bool, n)
			for i := range points {
				x := (points[i][j] - a.Lo) / (a.Hi - a.Lo) * float64(n)
				k := int(math.Floor(x))
				if k < 0 || k >= n {
					t.Fatalf("axis %d: %v is outside [%v, %v]", j, points[i][j], a.Lo, a.Hi)
				}
				if seen[k] {
					t.Fatalf("axis %d: stratum %d has two points", j, k)
				}
				seen[k] = true
			}
		}
		again, err := LatinHypercube(axes[:1], n, seed)
		if err != nil {
			t.Fatal(err)
		}
		for i := range points {
			if again[i][0] != points[i][0] {
				t.Fatal("dropping later axes changed the first axis")
			}
		}
	})
}

func TestHypercubeSeedsAndAxesDiffer(t *testing.T) {
	axes := []domain.Variable{{Name: "a", Lo: 0, Hi: 1}, {Name: "b", Lo: 0, Hi: 1}}
	p, _ := LatinHypercube(axes, 200, 1)
	q, _ := LatinHypercube(axes, 200, 2)
	equal, ab := 0, 0.0
	for i := range p {
		if p[i][0] == q[i][0] {
			equal++
		}
		ab += (p[i][0] - 0.5) * (p[i][1] - 0.5)
	}
	if equal > 0 {
		t.Errorf("%d of 200 coordinates agree between two seeds", equal)
	}
	// Correlation of two independent permutations: standard deviation 1/√199.
	if r := ab / 200 * 12; math.Abs(r) > 5/math.Sqrt(199) {
		t.Errorf("two axes correlate by %v", r)
	}
	for _, bad := range []domain.Variable{{Name: "unbounded"}, {Name: "reversed", Lo: 2, Hi: 1}, {Name: "NaN", Lo: math.NaN(), Hi: 1}, {Name: "infinite", Lo: 0, Hi: math.Inf(1)}} {
		if _, err := LatinHypercube([]domain.Variable{bad}, 3, 1); err == nil {
			t.Errorf("the axis %+v was accepted", bad)
		}
	}
	if _, err := LatinHypercube(axes, 0, 1); err == nil {
		t.Error("zero scenarios were accepted")
	}
}

func onSimplex(w []float64) bool {
	sum := 0.0
	for _, v := range w {
		if !(v >= 0) {
			return false
		}
		sum += v
	}
	return math.Abs(sum-1) < 1e-12
}

func TestDasDennis(t *testing.T) {
	for _, c := range []struct{ m, divisions, n int }{{1, 5, 1}, {2, 4, 5}, {3, 2, 6}, {3, 12, 91}, {4, 3, 20}} {
		weights := DasDennis(c.m, c.divisions)
		if len(weights) != c.n {
			t.Errorf("%d objectives, %d divisions: %d weights, want %d", c.m, c.divisions, len(weights), c.n)
		}
		seen := map[[4]float64]bool{}
		corners := 0
		for _, w := range weights {
			if !onSimplex(w) {
				t.Errorf("%v is not on the simplex", w)
			}
			var key [4]float64
			copy(key[:], w)
			if seen[key] {
				t.Errorf("%v appears twice", w)
			}
			seen[key] = true
			for _, v := range w {
				if v == 1 {
					corners++
				}
			}
		}
		if corners != c.m {
			t.Errorf("%d objectives, %d divisions: %d corners", c.m, c.divisions, corners)
		}
	}
}

func TestLogarithmicFillsEveryDecade(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 50
	weights := Logarithmic(rng, 3, n, 2, 0, 5)
	for j := range 2 {
		seen := make([]bool, n)
		for _, w := range weights {
			if !onSimplex(w) {
				t.Fatalf("%v is not on the simplex", w)
			}
			seen[int(math.Log10(w[j]/w[2])/5*n)] = true
		}
		for k, ok := range seen {
			if !ok {
				t.Errorf("objective %d: no ratio in [%v, %v] decades", j, float64(k)/10, float64(k+1)/10)
			}
		}
	}
}

func TestDirichletMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n, m = 20000, 3
	for _, a := range []float64{0.3, 1, 4} {
		var mean, square float64
		for _, w := range Dirichlet(rng, m, n, a) {
			if !onSimplex(w) {
				t.Fatalf("%v is not on the simplex", w)
			}
			mean += w[0] / n
			square += w[0] * w[0] / n
		}
		variance := (m - 1) / (m * m * (m*a + 1))
		if math.Abs(mean-1.0/m) > 5*math.Sqrt(variance/n) {
			t.Errorf("concentration %v: mean %v, want 1/3", a, mean)
		}
		if got := square - mean*mean; math.Abs(got/variance-1) > 0.06 {
			t.Errorf("concentration %v: variance %v, want %v", a, got, variance)
		}
	}
}

func TestWeightsOfScenarios(t *testing.T) {
	for _, w := range []Weights{
		{Count: 4}, {Count: 4, Design: UniformWeights}, {Count: 4, Design: LogarithmicWeights, Reference: 1, LogLo: -3, LogHi: 0},
		{Count: 4, Design: MixedWeights, Reference: 1, LogLo: -3, LogHi: 0}, {Count: 4, Design: CentredWeights},
	} {
		if err := w.Validate(3); err != nil {
			t.Fatal(err)
		}
		for s := range 6 {
			got := w.Of(s, 3, 9)
			if len(got) != 4 {
				t.Fatalf("%+v: %d weights, want 4", w, len(got))
			}
			for i, v := range w.Of(s, 3, 9) {
				if !onSimplex(v) || v[0] != got[i][0] {
					t.Errorf("%+v, scenario %d: %v then %v", w, s, got[i], v)
				}
			}
		}
	}
	// The lattice of 4 weights of 3 objectives has 6: three scenarios see all.
	seen := map[[3]float64]bool{}
	for s := range 3 {
		for _, v := range (Weights{Count: 4, Design: UniformWeights}).Of(s, 3, 0) {
			seen[[3]float64(v)] = true
		}
	}
	if len(seen) != 6 {
		t.Errorf("three scenarios saw %d of the lattice's 6 weights", len(seen))
	}
	mixed := Weights{Count: 5, Design: MixedWeights, Reference: 2, LogLo: -3, LogHi: 0}.Of(1, 3, 0)
	lattice := Weights{Count: 3, Design: UniformWeights}.Of(1, 3, 0)
	for i, v := range lattice {
		if [3]float64(mixed[i]) != [3]float64(v) {
			t.Errorf("mixed weight %d is %v, the lattice has %v", i, mixed[i], v)
		}
	}
	centred := Weights{Count: 4, Design: CentredWeights}
	corners := map[[3]float64]bool{}
	for s := range 28 {
		w := centred.Of(s, 3, 0)
		if third := 1.0 / 3; len(w) != 4 || [3]float64(w[0]) != [3]float64{third, third, third} {
			t.Fatalf("centred weights are %v, want four and the centre first", w)
		}
		corners[[3]float64(w[1])] = true
		if slices.Equal(w[2], w[3]) {
			t.Errorf("scenario %d: the random weights are both %v", s, w[2])
		}
	}
	if len(corners) != 28 || !corners[[3]float64{1, 0, 0}] || !corners[[3]float64{0.5, 0.5, 0}] {
		t.Errorf("28 scenarios saw %d weights of the lattice, want all 28 with corners and edges", len(corners))
	}
	for _, bad := range []Weights{{Count: -1}, {Design: MixedWeights}, {Design: "x"}, {Design: LogarithmicWeights, Reference: 3, LogHi: 1}, {Design: LogarithmicWeights}} {
		if bad.Validate(3) == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// A range takes the place of the solver's on the axes that it names, the last of two,
// and the solver's axes stay as they are.
func TestRangesOfAxes(t *testing.T) {
	axes := []domain.Variable{{Name: "level", Lo: 0.6, Hi: 1.4}, {Name: "P2", Lo: 0.9, Hi: 1.1}, {Name: "P3", Lo: 0.9, Hi: 1.1}, {Name: "Q2", Lo: 0.9, Hi: 1.1}}
	got, err := Within(axes, []Range{{"level", 0.86, 1.2}, {"P*", 0.95, 1.05}, {"P3", 1, 1.02}})
	want := []domain.Variable{{Name: "level", Lo: 0.86, Hi: 1.2}, {Name: "P2", Lo: 0.95, Hi: 1.05}, {Name: "P3", Lo: 1, Hi: 1.02}, {Name: "Q2", Lo: 0.9, Hi: 1.1}}
	if err != nil || !slices.Equal(got, want) || axes[0].Lo != 0.6 {
		t.Errorf("%v, %v of %v; want %v", got, err, axes, want)
	}
	for _, r := range []Range{{"levl", 0, 1}, {"level", 1, 1}, {"level", 1, 0}, {"level", math.NaN(), 1}, {"level", 0, math.Inf(1)}, {"[", 0, 1}} {
		if got, err := Within(axes, []Range{r}); err == nil {
			t.Errorf("%+v was accepted: %v", r, got)
		}
	}
}

func TestLattices(t *testing.T) {
	for _, v := range []struct{ objectives, points, want int }{{1, 9, 1}, {2, 2, 2}, {2, 1000, 1000}, {3, 3, 3}, {3, 1000, 990}, {4, 100, 84}} {
		all := Lattice(v.objectives, v.points)
		if len(all) != v.want {
			t.Errorf("%d objectives, %d points: %d weightings, want %d", v.objectives, v.points, len(all), v.want)
		}
		for j := range v.objectives {
			if !slices.ContainsFunc(all, func(w []float64) bool { return w[j] == 1 }) {
				t.Errorf("%d objectives: no corner of objective %d", v.objectives, j)
			}
		}
	}
}

// Neighbours are all pairs of a lattice that are one division apart, once each.
func TestNeighboursOfALattice(t *testing.T) {
	for m, most := range map[int]int{1: 1, 2: 9, 3: 40, 5: 130} {
		lattice := Lattice(m, most)
		division := 1.0
		for _, w := range lattice {
			for _, v := range w {
				if v > 0 {
					division = min(division, v)
				}
			}
		}
		want := map[[2]int]bool{}
		for i, a := range lattice {
			for k, b := range lattice[:i] {
				sum := 0.0
				for j := range a {
					sum += math.Abs(a[j] - b[j])
				}
				if sum < 2.5*division {
					want[[2]int{k, i}] = true
				}
			}
		}
		for _, pair := range Neighbours(lattice) {
			slices.Sort(pair[:])
			if !want[pair] {
				t.Errorf("%d objectives: %v and %v", m, lattice[pair[0]], lattice[pair[1]])
			}
			delete(want, pair)
		}
		if len(want) > 0 {
			t.Errorf("%d objectives: the pairs %v are missing", m, want)
		}
	}
}
