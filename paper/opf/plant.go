package opf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/gpc-engine/gpc/domain"
)

// testStream separates test trajectories and their noise from every training
// draw: it is mixed into the seed of each generator here and nowhere else.
const testStream = 0x6f70_665f_7465_7374 // "opf_test"

// hiddenSuffix of a regime withholds the branch factors from the controller: it
// observes ones.
const hiddenSuffix = "-hidden"

// estimatedSuffix withholds them too, and the controller observes what is estimated of them from measured flows.
const estimatedSuffix = "-estimated"

// maxRedraws trajectories in a row may be infeasible for the oracle before an
// episode is given up.
const maxRedraws = 100

// Scene is a test trajectory as the trace holds it. Step t of an episode
// dispatches for the loads of row t+1; row 0 is the state before, solved
// exactly, whose set-points are Pg0 and Vg0.
type Scene struct {
	Pd     [][]float64 `json:"pd_mw"`   // [T][bus]
	Qd     [][]float64 `json:"qd_mvar"` // [T][bus]
	Branch []float64   `json:"branch_factor"`
	Pg0    []float64   `json:"pg0_pu"`
	Vg0    []float64   `json:"vg0_pu"`
	Regime string      `json:"regime"`
	// Hidden: the controller observes ones for the branch factors. A drawn trajectory has it in
	// the regime of its run.
	Hidden bool `json:"hidden,omitempty"`
	// W scores the trajectory instead of J_total where it is present.
	W []float64 `json:"w,omitempty"`
	// Excluded are the trajectories drawn before this one for which the oracle
	// found no solution at some step.
	Excluded []Exclusion `json:"excluded,omitempty"`
}

// Exclusion says at which step and why a trajectory is out.
type Exclusion struct {
	Step   int    `json:"step"`
	Reason string `json:"reason"`
}

// Params are the constants of a trace's header.
type Params struct {
	Case      string         `json:"case_m"` // the MATPOWER file
	Dt        float64        `json:"dt_s"`
	Ramp      []float64      `json:"ramp_pu"` // per step, by unit
	Tolerance float64        `json:"tol_pu"`  // of every margin
	Thermal   float64        `json:"thermal_threshold"`
	Deadband  float64        `json:"voltage_deadband_pu"`
	Cost      string         `json:"cost"`
	Scales    []float64      `json:"objective_scales"` // of J in a scene's w
	Semantic  semanticParams `json:"semantic"`
	// Security says which outages a dispatch has to survive; null: none.
	Security *securityParams `json:"security,omitempty"`
}

// semanticParams are the constants of σ as it is reported with each step.
type semanticParams struct {
	K        []float64 `json:"k"`
	Epsilon  []float64 `json:"epsilon"`
	Rho      float64   `json:"rho"`
	Economic float64   `json:"delta_economic"`
}

// costText is the definition of an episode's cost, for whoever re-scores a trace.
const costText = "J1+J2+J3; in a scene with w: sum of w_i*J_i/objective_scales_i, w_3 at least 0.01"

// Plant makes the closed-loop episodes of a System. It is safe for concurrent
// use.
type Plant struct {
	system       *System
	text         string // the case file
	mu           sync.Mutex
	trajectories map[drawKey]*trajectory
	order        []drawKey // of trajectories, the oldest first
}

// drawKey names a test trajectory.
type drawKey struct {
	seed  uint64
	index int
	loads regime
	w     string
}

// trajectory is an accepted trajectory with its oracle, made once.
type trajectory struct {
	mu    sync.Mutex
	scene Scene
	chain *Chain // nil before it is drawn
}

// draw makes the trajectory where it is not made yet; one that ended with an error is made
// again by who asks next.
func (d *trajectory) draw(create func() (Scene, *Chain, error)) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chain == nil {
		d.scene, d.chain, err = create()
	}
	return err
}

// keptTrajectories bounds the memory of trajectories with their oracles.
const keptTrajectories = 256

func newPlant(y *System, text string) *Plant {
	return &Plant{system: y, text: text, trajectories: map[drawKey]*trajectory{}}
}

// Params implements domain.Plant.
func (l *Plant) Params() any { return l.params() }

func (l *Plant) params() Params {
	return Params{
		Case: l.text, Dt: StepSeconds, Ramp: l.system.Ramp, Tolerance: MarginTolerance,
		Thermal: ThermalThreshold, Deadband: VoltageDeadband, Cost: costText, Scales: objectiveScales[:],
		Semantic: semanticParams{semantic.K, semantic.Epsilon, semantic.Rho, economicIndicator},
		Security: l.system.security.params(l.system.Network),
	}
}

