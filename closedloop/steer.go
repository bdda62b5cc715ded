package closedloop

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/tensor"
)

// FrontPoint is one preference of a steering sweep: what the method reached, and
// what the exact optimum of the same episodes and preference reaches. Objectives
// are summed over an episode and averaged over episodes.
type FrontPoint struct {
	W          []float64 `json:"w"`              // preference
	J          []Number  `json:"j"`              // objectives summed over an episode, mean over the compared
	OracleJ    []Number  `json:"oracle_j"`       // those of the exact optimum
	Compared   int       `json:"compared"`       // episodes with every limit kept and an oracle
	RegretPct  Number    `json:"regret_pct"`     // 100 (Σ cost − Σ oracle)/Σ oracle
	Free       bool      `json:"free,omitempty"` // true where the optimum costs next to nothing, so that there is no regret to speak of; absent elsewhere
	Episodes   int       `json:"episodes"`       // run
	Violations int       `json:"violations"`     // of them: a violated margin or a lost state
}

// Steering is the record of `gpc steer`: the front that one map traces under a
// user's fixed preferences, and the exact front.
type Steering struct {
	Case   string `json:"case"`   // its name
	Method string `json:"method"` // that was steered
	Seed   uint64 `json:"seed"`   // of the scenes
	Commit string `json:"commit"` // of the program
	Device string `json:"device"` // that computed
	Source
	Front            []FrontPoint `json:"front"`
	Hypervolume      Number       `json:"hypervolume"`       // of the method's front, as a share of the box from nadir to ideal
	ExactHypervolume Number       `json:"exact_hypervolume"` // of the exact front
	HypervolumeRatio Number       `json:"hypervolume_ratio"` // of the two
	MeanRegretPct    Number       `json:"mean_regret_pct"`   // over preferences
	WorstRegretPct   Number       `json:"worst_regret_pct"`  // over preferences
	WorstW           []float64    `json:"worst_w"`           // where
	JRange           [][2]Number  `json:"j_range"`           // least and largest of each objective along the front
	OracleJRange     [][2]Number  `json:"oracle_j_range"`    // along the exact one
}

// nearlyFree is the share of the dearest optimum of a sweep below which an optimum counts as free.
const nearlyFree = 1e-9

// free takes the regret from every preference whose optimum costs next to nothing; optima are what
// those of the front cost.
func (s *Steering) free(optima []float64) {
	dearest := slices.Max(optima)
	for i := range s.Front {
		if p := &s.Front[i]; p.Compared > 0 && optima[i] < nearlyFree*dearest {
			p.RegretPct, p.Free = Number(math.NaN()), true
		}
	}
}

// Summarize fills in what follows from the front. A preference without a comparison has
// no regret, which the mean and the worst then say.
func (s *Steering) Summarize() {
	sum, priced, worst := 0.0, 0, math.Inf(-1)
	var method, exact [][]Number
	for _, p := range s.Front {
		if r := float64(p.RegretPct); !p.Free {
			sum, priced = sum+r, priced+1
			if !(r <= worst) && !math.IsNaN(worst) { // no regret stays the worst
				worst, s.WorstW = r, p.W
			}
		}
		if p.Compared > 0 {
			method, exact = append(method, p.J), append(exact, p.OracleJ)
		}
	}
	s.MeanRegretPct, s.WorstRegretPct = Number(sum/float64(priced)), Number(worst)
	s.JRange, s.OracleJRange = ranges(method), ranges(exact)
	s.hypervolumes(method, exact)
}

// ranges are the least and the largest of each objective of a front.
func ranges(front [][]Number) (out [][2]Number) {
	for i, J := range front {
		for j, v := range J {
			if i == 0 {
				out = append(out, [2]Number{v, v})
			}
			out[j][0], out[j][1] = min(out[j][0], v), max(out[j][1], v)
		}
	}
	return out
}

