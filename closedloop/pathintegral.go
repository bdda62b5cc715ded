package closedloop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// pathOptions say how a pathIntegral samples.
type pathOptions struct {
	candidates  int
	noise       float64 // standard deviation, of half an action's range
	temperature float64 // of the spread of the costs: the least one to that of the best quarter
	correlation float64 // of the noise of two decisions in a row
	penalty     float64 // of a limit that is broken by 1 at a decision, of the mean cost of a decision of the first plan
}

const (
	pathFirst = 16  // updates of an episode's first decision; each other one has one
	pathGroup = 256 // candidates that step together: what they read and write stays in the second cache
)

// pathMethod is the method `mppi-N` or `mppi-N-NOISE-TEMPERATURE-CORRELATION-PENALTY`; false: the name is of none.
func pathMethod(p domain.Problem, name string) (domain.Method, bool) {
	o := pathOptions{noise: 0.2, temperature: 0.1, correlation: 0.9, penalty: 100}
	fields := strings.Split(name, "-")
	if len(fields) != 2 && len(fields) != 6 || fields[0] != "mppi" {
		return domain.Method{}, false
	}
	n, err := strconv.Atoi(fields[1])
	if o.candidates = n; err != nil || n < 8 || n > 1<<20 || fields[1] != strconv.Itoa(n) {
		return domain.Method{}, false
	}
	constants := []*float64{&o.noise, &o.temperature, &o.correlation, &o.penalty}
	for i, text := range fields[2:] {
		if *constants[i], err = strconv.ParseFloat(text, 64); err != nil || !(*constants[i] >= 0 && *constants[i] <= 1e6) || o.correlation >= 1 {
			return domain.Method{}, false
		}
	}
	return domain.Method{Name: name, About: fmt.Sprintf("model predictive path integral control: the weighted mean of %d plans about the one before, shifted; mppi-N-NOISE-TEMPERATURE-CORRELATION-PENALTY for any", n), Group: domain.GroupBaseline,
		New: func(domain.Means) (domain.Controller, error) { return newPathIntegral(p, o) }}, true
}

// pathIntegral is model predictive path integral control (Williams, Aldrich and Theodorou 2017). It simulates plans with
// normal noise about the plan before, shifted. The new plan is their mean with weights exp(−(S − S_least)/λ). S is a
// plan's cost with a penalty of the limits that it breaks. Only the first action is projected.
type pathIntegral struct {
	*receding // its plan is the mean
	opt       pathOptions
	abilities *domain.ProblemAbilities
	values    domain.ManyValues
	rng       *rand.Rand
	unit      float64 // cost of a limit that is broken by 1 at a decision

	plans                      []float64 // [decision][candidate][action]
	costs, violations, weights []float64 // of the candidates
	ranked                     []float64 // the costs that have weight, ascending
	noise                      []float64 // of the candidates at one decision
	x, next, j, m, sigmas      []float64 // of a group
}

func newPathIntegral(p domain.Problem, o pathOptions) (domain.Controller, error) {
	spec, n := p.Spec(), o.candidates
	nx, group := spec.MeasuredSize()+spec.ContextSize(), min(o.candidates, pathGroup)
	plan := spec.LookAhead() * spec.ActionSize()
	k := &pathIntegral{
		receding:  &receding{problem: p, steps: spec.LookAhead(), plan: make([]float64, plan), last: make([]float64, spec.ActionSize()), delta: make([]float64, spec.ObjectiveSize()), sigma: make([]float64, spec.ObjectiveSize())},
		opt:       o,
		abilities: domain.AbilitiesOfProblem(p),
		plans:     make([]float64, n*plan), noise: make([]float64, n*spec.ActionSize()), costs: make([]float64, n), violations: make([]float64, n), weights: make([]float64, n),
		x: make([]float64, group*nx), next: make([]float64, group*nx), j: make([]float64, group*spec.ObjectiveSize()), sigmas: make([]float64, group*spec.ObjectiveSize()), m: make([]float64, group*len(spec.Margins)),
	}
	k.remaining = k.abilities.Remaining
	var err error
	if k.values, err = domain.ValuesOf(p); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *pathIntegral) Reset(domain.Episode) error {
	k.t, k.unit, k.rng = 0, 0, rand.New(rand.NewPCG(1, uint64(k.opt.candidates)))
	return nil
}

// Abilities implements domain.Able.
func (k *pathIntegral) Abilities() *domain.ControllerAbilities {
	missed := func(_, _, _ []float64) {
		if k.t > 0 { // there is a plan
			k.t++
			k.shift()
		}
	}
	return &domain.ControllerAbilities{Executed: func([]float64) {}, Missed: missed}
}

// shift moves the plan one decision on; its last action repeats.
func (k *pathIntegral) shift() { copy(k.plan, k.plan[len(k.last):]) }

