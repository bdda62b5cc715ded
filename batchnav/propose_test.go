package batchnav_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// planCart is a cart whose plans are four actions long.
func planCart() *testdomain.Cart { return testdomain.NewPlanCart(20, 4) }

func proposer(t testing.TB, b backend.Backend, p *testdomain.Cart, opt batchnav.Options) *batchnav.Proposer {
	t.Helper()
	r := require.Get(batchnav.NewProposer(b, testdomain.Map(p, 13, false), p, opt, 64))(t)
	return r
}

func threaded(t testing.TB, threads int) backend.Backend {
	t.Helper()
	b := require.Get(cpufallback.New(cpufallback.Options{Threads: threads}))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

// questions are n observations of carts, with previous latents at every other.
func questions(n, count int) []domain.Question {
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([]domain.Question, n)
	for i := range all {
		all[i] = domain.Question{
			S: []float64{3 * (rng.Float64() - 0.5), rng.Float64() - 0.5}, C: []float64{rng.Float64()},
			Preference: domain.Preference{Adaptive: true}, Count: count, Seed: uint64(i) + 7,
		}
		if i%2 == 1 {
			all[i].Previous = []float32{float32(rng.Float64()), float32(rng.Float64()), 0.5}
		}
	}
	return all
}

var thirdsOf = domain.Mixture{Neighbours: 0.25, Preference: 0.25, Previous: 0.25}

// The first plan is the raw decoder's, the second one latent step of the navigator
// from the localized code, the third the previous latent's.
func TestProposalsThatStandAlone(t *testing.T) {
	p := planCart()
	r := proposer(t, ref.New(), p, batchnav.Options{})
	for _, q := range questions(4, 3) {
		q.Previous = []float32{0.3, -0.2, 0.1}
		answer := make([]domain.Answer, 1)
		plan := func(opt batchnav.Options, steps, row int) {
			t.Helper()
			n := require.Get(batchnav.NewNavigator(ref.New(), testdomain.Map(p, 13, false), p, opt))(t)
			want := require.Get(n.Decide(q.S, q.C, q.Preference))(t)
			require.OK(t, r.Propose(domain.ProposeOptions{FlowSteps: steps}, []domain.Question{q}, answer))
			if got := answer[0].Plans.Row(row); !slices.Equal(got, want.Decoded) {
				t.Errorf("%d flow steps, plan %d is %v, the navigator decodes %v", steps, row, got, want.Decoded)
			}
			if steps > 0 && (!slices.Equal(answer[0].Sigma, want.Sigma) || answer[0].Residual != want.Residual || answer[0].Limit != want.Limit || answer[0].Consistent != want.Consistent) {
				t.Errorf("the answer says %+v, the navigator σ %v, residual %v, limit %v", answer[0], want.Sigma, want.Residual, want.Limit)
			}
		}
		plan(batchnav.Options{Direct: true}, 0, 0)
		plan(batchnav.Options{NoRetraction: true}, 1, 1)
		require.OK(t, r.Propose(domain.ProposeOptions{}, []domain.Question{q}, answer))
		if got := answer[0].Latents.Row(2); !slices.Equal(got, q.Previous) || answer[0].Sources[2] != domain.SourcePrevious {
			t.Errorf("the third latent is %v from %v, want the previous one, %v", got, answer[0].Sources[2], q.Previous)
		}
		z := answer[0].Latents.Row(2)
		want := float64(testdomain.Feedback[0])*float64(z[0]) + testdomain.Feedback[1]*float64(z[1]) + 0.2*float64(z[2])
		if got := float64(answer[0].Plans.Row(2)[0]); math.Abs(got-want) > 1e-5 {
			t.Errorf("the previous latent decodes to %v, want %v", got, want)
		}
	}
}

// Questions asked together are answered as alone, on any number of threads.
func TestProposalsDoNotDependOnCompanyOrThreads(t *testing.T) {
	p := planCart()
	all := questions(5, 70)
	together := make([]domain.Answer, len(all))
	opt := domain.ProposeOptions{FlowSteps: 2, Mixture: thirdsOf}
	one, two := proposer(t, threaded(t, 1), p, batchnav.Options{}), proposer(t, threaded(t, 3), p, batchnav.Options{})
	require.OK(t, one.Propose(opt, all, together))
	alone := make([]domain.Answer, 1)
	for i := range all {
		require.OK(t, two.Propose(opt, all[i:i+1], alone))
		for j := range all[i].Count {
			if !slices.Equal(together[i].Plans.Row(j), alone[0].Plans.Row(j)) || !slices.Equal(together[i].Latents.Row(j), alone[0].Latents.Row(j)) {
				t.Fatalf("question %d, plan %d differs when it is asked alone", i, j)
			}
		}
		if !slices.Equal(together[i].Sources, alone[0].Sources) || !slices.Equal(together[i].Sigma, alone[0].Sigma) || together[i].Residual != alone[0].Residual {
			t.Errorf("question %d: sources, priority or residual differ when it is asked alone", i)
		}
	}
	if slices.Equal(together[0].Plans.Row(5), together[2].Plans.Row(5)) {
		t.Error("two observations have the same plan")
	}
}

// Every source has its share; what neighbours lack becomes noise.
func TestShareOfEverySource(t *testing.T) {
	p := planCart()
	r := proposer(t, ref.New(), p, batchnav.Options{})
	q := questions(2, 102)
	q[1].Count = 103 // one more stands alone
	answers := make([]domain.Answer, 2)
	require.OK(t, r.Propose(domain.ProposeOptions{Mixture: domain.Mixture{Neighbours: 0.02, Preference: 0.3, Previous: 0.4}}, q, answers))
	for i, want := range [][domain.Sources]int{
		{domain.SourceLocalized: 2, domain.SourceNeighbour: 2, domain.SourcePreference: 30, domain.SourceNoise: 68},
		{domain.SourceLocalized: 2, domain.SourceNeighbour: 2, domain.SourcePreference: 30, domain.SourceNoise: 28, domain.SourcePrevious: 41},
	} {
		var got [domain.Sources]int
		for _, s := range answers[i].Sources {
			got[s]++
		}
		if got != want {
			t.Errorf("question %d: sources %v, want %v", i, got, want)
		}
	}
	require.OK(t, r.Propose(domain.ProposeOptions{Mixture: domain.Mixture{Neighbours: 1}}, q[:1], answers[:1]))
	seen := map[domain.Source]int{}
	for _, s := range answers[0].Sources {
		seen[s]++
	}
	if n := seen[domain.SourceNeighbour]; n == 0 || n == 100 || n+seen[domain.SourceNoise] != 100 {
		t.Errorf("sources %v where few codes are consistent, want the rest to be noise", seen)
	}
}

// The swept preferences are what the encoder makes of each.
func TestSweepIsTheEncoderUnderOtherPreferences(t *testing.T) {
	p := planCart()
	r := proposer(t, ref.New(), p, batchnav.Options{})
	q := questions(1, 2+11)
	answer := make([]domain.Answer, 1)
	require.OK(t, r.Propose(domain.ProposeOptions{Mixture: domain.Mixture{Preference: 1}}, q, answer))
	for j := range 11 { // z₃ is w₂
		if got, want := float64(answer[0].Latents.Row(2 + j)[2]), 1-float64(j)/10; math.Abs(got-want) > 1e-6 {
			t.Errorf("preference %d of 11: w₂ is %v, want %v", j, got, want)
		}
	}
}

func TestProposalsAreMadeWithoutAllocation(t *testing.T) {
	p := planCart()
	r := proposer(t, threaded(t, 1), p, batchnav.Options{})
	all, answers := questions(6, 96), make([]domain.Answer, 6)
	opt := domain.ProposeOptions{FlowSteps: 1, Mixture: thirdsOf}
	ask := func() {
		require.OK(t, r.Propose(opt, all, answers))
	}
	ask()
	if n := testing.AllocsPerRun(5, ask); n != 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
}

func TestProposerRefusesByName(t *testing.T) {
	p := planCart()
	r := proposer(t, ref.New(), p, batchnav.Options{})
	for _, c := range []struct {
		name string
		opt  domain.ProposeOptions
		set  func(*domain.Question)
		says string
	}{
		{"short state", domain.ProposeOptions{}, func(q *domain.Question) { q.S = q.S[:1] }, "question 1 has 1 measured"},
		{"NaN", domain.ProposeOptions{}, func(q *domain.Question) { q.C = []float64{math.NaN()} }, "not finite"},
		{"previous of another size", domain.ProposeOptions{}, func(q *domain.Question) { q.Previous = make([]float32, 2) }, "previous latent of 2"},
		{"weights", domain.ProposeOptions{}, func(q *domain.Question) { q.Preference = domain.Preference{W: []float64{1, 1}} }, "sum"},
		{"negative count", domain.ProposeOptions{}, func(q *domain.Question) { q.Count = -1 }, "wants -1"},
		{"too many", domain.ProposeOptions{}, func(q *domain.Question) { q.Count = batchnav.MaxCandidates }, "at most"},
		{"flow steps", domain.ProposeOptions{FlowSteps: -1}, func(*domain.Question) {}, "flow steps"},
		{"shares", domain.ProposeOptions{Mixture: domain.Mixture{Neighbours: 0.7, Previous: 0.7}}, func(*domain.Question) {}, "sum ≤ 1"},
	} {
		all := questions(2, 8)
		c.set(&all[1])
		if err := r.Propose(c.opt, all, make([]domain.Answer, 2)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.says)
		}
	}
	if err := r.Propose(domain.ProposeOptions{}, questions(2, 8), make([]domain.Answer, 1)); err == nil {
		t.Error("two questions with one answer are accepted")
	}
	if _, err := batchnav.NewProposer(ref.New(), testdomain.Map(testdomain.NewCart(20), 13, false), p, batchnav.Options{}, 64); err == nil || !strings.Contains(err.Error(), "D_u gives 1") {
		t.Errorf("a model with other plans: error %v, want one that names D_u's size", err)
	}
}

