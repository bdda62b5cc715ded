package closedloop

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// FrontPoint is one preference of a steering sweep: what the method reached, and
// what the exact optimum of the same episodes and preference reaches. Objectives
// are summed over an episode and averaged over episodes.
type FrontPoint struct {
	W []float64 `json:"w"`
	// J and OracleJ are over the episodes in which the method kept every limit and
	// the oracle exists; Compared is their number.
	J        []Number `json:"j"`
	OracleJ  []Number `json:"oracle_j"`
	Compared int      `json:"compared"`
	// RegretPct is 100 (Σ cost − Σ oracle)/Σ oracle at this preference.
	RegretPct  Number `json:"regret_pct"`
	Episodes   int    `json:"episodes"`
	Violations int    `json:"violations"` // episodes with a violated margin
}

// Steer runs a method over episodes at each fixed preference and beside it the
// case's oracle: the front that one map traces without retraining, and the
// exact one.
func Steer(ctx context.Context, c *domain.Case, m domain.Controller, seed uint64, episodes int, weights [][]float64, progress func(done, total int)) ([]FrontPoint, error) {
	spec := c.Problem.Spec()
	if c.Plant == nil {
		return nil, fmt.Errorf("closedloop: case %q has no plant; see Simulated", spec.Name)
	}
	if episodes < 1 {
		return nil, fmt.Errorf("closedloop: %d episodes, want 1 or more", episodes)
	}
	var front []FrontPoint
	for i, w := range weights {
		pref := domain.Preference{W: w}
		if err := pref.Validate(spec.ObjectiveSize()); err != nil {
			return nil, fmt.Errorf("closedloop: preference %d: %w", i+1, err)
		}
		p := FrontPoint{W: w, Episodes: episodes, J: make([]Number, spec.ObjectiveSize()), OracleJ: make([]Number, spec.ObjectiveSize())}
		cost, oracle := 0.0, 0.0
		for e := range episodes {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := p.run(c, m, seed, e, pref, &cost, &oracle); err != nil {
				return nil, fmt.Errorf("closedloop: preference %v, episode %d: %w", w, e, err)
			}
			if progress != nil {
				progress(i*episodes+e+1, len(weights)*episodes)
			}
		}
		p.RegretPct = Number(100 * (cost - oracle) / oracle)
		for j := range p.J {
			p.J[j] /= Number(p.Compared)
			p.OracleJ[j] /= Number(p.Compared)
		}
		front = append(front, p)
	}
	return front, nil
}

// run adds one episode to the point.
func (p *FrontPoint) run(c *domain.Case, m domain.Controller, seed uint64, e int, pref domain.Preference, cost, oracle *float64) error {
	spec := c.Problem.Spec()
	open := func() (domain.Episode, error) {
		return c.Plant.Episode(seed, e, domain.EpisodeOptions{Preference: pref})
	}
	ep, err := open()
	if err != nil {
		return err
	}
	best, plan, err := ep.Oracle()
	if err != nil {
		return err
	}
	if err := m.Reset(ep); err != nil {
		return err
	}
	s, x, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	own, ownCost, kept, err := follow(spec, ep, func(int) ([]float64, error) {
		ep.Observe(s, x)
		_, err := m.Decide(s, x, pref, u)
		return u, err
	})
	if err != nil {
		return err
	}
	if !kept {
		p.Violations++
		return nil
	}
	if plan == nil || math.IsNaN(best) {
		return nil
	}
	exact, err := open()
	if err != nil {
		return err
	}
	ideal, idealCost, _, err := follow(spec, exact, func(t int) ([]float64, error) { return plan[t], nil })
	if err != nil {
		return err
	}
	for j := range own {
		p.J[j] += Number(own[j])
		p.OracleJ[j] += Number(ideal[j])
	}
	*cost += ownCost
	*oracle += idealCost
	p.Compared++
	return nil
}

// follow runs an episode to its end and returns the summed objectives, the
// cost, and whether every margin was kept.
func follow(spec *domain.Spec, ep domain.Episode, decide func(t int) ([]float64, error)) (J []float64, cost float64, kept bool, err error) {
	J, kept = make([]float64, spec.ObjectiveSize()), true
	for t := 0; !ep.Done(); t++ {
		u, err := decide(t)
		if err != nil {
			return nil, 0, false, err
		}
		out, err := apply(spec, ep, u)
		if err != nil {
			return nil, 0, false, err
		}
		for j, v := range out.J {
			J[j] += v
		}
		cost += out.Cost
		kept = kept && out.Margin >= -spec.MarginTolerance
	}
	return J, cost, kept, nil
}

// Hypervolume2 is the area that a set of two-objective points dominates below a
// reference point, both minimised.
func Hypervolume2(points [][2]float64, reference [2]float64) float64 {
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

// Hypervolume3 is the volume that a set of three-objective points dominates below
// a reference point, all minimised: slices between successive third objectives,
// each with the area of the points below it.
func Hypervolume3(points [][3]float64, reference [3]float64) float64 {
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b [3]float64) int { return cmp.Compare(a[2], b[2]) })
	volume := 0.0
	var below [][2]float64
	for i, p := range sorted {
		below = append(below, [2]float64{p[0], p[1]})
		top := reference[2]
		if i+1 < len(sorted) {
			top = min(top, sorted[i+1][2])
		}
		if top > p[2] {
			volume += (top - p[2]) * Hypervolume2(below, [2]float64{reference[0], reference[1]})
		}
	}
	return volume
}