func (s *Steering) hypervolumes(method, exact [][]Number) {
	box := ranges(slices.Concat(method, exact))
	s.Hypervolume, s.ExactHypervolume = Hypervolume(method, box), Hypervolume(exact, box)
	s.HypervolumeRatio = s.Hypervolume / s.ExactHypervolume
}

// Hypervolume is the share of a box that a front of two or three objectives dominates; NaN for another number. The box reaches from the
// least of each objective to a tenth of its range beyond the largest.
func Hypervolume(front [][]Number, box [][2]Number) Number {
	if len(box) != 2 && len(box) != 3 {
		return Number(math.NaN())
	}
	var points [][3]float64 // in units of the box, the third objective of two 0 throughout
	for _, J := range front {
		var p [3]float64
		for j, v := range J {
			if length := box[j][1] - box[j][0]; length > 0 {
				p[j] = float64((v - box[j][0]) / length)
			}
		}
		points = append(points, p)
	}
	reference, volume := [3]float64{1, 1, 1}, 1.0
	for j := range box {
		reference[j] = 1.1
		volume *= reference[j]
	}
	return Number(hypervolume3(points, reference) / volume)
}

// HypervolumeRatio is that of a front to that of an exact one, in the box of the exact one.
func HypervolumeRatio(front, exact [][]Number) float64 {
	box := ranges(exact)
	return float64(Hypervolume(front, box) / Hypervolume(exact, box))
}

// SteerOptions say which preferences are swept and on what. Method, Commit, Device, Backend,
// ISA and ModelSHA256 are recorded.
type SteerOptions struct {
	Method, Commit, Device    string
	Backend, ISA, ModelSHA256 string
	Seed                      uint64
	Episodes                  int         // at each preference
	Weights                   [][]float64 // the preferences, each on the simplex
	Progress                  func(done, total int)
}

// Steer runs a method and the case's oracle over episodes at each fixed preference. It traces the front of one map
// without retraining, and the exact front.
func Steer(ctx context.Context, c *domain.Case, m domain.Controller, opt SteerOptions) (*Steering, error) {
	spec := c.Problem.Spec()
	if c.Plant == nil {
		return nil, fmt.Errorf("case %q has no plant to simulate; closedloop.Simulated makes one of its dynamics", spec.Name)
	}
	if opt.Episodes < 1 {
		return nil, option.Errorf("{Episodes} %d: want 1 or more", opt.Episodes)
	}
	out := &Steering{
		Case: spec.Name, Method: opt.Method, Seed: opt.Seed, Commit: opt.Commit, Device: opt.Device,
		Source: Source{durable.Sum(domain.FingerprintOf(c.Problem)), opt.ModelSHA256, opt.Backend, opt.ISA},
	}
	var optima []float64
	for i, w := range opt.Weights {
		pref := domain.Preference{W: w}
		if err := pref.Validate(spec.ObjectiveSize()); err != nil {
			return nil, fmt.Errorf("preference %d: %w", i+1, err)
		}
		p := FrontPoint{W: w, Episodes: opt.Episodes, J: make([]Number, spec.ObjectiveSize()), OracleJ: make([]Number, spec.ObjectiveSize())}
		cost, oracle := 0.0, 0.0
		for e := range opt.Episodes {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			method, optimum, err := p.run(ctx, c, m, func() (domain.Episode, error) {
				return c.Plant.Episode(opt.Seed, e, domain.EpisodeOptions{Preference: pref, Context: ctx})
			})
			if err != nil {
				return nil, fmt.Errorf("preference %v, episode %d: %w", w, e, err)
			}
			cost, oracle = cost+method, oracle+optimum
			if opt.Progress != nil {
				opt.Progress(i*opt.Episodes+e+1, len(opt.Weights)*opt.Episodes)
			}
		}
		p.RegretPct = Number(100 * (cost - oracle) / oracle)
		for j := range p.J {
			p.J[j] /= Number(p.Compared)
			p.OracleJ[j] /= Number(p.Compared)
		}
		out.Front, optima = append(out.Front, p), append(optima, oracle)
	}
	if len(optima) > 0 {
		out.free(optima)
	}
	out.Summarize()
	return out, nil
}