// Episode draws test trajectory number index. A trajectory is redrawn only if the
// oracle, the exact solver coupled by its own ramp from the same start, has no
// solution at one of its steps; how often is in the scene. opt.Noise is the
// standard deviation of the measured voltages, pu, and angles, rad. opt.Regime is
// one of RegimePaper, RegimeEnvelope (the default) and RegimeSwing; in the
// uncertain case "-hidden" behind it withholds the branch factors, "-estimated" gives what flows say of them, and behind that
// ":LO:HI" or ":LO:HI:SPREAD" are load levels, and a spread of single loads, of one's own.
func (l *Plant) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	r, err := l.regime(opt.Regime)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", l.noRegime(opt.Regime), err)
	}
	if (r.hidden || r.estimated) && !l.system.layout.uncertain {
		return nil, fmt.Errorf("%w: this case has no branch factors to hide or to estimate", l.noRegime(opt.Regime))
	}
	w, err := opt.Fixed(index, objectives)
	if err != nil {
		return nil, err
	}
	loads := r
	loads.hidden, loads.estimated = false, false // whoever observes it
	d := l.trajectory(drawKey{seed, index, loads, fmt.Sprint(w)})
	if err := d.draw(func() (Scene, *Chain, error) {
		scenes, chains, errs := l.draw(opt.Until(), seed, []int{index}, loads, w)
		return *scenes[0], chains[0], errs[0]
	}); err != nil {
		return nil, err
	}
	e, err := newEpisode(l, d.scene)
	if err != nil {
		return nil, err
	}
	e.chain, e.hidden = d.chain, r.hidden
	if r.estimated {
		e.estimator = newAdmittances(l.system.Network, seed, index)
	}
	return e.measured(seed, index, opt), nil
}

// regime reads one; without levels of its own that of a secure dispatch has secureLevels.
func (l *Plant) regime(text string) (regime, error) {
	r, err := parseRegime(text)
	if err == nil && l.system.security != nil && !strings.Contains(text, ":") {
		r.lo, r.hi = secureLevels[0], secureLevels[1]
	}
	return r, err
}

func (l *Plant) noRegime(name string) domain.RegimeError {
	return domain.RegimeError{Case: l.system.spec.Name, Regime: name, Has: []string{RegimePaper, RegimeEnvelope, RegimeSwing}}
}

func (l *Plant) trajectory(key drawKey) *trajectory {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.trajectories[key]
	if d == nil {
		if len(l.order) >= keptTrajectories {
			delete(l.trajectories, l.order[0])
			l.order = l.order[1:]
		}
		d = &trajectory{}
		l.trajectories[key] = d
		l.order = append(l.order, key)
	}
	return d
}

// Prepare is domain.PlantAbilities.Prepare: the oracles of the trajectories are solved side by side.
func (l *Plant) Prepare(ctx context.Context, seed uint64, indices []int, opt domain.EpisodeOptions) error {
	r, err := l.regime(opt.Regime)
	if err != nil {
		return fmt.Errorf("%w: %w", l.noRegime(opt.Regime), err)
	}
	r.hidden, r.estimated = false, false
	w, err := opt.Fixed(0, objectives)
	if err != nil {
		return err
	}
	var missing []int
	var pending []*trajectory
	for _, index := range indices {
		d := l.trajectory(drawKey{seed, index, r, fmt.Sprint(w)})
		if !d.mu.TryLock() {
			continue // someone is at it
		}
		if d.chain != nil {
			d.mu.Unlock()
			continue
		}
		missing, pending = append(missing, index), append(pending, d)
	}
	scenes, chains, errs := l.draw(ctx, seed, missing, r, w)
	for k, d := range pending {
		if errs[k] == nil {
			d.scene, d.chain = *scenes[k], chains[k]
		}
		d.mu.Unlock()
	}
	return ctx.Err()
}

// draw draws trajectories, each until the oracle solves one.
func (l *Plant) draw(ctx context.Context, seed uint64, indices []int, loads regime, w []float64) (scenes []*Scene, chains []*Chain, errs []error) {
	chains, errs = make([]*Chain, len(indices)), make([]error, len(indices))
	for range indices {
		scenes = append(scenes, &Scene{Regime: loads.String(), W: w})
	}
	for attempt := range maxRedraws {
		var open []int
		var candidates []*Scene
		for k, scene := range scenes {
			if chains[k] == nil && errs[k] == nil {
				l.try(scene, rand.New(rand.NewPCG(seed^testStream, uint64(indices[k])<<20|uint64(attempt))), loads)
				open, candidates = append(open, k), append(candidates, scene)
			}
		}
		if len(open) == 0 {
			return scenes, chains, errs
		}
		solved, failed := l.system.runChains(ctx, candidates)
		for i, k := range open {
			var out *chainError
			switch {
			case errors.As(failed[i], &out):
				scenes[k].Excluded = append(scenes[k].Excluded, Exclusion{out.step, out.reason})
			case failed[i] != nil:
				errs[k] = failed[i]
			default:
				chains[k] = solved[i]
				scenes[k].Pg0, scenes[k].Vg0 = solved[i].Pg0, solved[i].Vg0
			}
		}
	}
	for k := range indices {
		if chains[k] == nil && errs[k] == nil {
			errs[k] = fmt.Errorf("opf: regime %[2]q: %[1]d load series in a row have no optimum; NAME:LO:HI chooses other load levels", maxRedraws, loads)
		}
	}
	return scenes, chains, errs
}