func (k *pathIntegral) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	steps, updates := min(k.steps, k.decisionsLeft(c)), 1
	if k.t == 0 {
		updates = pathFirst
		k.problem.Fallback(s, c, u)
		for h := range k.steps {
			copy(k.plan[h*len(u):], u)
		}
	}
	for range updates {
		k.sample(steps)
		for first := 0; first < k.opt.candidates; first += pathGroup {
			k.rollOut(s, c, pref, steps, first, min(k.opt.candidates, first+pathGroup))
		}
		if k.unit == 0 { // of an episode's first plan, which holds the fallback
			k.unit = k.opt.penalty * math.Abs(k.costs[0]) / float64(steps)
		}
		k.average(steps)
	}
	copy(u, k.plan)
	d := domain.Decided(k.problem.Project(s, c, u))
	d.Ahead = append([]float64(nil), k.plan[:steps*len(u)]...)
	k.t++
	k.shift()
	return d, nil
}

// sample draws the candidates. The first is the plan itself.
func (k *pathIntegral) sample(steps int) {
	nu, n := len(k.last), k.opt.candidates
	fresh := math.Sqrt(1 - k.opt.correlation*k.opt.correlation)
	for h := range steps {
		for a, v := range k.problem.Spec().Action {
			half, mean := v.Half(), k.plan[h*nu+a]
			k.plans[h*n*nu+a] = mean
			for i := 1; i < n; i++ {
				e := &k.noise[i*nu+a]
				if draw := k.rng.NormFloat64(); h == 0 {
					*e = draw
				} else {
					*e = k.opt.correlation**e + fresh*draw
				}
				k.plans[(h*n+i)*nu+a] = mean + half*k.opt.noise**e
			}
		}
		for i := range n {
			u := k.plans[(h*n+i)*nu:][:nu]
			domain.Clip(u, u, k.problem.Spec().Action)
		}
	}
}

// rollOut writes the costs of the candidates from first and before end, and by how much they break limits.
func (k *pathIntegral) rollOut(s, c []float64, pref domain.Preference, steps, first, end int) {
	spec := k.problem.Spec()
	n, nu := end-first, len(k.last)
	ns, nx := len(s), len(s)+len(c)
	nj, nm := spec.ObjectiveSize(), len(spec.Margins)
	for i := range n {
		copy(k.x[i*nx:], s)
		copy(k.x[i*nx+ns:], c)
		k.costs[first+i], k.violations[first+i] = 0, 0
	}
	for h := range steps {
		actions := k.plans[(h*k.opt.candidates+first)*nu:][:n*nu]
		k.values.Evaluate(n, k.x[:n*nx], actions, k.next[:n*nx], k.j[:n*nj], k.m[:n*nm])
		if pref.Adaptive {
			k.values.Priorities(n, k.x[:n*nx], actions, k.sigmas)
		}
		for i := range n {
			next, j, sigma := k.next[i*nx:][:nx], k.j[i*nj:][:nj], pref.W
			if pref.Adaptive {
				sigma = k.sigmas[i*nj:][:nj]
			}
			for l, w := range sigma {
				k.costs[first+i] += w * j[l]
			}
			if margin := domain.Smallest(k.m[i*nm:][:nm]); !spec.Keeps(margin) {
				k.violations[first+i] -= margin
			}
			if failed := k.abilities.Failed; failed != nil && failed(next[:ns], next[ns:]) {
				k.violations[first+i] = math.Inf(1)
			}
		}
		k.x, k.next = k.next, k.x
	}
	if terminal := k.abilities.TerminalCost; terminal != nil {
		for i := range n {
			k.costs[first+i] += terminal(k.x[i*nx:][:ns], k.x[i*nx+ns:][:nx-ns], pref)
		}
	}
}

// average makes the weighted mean the plan, which stays as it is where no candidate is finite.
func (k *pathIntegral) average(steps int) {
	k.ranked = k.ranked[:0]
	for i, cost := range k.costs {
		if k.weights[i] = cost + k.unit*k.violations[i]; math.IsNaN(k.weights[i]) {
			k.weights[i] = math.Inf(1)
		}
		if !math.IsInf(k.weights[i], 0) {
			k.ranked = append(k.ranked, k.weights[i])
		}
	}
	if len(k.ranked) == 0 {
		return
	}
	slices.Sort(k.ranked)
	least := k.ranked[0]
	scale, sum := 1/math.Max(k.opt.temperature*(k.ranked[len(k.ranked)/4]-least), 1e-12*(1+math.Abs(least))), 0.0
	for i, cost := range k.weights {
		k.weights[i] = math.Exp(-(cost - least) * scale)
		sum += k.weights[i]
	}
	nu, n := len(k.last), k.opt.candidates
	clear(k.plan[:steps*nu])
	for h := range steps {
		for i, w := range k.weights {
			if w == 0 {
				continue
			}
			tensor.Axpy(w/sum, k.plans[(h*n+i)*nu:][:nu], k.plan[h*nu:])
		}
	}
}
