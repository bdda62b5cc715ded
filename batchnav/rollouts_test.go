package batchnav_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/tanks"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/backendtest"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testdomain"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/models"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/tensor"
)

// oneAction is every case whose plans are of one action, with its bundled map or one
// drawn at random.
func oneAction(t *testing.T, f func(t *testing.T, c domain.Case, m *model.Model)) {
	catalogue := paper.Cases()
	cases := []domain.Case{must.Get(tanks.Case())(t)}
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
				m = must.Get(model.Read(file))(t)
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
// and much wider: none first, and last some that are not numbers at the last knot.
func candidates(rng *rand.Rand, cfg *backend.RolloutsConfig, rows, steps int) tensor.Matrix {
	width := cfg.Width()
	o := tensor.New(rows, min(cfg.Knots, steps)*width)
	for i := 1; i < rows; i++ {
		for j := range o.Row(i) {
			scale := 0.3
			if cfg.Actions {
				scale = float64(cfg.Step.NormU.Scale[j%width])
			}
			o.Row(i)[j] = float32(scale * float64(i) / float64(rows) * rng.NormFloat64())
		}
	}
	o.Row(rows - 1)[o.Cols-1] = float32(math.NaN())
	return o
}

// What a search says of its candidates is what the reference says of them, on the host
// and where the backend rolls out by itself, for every problem with plans of one action.
func TestRoundsAreTheReferences(t *testing.T) {
	host := must.Get(cpufallback.New(cpufallback.Options{Threads: 2}))(t)
	defer host.Close()
	context := must.Get(driver.Open(shim.Device(t), 0))(t)
	device := must.Get(kernels.New(context, kernels.Options{}))(t)
	defer device.Close()
	oneAction(t, func(t *testing.T, c domain.Case, m *model.Model) {
		const rows = 16
		_, coded := c.Problem.(domain.Device)
		for _, b := range []backend.Backend{host, device} {
			for _, opt := range []batchnav.Options{{}, {NoProjection: true}, {Search: batchnav.SearchOptions{Actions: true}}} {
				opt.Search.Candidates = rows
				round, cfg, err := batchnav.NewRound(b, m, c.Problem, opt)
				must.OK(t, err)
				if want := b == device && coded; round.OnDevice() != want {
					t.Errorf("the backend rolls out by itself: %v, want %v", round.OnDevice(), want)
				}
				twin, rng := ref.NewRollouts(cfg), rand.New(rand.NewPCG(5, 6))
				episode := must.Get(c.Plant.Episode(991, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
				spec := c.Problem.Spec()
				s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
				for decision, steps := range []int{1, 2, 3, 7} {
					episode.Observe(s, cx)
					obs := batchnav.Observation{S: s, C: cx, Preference: domain.Preference{Adaptive: true}}
					if decision == 2 {
						obs.Preference = domain.Preference{W: make([]float64, spec.ObjectiveSize())}
						obs.Preference.W[0], obs.Preference.W[1] = 0.3, 0.7
					}
					offsets := candidates(rng, &cfg, rows, steps)
					got, err := round.Score(obs, offsets, steps)
					must.OK(t, err)
					lost := 0
					for i := range offsets.Rows {
						wide := make([]float64, offsets.Cols)
						tensor.Widen(wide, offsets.Row(i))
						first, cost, margin := twin.Score(s, cx, obs.Preference, wide, steps, !opt.NoProjection)
						decoded := make([]float64, len(first))
						tensor.Widen(decoded, got.First.Row(i))
						if err := backendtest.NearOrLost(decoded, first, 2e-5); err != nil && !math.IsInf(margin, -1) {
							t.Errorf("%s, %+v, %d steps, candidate %d: first action: %v", b.Describe().Name, opt, steps, i, err)
						}
						if math.IsInf(margin, -1) {
							lost++
							cost = got.Cost[i]
						}
						if err := backendtest.NearOrLost([]float64{got.Cost[i], got.Margin[i]}, []float64{cost, margin}, 2e-4); err != nil {
							t.Errorf("%s, %+v, %d steps, candidate %d: cost and margin: %v", b.Describe().Name, opt, steps, i, err)
						}
					}
					if lost != 1 {
						t.Errorf("%d candidates have left the numbers, want the one with such offsets", lost)
					}
					first, _, _ := twin.Score(s, cx, obs.Preference, make([]float64, offsets.Cols), steps, true)
					c.Problem.Project(s, cx, first)
					must.Get(episode.Apply(first))(t)
				}
			}
		}
	})
}
