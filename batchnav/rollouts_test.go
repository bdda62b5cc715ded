package batchnav_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/tanks"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/models"
	"github.com/gpc-engine/gpc/tensor"
)

// oneAction is every case whose plans are of one action, with its bundled map or one
// drawn at random.
func oneAction(t *testing.T, f func(t *testing.T, c domain.Case, m *model.Model)) {
	catalogue := paper.Cases()
	cases := []domain.Case{require.Get(tanks.Case())(t)}
	for _, c := range catalogue.All() {
		cases = append(cases, *c.Definition())
	}
	tried := 0
	for _, c := range cases {
		spec := c.Problem.Spec()
		if spec.Plan != 1 {
			continue
		}
		tried++
		t.Run(spec.Name, func(t *testing.T) {
			m := testdomain.Untrained(rand.New(rand.NewPCG(3, 4)), spec, 8, 40, 33, 33)
			if file, err := models.Bundled.Open(spec.Name + ".safetensors"); err == nil {
				m = require.Get(model.Read(file))(t)
				file.Close()
				m.Codes, m.CodesDecoded = m.Codes.Slice(0, min(60, m.Codes.Rows)), m.CodesDecoded.Slice(0, min(60, m.CodesDecoded.Rows))
			}
			f(t, c, m)
		})
	}
	if tried < 5 {
		t.Errorf("only %d cases have plans of one action", tried)
	}
}

// candidates are offsets of roll-outs around a map's policy, as wide as a search begins
// and much wider: none first, and last some that are not numbers at the last step.
func candidates(rng *rand.Rand, cfg *backend.RolloutsConfig, rows, steps int) tensor.Matrix {
	width := cfg.Width()
	o := tensor.New(rows, steps*width)
	for i := 1; i < rows; i++ {
		for j := range o.Row(i) {
			o.Row(i)[j] = float32(0.3 * float64(i) / float64(rows) * rng.NormFloat64())
		}
	}
	o.Row(rows - 1)[o.Cols-1] = float32(math.NaN())
	return o
}

// What a search says of its candidates is what the reference says of them, on the host
// and where the backend rolls out by itself, for every problem with plans of one action.
func TestRoundsAreTheReferences(t *testing.T) {
	t.Run("host", func(t *testing.T) {
		b := require.Get(cpufallback.New(cpufallback.Options{Threads: 2}))(t)
		defer b.Close()
		oneAction(t, func(t *testing.T, c domain.Case, m *model.Model) { holdRounds(t, b, c, m, false) })
	})
	t.Run("device", func(t *testing.T) {
		b := require.Get(kernels.New(require.Get(driver.Open(shim.Device(t), 0))(t), kernels.Options{}))(t)
		defer b.Close()
		oneAction(t, func(t *testing.T, c domain.Case, m *model.Model) {
			if name := c.Problem.Spec().Name; testing.Short() && name != "integrator-convex" && name != "tanks" && !shim.OnGPU() {
				t.Skip("a device's threads are one thread here, and every case is some minute of them")
			}
			code := domain.AbilitiesOfProblem(c.Problem).Device
			holdRounds(t, b, c, m, code != nil && code().Reason == "")
		})
	})
}