// run adds one episode to the point, opened for the method and for the optimum. It returns what both cost, 0 where they are not compared.
func (p *FrontPoint) run(ctx context.Context, c *domain.Case, m domain.Controller, open func() (domain.Episode, error)) (cost, oracle float64, err error) {
	spec, pref := c.Problem.Spec(), domain.Preference{W: p.W}
	ep, err := open()
	if err != nil {
		return 0, 0, err
	}
	best, plan, missing := ep.Oracle() // without an optimum there is nothing to compare with, as in an evaluation
	if err := cmp.Or(ctx.Err(), m.Reset(ep)); err != nil {
		return 0, 0, err
	}
	s, x, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	sensed := newMeasuredEpisode(c, ep, domain.AbilitiesOfController(m))
	method, err := follow(spec, ep, func(int) ([]float64, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if sensed != nil {
			sensed.measure(nil)
			_, err := sensed.decide(sensed.y, sensed.c, pref, s, x, u)
			return u, err
		}
		ep.Observe(s, x)
		_, err := m.Decide(s, x, pref, u)
		return u, err
	})
	if err != nil {
		return 0, 0, err
	}
	if !method.feasible {
		p.Violations++
		return 0, 0, nil
	}
	if missing != nil || plan == nil || math.IsNaN(best) {
		return 0, 0, nil
	}
	exact, err := open()
	if err != nil {
		return 0, 0, err
	}
	ideal, err := follow(spec, exact, func(t int) ([]float64, error) { return plan[t], nil })
	if err != nil {
		return 0, 0, err
	}
	for j := range method.objectives {
		p.J[j] += Number(method.objectives[j])
		p.OracleJ[j] += Number(ideal.objectives[j])
	}
	p.Compared++
	return method.cost, ideal.cost, nil
}

// totals are the sums of one episode's steps. It is feasible if every margin was kept and no state was lost.
type totals struct {
	objectives []float64
	cost       float64
	feasible   bool
}

// follow runs an episode to its end.
func follow(spec *domain.Spec, ep domain.Episode, decide func(t int) ([]float64, error)) (totals, error) {
	sum := totals{objectives: make([]float64, spec.ObjectiveSize()), feasible: true}
	for t := 0; !ep.Done(); t++ {
		u, err := decide(t)
		if err != nil {
			return totals{}, err
		}
		out, err := apply(spec, ep, u)
		if err != nil {
			return totals{}, err
		}
		tensor.Axpy(1, out.J, sum.objectives)
		sum.cost += out.Cost
		sum.feasible = sum.feasible && spec.Keeps(out.Margin) && !out.Failed
	}
	return sum, nil
}

// hypervolume2 is the area that a set of two-objective points dominates below a
// reference point, both minimised.
func hypervolume2(points [][2]float64, reference [2]float64) float64 {
	area, best := 0.0, reference[1]
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b [2]float64) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for _, p := range sorted {
		if p[0] < reference[0] && p[1] < best {
			area += (reference[0] - p[0]) * (best - p[1])
			best = p[1]
		}
	}
	return area
}

// hypervolume3 is the volume that a set of three-objective points dominates below a reference point, all minimised. It
// sums slices between successive third objectives, each with the area of the points below it.
func hypervolume3(points [][3]float64, reference [3]float64) float64 {
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b [3]float64) int { return cmp.Compare(a[2], b[2]) })
	volume := 0.0
	var dominated [][2]float64
	for i, p := range sorted {
		dominated = append(dominated, [2]float64{p[0], p[1]})
		top := reference[2]
		if i+1 < len(sorted) {
			top = min(top, sorted[i+1][2])
		}
		if top > p[2] {
			volume += (top - p[2]) * hypervolume2(dominated, [2]float64{reference[0], reference[1]})
		}
	}
	return volume
}