// The neighbours of a question are the codes nearest to its E_x, nearest first, less those
// whose decoded state does not agree with the measured one.
func TestNeighboursAreTheNearestConsistentCodes(t *testing.T) {
	p := planCart()
	m := testdomain.Map(p, 41, false)
	r := require.Get(batchnav.NewProposer(ref.New(), m, p, batchnav.Options{}, 64))(t)
	const wanted = 4
	q := questions(3, 2+wanted)
	answers := make([]domain.Answer, len(q))
	for i := range q {
		q[i].Previous = nil
	}
	require.OK(t, r.Propose(domain.ProposeOptions{Mixture: domain.Mixture{Neighbours: 1}}, q, answers))
	given := 0
	for i, a := range answers {
		order := make([]int, m.Codes.Rows)
		for k := range order {
			order[k] = k
		}
		away := func(k int) float64 { return tensor.SquaredDistance(m.Codes.Row(k), a.Latents.Row(0)) }
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(away(a), away(b)) })
		var want []int
		for _, k := range order[:2*wanted] {
			s := []float32{float32(q[i].S[0]), float32(q[i].S[1])}
			if len(want) < wanted && tensor.SquaredDistance(m.CodesDecoded.Row(k), s) <= a.Limit {
				want = append(want, k)
			}
		}
		at := 2
		for _, k := range want {
			if !slices.Equal(a.Latents.Row(at), m.Codes.Row(k)) || a.Sources[at] != domain.SourceNeighbour {
				t.Errorf("question %d, latent %d is %v from %v, want code %d, %v", i, at, a.Latents.Row(at), a.Sources[at], k, m.Codes.Row(k))
			}
			at++
		}
		for ; at < 2+wanted; at++ {
			if a.Sources[at] == domain.SourceNeighbour {
				t.Errorf("question %d has more neighbours than %d", i, len(want))
			}
		}
		given += len(want)
	}
	if given < 2*wanted {
		t.Errorf("%d neighbours in all: too few to tell", given)
	}
}