func holdRounds(t *testing.T, b backend.Backend, c domain.Case, m *model.Model, byItself bool) {
	const rows = 16
	spec := c.Problem.Spec()
	for _, opt := range []batchnav.Options{{}, {NoProjection: true}} {
		opt.Search.Candidates = rows
		round, cfg, err := batchnav.NewRound(b, m, c.Problem, opt)
		require.OK(t, err)
		if round.OnDevice() != byItself {
			t.Errorf("the backend rolls out by itself: %v, want %v", round.OnDevice(), byItself)
		}
		twin, rng := backendtest.NewRollouts(cfg), rand.New(rand.NewPCG(5, 6))
		episode := require.Get(c.Plant.Episode(991, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		for decision, steps := range []int{1, 2, 3, 7} {
			episode.Observe(s, cx)
			obs := batchnav.Observation{S: s, C: cx, Preference: domain.Preference{Adaptive: true}}
			if decision == 2 {
				obs.Preference = domain.Preference{W: make([]float64, spec.ObjectiveSize())}
				obs.Preference.W[0], obs.Preference.W[1] = 0.3, 0.7
			}
			offsets := candidates(rng, &cfg, rows, steps)
			got := require.Get(round.Score(obs, offsets, steps))(t)
			for i := range rows {
				o := make([]float64, offsets.Cols)
				tensor.Widen(o, offsets.Row(i))
				first, cost, margin, _ := twin.Score(s, cx, obs.Preference, o, steps, !opt.NoProjection)
				if lost := math.IsInf(margin, -1); lost != (i == rows-1) || lost && got.Margin[i] != margin {
					t.Errorf("%+v, %d steps, candidate %d: a margin of %v, want %v", opt, steps, i, got.Margin[i], margin)
				} else if lost {
					continue
				}
				u := make([]float64, len(first))
				tensor.Widen(u, got.First.Row(i))
				for _, v := range []struct {
					what      string
					got, want []float64
					tolerance float64
				}{{"first action", u, first, 1e-5}, {"cost", got.Cost[i : i+1], []float64{cost}, 1e-5}, {"margin", got.Margin[i : i+1], []float64{margin}, 1e-5}} {
					if err := backendtest.Near(v.got, v.want, v.tolerance); err != nil {
						t.Errorf("%+v, %d steps, candidate %d, %s: %v", opt, steps, i, v.what, err)
					}
				}
			}
			first, _, _, _ := twin.Score(s, cx, obs.Preference, make([]float64, offsets.Cols), steps, true)
			c.Problem.Project(s, cx, first)
			require.Get(episode.Apply(first))(t)
		}
	}
}

// A whole search is that of the same random numbers over the reference's roll-outs:
// decision for decision as good, with the same action.
func TestSearchIsTheReferences(t *testing.T) {
	host := require.Get(cpufallback.New(cpufallback.Options{Threads: 2}))(t)
	defer host.Close()
	adaptive := domain.Preference{Adaptive: true}
	oneAction(t, func(t *testing.T, c domain.Case, m *model.Model) {
		const total, size, steps = 48, 16, 4
		spec := c.Problem.Spec()
		o := batchnav.Options{Search: batchnav.SearchOptions{Candidates: total, LookAhead: steps, Seed: 7}}
		_, cfg, err := batchnav.NewRound(host, m, c.Problem, o)
		require.OK(t, err)
		n, twin := require.Get(batchnav.NewNavigator(host, m, c.Problem, o))(t), backendtest.NewRollouts(cfg)
		unit := slices.Repeat([]float64{m.Calibration.LatentSpread / math.Sqrt(float64(m.Latent()))}, m.Latent())
		sampler := crossentropy.New(crossentropy.Options{Unit: unit, Round: size, Payload: spec.ActionSize(), Tolerance: spec.MarginTolerance, Seed: 7})
		memory := sampler.NewMemory()
		episode := require.Get(c.Plant.Episode(991, 2, domain.EpisodeOptions{Preference: adaptive}))(t)
		s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		for decision := range 3 {
			episode.Observe(s, cx)
			d := require.Get(n.Decide(s, cx, adaptive))(t)
			sampler.Begin(memory, steps)
			for done, gained := 0, true; gained && done < total; done += size {
				offsets := sampler.Ask(size)
				cost, margin, first := make([]float64, size), make([]float64, size), tensor.New(size, spec.ActionSize())
				for i := range size {
					o, u := make([]float64, offsets.Cols), []float64(nil)
					tensor.Widen(o, offsets.Row(i))
					u, cost[i], margin[i], _ = twin.Score(s, cx, adaptive, o, steps, true)
					tensor.Narrow(first.Row(i), u)
				}
				gained = sampler.Tell(cost, margin, first)
			}
			best := memory.Best()
			u := make([]float64, spec.ActionSize())
			tensor.Widen(u, best.Payload)
			c.Problem.Project(s, cx, u)
			if err := backendtest.Near(d.U, u, 1e-4); err != nil {
				t.Errorf("decision %d: action: %v", decision, err)
			}
			if got := batchnav.BestCost(n); math.Abs(got-best.Cost) > 1e-5*(1+math.Abs(best.Cost)) {
				t.Errorf("decision %d: a cost of %v, want %v", decision, got, best.Cost)
			}
			require.Get(episode.Apply(d.U))(t)
		}
	})
}

// slippery is Case 1 with a line beyond which it is lost.
type slippery struct {
	*integrator.System
	line float64
}

func (p slippery) Abilities() *domain.ProblemAbilities {
	may := p.System.Abilities()
	may.Failed = p.Failed
	return may
}

func (p slippery) Failed(s, c []float64) bool { return s[0] > p.line }

// A roll-out through a lost state has no margin, here as by the reference, and a backend
// that would not know such states is not asked.
func TestRoundsKnowLostStates(t *testing.T) {
	const rows, steps = 16, 12
	c := integrator.Convex()
	file := require.Get(models.Bundled.Open("integrator-convex.safetensors"))(t)
	defer file.Close()
	m, host := require.Get(model.Read(file))(t), require.Get(cpufallback.New(cpufallback.Options{Threads: 2}))(t)
	defer host.Close()
	spec, rng := c.Problem.Spec(), rand.New(rand.NewPCG(7, 8))
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	require.Get(c.Plant.Episode(991, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t).Observe(s, cx)
	// A line that some candidates cross and others do not is found by trying.
	var crossed, kept int
	for _, ahead := range []float64{1.5, 1.9, 2.1, 2.3, 2.5, 2.7} {
		p := slippery{c.Problem.(*integrator.System), s[0] + ahead}
		round, cfg, err := batchnav.NewRound(host, m, p, batchnav.Options{Search: batchnav.SearchOptions{Candidates: rows}})
		require.OK(t, err)
		twin, offsets := backendtest.NewRollouts(cfg), candidates(rng, &cfg, rows, steps)
		got := require.Get(round.Score(batchnav.Observation{S: s, C: cx, Preference: domain.Preference{Adaptive: true}}, offsets, steps))(t)
		for i := range rows {
			o := make([]float64, offsets.Cols)
			tensor.Widen(o, offsets.Row(i))
			_, _, margin, before := twin.Score(s, cx, domain.Preference{Adaptive: true}, o, steps, true)
			lost := math.IsInf(margin, -1)
			if lost != math.IsInf(got.Margin[i], -1) {
				t.Errorf("candidate %d with the line %g ahead: a margin of %g, want %g", i, ahead, got.Margin[i], margin)
			}
			if got.Kept[i] != before && i < rows-1 {
				t.Errorf("candidate %d with the line %g ahead: %d steps are kept, want %d", i, ahead, got.Kept[i], before)
			}
			if i == rows-1 { // not a number
			} else if lost {
				crossed++
			} else {
				kept++
			}
		}
	}
	if crossed == 0 || kept == 0 {
		t.Errorf("%d candidates were lost and %d were not", crossed, kept)
	}
	device := require.Get(kernels.New(require.Get(driver.Open(shim.Device(t), 0))(t), kernels.Options{}))(t)
	defer device.Close()
	for line, p := range map[bool]domain.Problem{false: c.Problem, true: slippery{c.Problem.(*integrator.System), s[0] + 1}} {
		round, _, err := batchnav.NewRound(device, m, p, batchnav.Options{Search: batchnav.SearchOptions{Candidates: 16}})
		require.OK(t, err)
		if round.OnDevice() == line {
			t.Errorf("with lost states %t the backend rolls out by itself: %t", line, round.OnDevice())
		}
	}
}

// A search whose roll-outs the backend leaves to the host says so once, with the reason and the share of a decision that they take.
func TestSearchesTellWhatIsTheHosts(t *testing.T) {
	c := integrator.Convex()
	file := require.Get(models.Bundled.Open("integrator-convex.safetensors"))(t)
	defer file.Close()
	m, adaptive := require.Get(model.Read(file))(t), domain.Preference{Adaptive: true}
	device := require.Get(kernels.New(require.Get(driver.Open(shim.Device(t), 0))(t), kernels.Options{}))(t)
	defer device.Close()
	var told []string
	steps := 3
	if testing.Short() {
		steps = 1
	}
	device.Notify(func(text string) { told = append(told, text) })
	s, cx := make([]float64, c.Problem.Spec().MeasuredSize()), make([]float64, c.Problem.Spec().ContextSize())
	require.Get(c.Plant.Episode(991, 1, domain.EpisodeOptions{Preference: adaptive}))(t).Observe(s, cx)
	for _, of := range []struct {
		problem domain.Problem
		reason  string // "": there is nothing to say
	}{
		{c.Problem, ""}, {slippery{c.Problem.(*integrator.System), s[0] + 10}, "do not know a state that is lost"},
	} {
		told = nil
		for range 2 {
			n := require.Get(batchnav.NewNavigator(device, m, of.problem, batchnav.Options{NoGuard: true, Search: batchnav.SearchOptions{Candidates: 16, LookAhead: steps}}))(t)
			for range 2 {
				require.Get(n.Decide(s, cx, adaptive))(t)
			}
		}
		if of.reason == "" && len(told) > 0 || of.reason != "" && (len(told) != 1 || !strings.Contains(told[0], of.reason) || !strings.Contains(told[0], "% of its first decision")) {
			t.Errorf("told %q, want one line with %q and a share", told, of.reason)
		}
	}
}

// decodes counts what a backend decodes in single operations.
type decodes struct {
	*kernels.Backend
	count *int
}

func (b decodes) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	s, err := b.Backend.NewStepper(cfg)
	return decoder{s, b.count}, err
}

type decoder struct {
	backend.Stepper
	count *int
}

func (d decoder) Decode(z, ctx, x, u, s tensor.Matrix) error {
	*d.count++
	return d.Stepper.Decode(z, ctx, x, u, s)
}

// The guard takes what a device has searched by the actions that its roll-out executed, and so asks no network, step by step, again.
func TestGuardTakesTheActionsOfADevicesSearch(t *testing.T) {
	c := integrator.Convex()
	file := require.Get(models.Bundled.Open("integrator-convex.safetensors"))(t)
	defer file.Close()
	m, adaptive := require.Get(model.Read(file))(t), domain.Preference{Adaptive: true}
	device := decodes{require.Get(kernels.New(require.Get(driver.Open(shim.Device(t), 0))(t), kernels.Options{}))(t), new(int)}
	defer device.Close()
	candidates, decisions := 32, 3
	if testing.Short() && !shim.OnGPU() {
		candidates, decisions = 16, 2
	}
	n := require.Get(batchnav.NewNavigator(device, m, c.Problem, batchnav.Options{Guard: &domain.Guard{}, Search: batchnav.SearchOptions{Candidates: candidates}}))(t)
	episode := require.Get(c.Plant.Episode(991, 1, domain.EpisodeOptions{Preference: adaptive}))(t)
	s, cx := make([]float64, c.Problem.Spec().MeasuredSize()), make([]float64, c.Problem.Spec().ContextSize())
	*device.count = 0
	for range decisions {
		episode.Observe(s, cx)
		d := require.Get(n.Decide(s, cx, adaptive))(t)
		if d.Fallback != 0 {
			t.Errorf("fallback %v", d.Fallback)
		}
		require.Get(episode.Apply(d.U))(t)
	}
	if *device.count > 0 {
		t.Errorf("%d single decodings in %d decisions, want none", *device.count, decisions)
	}
}

// rowStepper is a problem whose roll-outs step together, by its own functions, and the rows that did so.
type rowStepper struct {
	domain.Problem
	rows *atomic.Int64
}

func (p rowStepper) Abilities() *domain.ProblemAbilities {
	may := *domain.AbilitiesOfProblem(p.Problem)
	may.ManyValues = func() (func() domain.ManyValues, error) {
		alone, err := domain.ValuesOf(p.Problem)
		return func() domain.ManyValues { return domain.ManyValues{Evaluate: p.values, Project: alone.Project} }, err
	}
	return &may
}

// values evaluates alone.
func (p rowStepper) values(n int, x, u, next, j, margins []float64) {
	spec := p.Spec()
	ns, nx := spec.MeasuredSize(), spec.MeasuredSize()+spec.ContextSize()
	row := func(of []float64, i, n int) []float64 { return of[i*n : (i+1)*n] }
	for i := range n {
		at, to, u := row(x, i, nx), row(next, i, nx), row(u, i, spec.ActionSize())
		p.Step(at[:ns], at[ns:], u, to[:ns], to[ns:])
		p.Objectives(at[:ns], u, at[ns:], row(j, i, spec.ObjectiveSize()))
		p.Margins(at[:ns], at[ns:], u, row(margins, i, len(spec.Margins)))
	}
	p.rows.Add(int64(n))
}

// Roll-outs that step together cost what they do alone, bit for bit and on any number of threads, those that a projection
// changes, that meet a limit, or that are no numbers too.
func TestRollOutsStepTogetherAsAlone(t *testing.T) {
	const rows, steps = 16, 12
	cart := testdomain.NewCart(steps)
	m := testdomain.Map(cart, 5, true)
	p := rowStepper{cart, new(atomic.Int64)}
	obs := batchnav.Observation{S: []float64{-1, 0.6}, C: []float64{0}, Preference: domain.Preference{Adaptive: true}}
	var want backend.RolloutsOutput
	for i, of := range []struct {
		problem domain.Problem
		threads int
	}{{cart, 1}, {p, 1}, {p, 3}} {
		b := require.Get(cpufallback.New(cpufallback.Options{Threads: of.threads}))(t)
		defer b.Close()
		round, cfg, err := batchnav.NewRound(b, m, of.problem, batchnav.Options{Search: batchnav.SearchOptions{Candidates: rows}})
		require.OK(t, err)
		got := require.Get(round.Score(obs, candidates(rand.New(rand.NewPCG(5, 6)), &cfg, rows, steps), steps))(t)
		if i == 0 {
			want = got
		}
		for k := range rows {
			if got.Cost[k] != want.Cost[k] && !math.IsInf(want.Margin[k], -1) || got.Margin[k] != want.Margin[k] {
				t.Errorf("candidate %d with %d threads costs %v with a margin of %v, alone %v and %v", k, of.threads, got.Cost[k], got.Margin[k], want.Cost[k], want.Margin[k])
			}
		}
	}
	if n := p.rows.Load(); n < rows*steps {
		t.Errorf("%d steps together in two rounds of %d", n, rows*steps)
	}
}