// try draws loads and branch factors of a trajectory.
func (l *Plant) try(scene *Scene, rng *rand.Rand, loads regime) {
	n := l.system.Network
	scene.Pd, scene.Qd = loadPaths(rng, n, loads, Steps+1)
	for t := range scene.Pd {
		for i := range n.BusID {
			scene.Pd[t][i] *= n.BaseMVA
			scene.Qd[t][i] *= n.BaseMVA
		}
	}
	if scene.Branch = ones(n.Branches()); l.system.layout.uncertain {
		scene.Branch = branchDraw(rng, n.Branches())
	}
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// Replay rebuilds a noise-free episode from a trace's header and scene.
func (l *Plant) Replay(params, scene json.RawMessage) (domain.Episode, error) {
	caseParams := l.params()
	var p Params
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, fmt.Errorf("trace params: %w", err)
	}
	switch {
	case p.Case != caseParams.Case:
		return nil, errors.New("trace params: case_m differs from the network of this case")
	case !p.Security.equal(caseParams.Security):
		return nil, errors.New("trace params: security has other outages or limits than this case")
	case !slices.Equal(p.Ramp, caseParams.Ramp):
		return nil, fmt.Errorf("trace params: ramp_pu is %v, this case has %v", p.Ramp, caseParams.Ramp)
	}
	if err := caseParams.fixed(&p); err != nil {
		return nil, fmt.Errorf("trace params: %w", err)
	}
	var s Scene
	if err := json.Unmarshal(scene, &s); err != nil {
		return nil, fmt.Errorf("trace scene: %w", err)
	}
	if err := l.system.checkScene(&s); err != nil {
		return nil, fmt.Errorf("trace scene: %w", err)
	}
	return newEpisode(l, s)
}

// fixed says which constants that are the program's own differ in p.
func (params *Params) fixed(p *Params) error {
	a, b := &p.Semantic, &params.Semantic
	switch {
	case p.Dt != params.Dt:
		return fmt.Errorf("dt_s is %v, this program has %v", p.Dt, params.Dt)
	case p.Tolerance != params.Tolerance || p.Thermal != params.Thermal || p.Deadband != params.Deadband || p.Cost != params.Cost || !slices.Equal(p.Scales, params.Scales):
		return errors.New("tolerance, objectives or cost differ from those of this program")
	case !slices.Equal(a.K, b.K) || !slices.Equal(a.Epsilon, b.Epsilon) || a.Rho != b.Rho || a.Economic != b.Economic:
		return fmt.Errorf("semantic is %+v, this program reports with %+v", *a, *b)
	}
	return nil
}

// checkScene says what is wrong with a scene that was read.
func (y *System) checkScene(s *Scene) error {
	n := y.Network
	if len(s.Pd) != Steps+1 || len(s.Qd) != Steps+1 {
		return fmt.Errorf("pd_mw has %d rows and qd_mvar %d, want %d: one for the state before, and one for each step", len(s.Pd), len(s.Qd), Steps+1)
	}
	for t := range s.Pd {
		if len(s.Pd[t]) != n.Buses() || len(s.Qd[t]) != n.Buses() {
			return fmt.Errorf("row %d has %d P and %d Q loads, the network has %d buses", t, len(s.Pd[t]), len(s.Qd[t]), n.Buses())
		}
	}
	for _, v := range []struct {
		name string
		v    []float64
		n    int
	}{{"branch_factor", s.Branch, n.Branches()}, {"pg0_pu", s.Pg0, n.Gens()}, {"vg0_pu", s.Vg0, n.Gens()}} {
		if len(v.v) != v.n {
			return fmt.Errorf("%s has %d entries, want %d", v.name, len(v.v), v.n)
		}
	}
	for k, b := range s.Branch {
		if !(b > 0) || math.IsInf(b, 0) {
			return fmt.Errorf("branch_factor[%d] is %v, want a positive number", k, b)
		}
	}
	if s.W != nil {
		return (domain.Preference{W: s.W}).Validate(objectives)
	}
	return nil
}
