package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/tensor"
)

// Constants of RunDomain.
const (
	// differenceStep is the step of central differences relative to max(1, |v|),
	// and differenceTolerance what they may differ by relative to the gradient's
	// size: with fifth derivatives up to 10¹³ the truncation is 10⁻⁸.
	differenceStep      = 1e-5
	differenceTolerance = 1e-6
	// differenceRounding times |J| is the rounding of a difference: 10⁻¹⁶ / 10⁻⁵
	// with a factor for the summands that cancel within J.
	differenceRounding = 1e-9
	// batchTolerance is for GradientBatch, which works in float32.
	batchTolerance = 1e-4
	// blockTolerance is for GradientBlock, which works in float64 but may sum in
	// another order.
	blockTolerance = 1e-11
	// planTolerance is for a PlanScorer, which may work in float32.
	planTolerance = 1e-4
	domainPoints  = 40
	domainSeed    = 20240917
)

// RunDomain checks a control problem against its own contract:
//
//   - The case is one that domain.Case.Validate accepts.
//   - Gradient agrees with central differences of Objectives in s and u;
//     GradientBatch and GradientBlock, if there are any, with Gradient row by row.
//   - PlanGradientBatch, if there is one, agrees with central differences of
//     PlanObjectives in the state and in the plan, row by row.
//   - Dual functions, if there are any, have the values of the problem's own and their
//     derivatives.
//   - Step, Base and Objectives are finite; no method changes its inputs.
//   - Score, if there is one, gives finite objectives and the margins of Margins.
//   - A PlanScorer, if there is one, agrees on the CPU with the roll-out action by
//     action (ref.ScorePlan) in every row and on any number of threads; a plan that is
//     not finite spoils no other, and a cancelled context ends it.
//   - Polish, if there is one, writes finite plans, the same again and beside others,
//     leaves one that it reports no change of, and more than once its projected roll-out
//     is feasible and cheaper than that of the plan it was given.
//   - Indicators are in [0, 1].
//   - Project leaves finite actions, and where it reports success every margin is
//     kept within MarginTolerance.
//   - Fallback is finite and inside the action box for a state that is all NaN.
//   - What a Pictured shows is of finite shapes, the same again.
//   - Solver samples (left out under -short) are finite, of the sizes of Spec,
//     inside the box, with margins and the first action's margins kept.
//   - A receding horizon, if the solver has one (left out under -short), writes finite
//     plans, and where it converges of the cost that it says, within the margins, the same
//     again and from themselves.
//   - The plant says of a state that it is lost where the problem does (Failing).
//   - Every action has an effect, some objective depends on the action, none is negative
//     nearly everywhere, and no two are of sizes that nothing can weigh (unless the problem
//     is Weighing).
//   - At most starts of the plant some action keeps the limits, and states are of the
//     size that Spec says. Where walks of projected actions lose the limits is logged.
//   - The plant gives the same episode for the same seed and index, and Replay of
//     its JSON gives bitwise the same outcomes. Where the problem is Weighing, the cost
//     under a user's preference is what Weigh makes of the objectives.
//   - Where the plant is Staging, the episode of a draft is bitwise the one that it is
//     of, with its noise, and so is that of the scene in a trace; unknown fields are refused.
//     Remake takes the plant's own params and no unknown ones.
//   - Device functions (domain.Device) agree with the problem's own methods, at these
//     points and beyond the limits, on the backend that device opens; nil: they are
//     not run.
//
// States and contexts are taken from episodes of the plant where there is one,
// from solver samples where not, and else drawn from the ranges of Spec (a
// standard normal where a variable has none). Solver and Plant may be nil. Where
// the map is about another problem, Learned and Solver are checked together and
// apart from Problem and Plant. The
// solver's Prepare is run: a case whose solver builds a large library is given
// here with a small one.
func RunDomain(t *testing.T, c domain.Case, device func(*testing.T, domain.DeviceCode) backend.DeviceFunctions) {
	must.OK(t, c.Validate())
	if c.Learned != nil {
		t.Run("learned", func(t *testing.T) { RunDomain(t, domain.Case{Problem: c.Learned, Solver: c.Solver}, device) })
		c.Learned, c.Solver = nil, nil
	}
	if c.Plant != nil && !t.Run("starts", func(t *testing.T) {
		at := must.Get(starts(c))(t)
		report(t, checkStarts(c.Problem, at))
		if room := checkRoom(c.Problem, at); room != "" {
			t.Log(room)
		}
	}) {
		return // from such starts nothing else says what is wrong
	}
	var samples []domain.Sample
	if c.Solver != nil && !testing.Short() {
		t.Run("solver", func(t *testing.T) {
			var errs []error
			samples, errs = checkSolver(c)
			report(t, errs)
		})
	}
	points, err := domainStates(c, samples)
	if err != nil {
		t.Fatalf("states to check at: %v", err)
	}
	for _, check := range domainChecks {
		t.Run(check.name, func(t *testing.T) { report(t, check.run(c.Problem, points)) })
	}
	if r, ok := c.Solver.(domain.Receding); ok && !testing.Short() {
		t.Run("horizon", func(t *testing.T) { report(t, checkHorizon(r, c.Problem, points)) })
	}
	if d, ok := c.Problem.(domain.Device); ok && device != nil {
		t.Run("device", func(t *testing.T) {
			code := d.Device()
			if code.Name == "" {
				t.Skipf("it has no device functions: %s", code.Reason)
			}
			report(t, checkDevice(device(t, code), c.Problem, points))
		})
	}
	if c.Plant != nil {
		t.Run("plant", func(t *testing.T) { report(t, checkPlant(c)) })
	}
}

// report prints at most a few errors, since one mistake shows at every point.
func report(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if i == 8 {
			t.Errorf("and %d more", len(errs)-i)
			return
		}
		t.Error(err)
	}
}

// point is a state, context and action to check at.
type point struct{ s, c, u []float64 }

func (p point) clone() point {
	return point{slices.Clone(p.s), slices.Clone(p.c), slices.Clone(p.u)}
}

var domainChecks = []struct {
	name string
	run  func(p domain.Problem, points []point) []error
}{
	{"gradient", checkGradient},
	{"batch-gradient", checkBatchGradient},
	{"block-gradient", checkBlockGradient},
	{"plan-gradient", checkPlanGradient},
	{"dual", checkDual},
	{"curvature", checkCurved},
	{"dynamics", checkDynamics},
	{"score", checkScore},
	{"plan-score", checkPlanScore},
	{"polish", checkPolish},
	{"indicators", checkIndicators},
	{"projection", checkProjection},
	{"fallback", checkFallback},
	{"picture", checkPicture},
	{"effects", checkEffects},
}

func uniform(rng *rand.Rand, v domain.Variable) float64 {
	if v.Bounded() {
		return v.Lo + rng.Float64()*(v.Hi-v.Lo)
	}
	return rng.NormFloat64()
}

func draw(rng *rand.Rand, variables []domain.Variable) []float64 {
	x := make([]float64, len(variables))
	for i, v := range variables {
		x[i] = uniform(rng, v)
	}
	return x
}

func domainStates(c domain.Case, samples []domain.Sample) ([]point, error) {
	spec := c.Problem.Spec()
	rng := newRand(domainSeed)
	var points []point
	if c.Plant != nil {
		for index := 0; len(points) < domainPoints && index < domainPoints; index++ {
			episode, err := c.Plant.Episode(domainSeed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
			if err != nil {
				return nil, fmt.Errorf("episode %d: %w", index, err)
			}
			for step := 0; step < 8 && !episode.Done(); step++ {
				p := point{make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), draw(rng, spec.Action)}
				episode.Observe(p.s, p.c)
				if !tensor.Finite(p.s) || !tensor.Finite(p.c) {
					break
				}
				points = append(points, p)
				u := slices.Clone(p.u)
				c.Problem.Project(p.s, p.c, u)
				if _, err := episode.Apply(u); err != nil {
					return nil, fmt.Errorf("episode %d, step %d: %w", index, step, err)
				}
			}
		}
		return points, nil
	}
	for _, s := range samples {
		points = append(points, point{s.S, s.C, draw(rng, spec.Action)})
	}
	for len(points) < domainPoints {
		points = append(points, point{draw(rng, spec.Measured), draw(rng, spec.Context), draw(rng, spec.Action)})
	}
	return points, nil
}

func simplex(rng *rand.Rand, m int) []float64 {
	sigma, sum := make([]float64, m), 0.0
	for i := range sigma {
		sigma[i] = 0.05 + rng.Float64()
		sum += sigma[i]
	}
	for i := range sigma {
		sigma[i] /= sum
	}
	return sigma
}

func checkGradient(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	rng := newRand(domainSeed + 1)
	J := make([]float64, spec.ObjectiveSize())
	for i, at := range points {
		sigma := simplex(rng, spec.ObjectiveSize())
		before := at.clone()
		gs, gu := make([]float64, spec.MeasuredSize()), make([]float64, spec.ActionSize())
		p.Gradient(at.s, at.u, at.c, sigma, gs, gu)
		p.Objectives(at.s, at.u, at.c, J)
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.u, before.u) || !slices.Equal(at.c, before.c) {
			errs = append(errs, fmt.Errorf("point %d: Gradient or Objectives changed an input", i))
		}
		if !tensor.Finite(J) {
			errs = append(errs, fmt.Errorf("point %d: objectives %v at s %v, u %v, c %v", i, J, at.s, at.u, at.c))
			continue
		}
		size, magnitude := 1.0, 1.0
		for _, g := range slices.Concat(gs, gu) {
			size = math.Max(size, math.Abs(g))
		}
		for j, v := range J {
			magnitude = math.Max(magnitude, math.Abs(v*sigma[j]))
		}
		moved := before.clone()
		value := func() float64 {
			p.Objectives(moved.s, moved.u, moved.c, J)
			sum := 0.0
			for j := range J {
				sum += sigma[j] * J[j]
			}
			return sum
		}
		for _, part := range []struct {
			name  string
			names []domain.Variable
			x, g  []float64
		}{{"s", spec.Measured, moved.s, gs}, {"u", spec.Action, moved.u, gu}} {
			for j := range part.x {
				x := part.x[j]
				h := differenceStep * math.Max(1, math.Abs(x))
				difference := func(h float64) float64 {
					part.x[j] = x + h
					up := value()
					part.x[j] = x - h
					return (up - value()) / (2 * h)
				}
				near, far := difference(h), difference(2*h)
				part.x[j] = x
				want := near + (near-far)/3 // Richardson: the error is of order h⁴
				if d := math.Abs(part.g[j] - want); !(d <= differenceTolerance*size+differenceRounding*magnitude) {
					errs = append(errs, fmt.Errorf("point %d: ∂(σᵀJ)/∂%s[%d] (%s) is %v, central difference %v (s %v, u %v, c %v, σ %v)", i, part.name, j, part.names[j].Name, part.g[j], want, at.s, at.u, at.c, sigma))
				}
			}
		}
	}
	return errs
}

// rowErrors compares row i of what a batch wrote with J and the gradients that reference
// says; last names the second gradient.
func rowErrors(b *domain.Batch, i int, what, reference string, J, gs, gu []float64, last string) (errs []error) {
	for _, part := range []struct {
		name string
		got  []float32
		want []float64
	}{{"J", b.J[i*b.JStride:], J}, {"∂/∂s", b.GS[i*b.GSStride:], gs}, {last, b.GU[i*b.GUStride:], gu}} {
		size := 1.0
		for _, v := range part.want {
			size = math.Max(size, math.Abs(v))
		}
		for j, want := range part.want {
			if d := math.Abs(float64(part.got[j]) - want); !(d <= batchTolerance*size) {
				errs = append(errs, fmt.Errorf("%s, row %d: %s[%d] is %v, %s %v", what, i, part.name, j, part.got[j], reference, want))
			}
		}
	}
	return errs
}

func checkBatchGradient(p domain.Problem, points []point) (errs []error) {
	batch, ok := p.(domain.BatchGradient)
	if !ok {
		return nil
	}
	spec := p.Spec()
	ns, nu, nc, m := spec.MeasuredSize(), spec.ActionSize(), spec.ContextSize(), spec.ObjectiveSize()
	rng := newRand(domainSeed + 2)
	rows := len(points)
	// Rows with gaps, one context and σ for all in the second round.
	for _, shared := range []bool{false, true} {
		b := domain.Batch{
			Rows: rows, SStride: ns + 3, UStride: nu + 1, CStride: nc, SigmaStride: m, JStride: m + 2, GSStride: ns + 1, GUStride: nu,
			S: make([]float32, rows*(ns+3)), U: make([]float32, rows*(nu+1)), C: make([]float32, rows*nc), Sigma: make([]float32, rows*m),
			J: make([]float32, rows*(m+2)), GS: make([]float32, rows*(ns+1)), GU: make([]float32, rows*nu),
		}
		if shared {
			b.CStride, b.SigmaStride = 0, 0
		}
		for i, at := range points {
			tensor.Narrow(b.S[i*b.SStride:], at.s)
			tensor.Narrow(b.U[i*b.UStride:], at.u)
			if i == 0 || !shared {
				tensor.Narrow(b.C[i*b.CStride:], at.c)
				tensor.Narrow(b.Sigma[i*b.SigmaStride:], simplex(rng, m))
			}
		}
		batch.GradientBatch(b)
		withJ := slices.Concat(b.GS, b.GU)
		withoutJ := b
		withoutJ.J = nil
		batch.GradientBatch(withoutJ)
		for i, v := range slices.Concat(b.GS, b.GU) {
			if v != withJ[i] {
				errs = append(errs, fmt.Errorf("GradientBatch gives another gradient when J is not wanted"))
				break
			}
		}
		for i := range points {
			s, u := row64(b.S[i*b.SStride:][:ns]), row64(b.U[i*b.UStride:][:nu])
			c, sigma := row64(b.C[i*b.CStride:][:nc]), row64(b.Sigma[i*b.SigmaStride:][:m])
			J, gs, gu := make([]float64, m), make([]float64, ns), make([]float64, nu)
			p.Objectives(s, u, c, J)
			p.Gradient(s, u, c, sigma, gs, gu)
			errs = append(errs, rowErrors(&b, i, "GradientBatch", "row by row", J, gs, gu, "∂/∂u")...)
		}
	}
	return errs
}

func checkBlockGradient(p domain.Problem, points []point) (errs []error) {
	block, ok := p.(domain.BlockGradient)
	if !ok {
		return nil
	}
	spec := p.Spec()
	ns, nu, m := spec.MeasuredSize(), spec.ActionSize(), spec.ObjectiveSize()
	rng := newRand(domainSeed + 5)
	// A size that is no multiple of anything, one row, and one more than a power
	// of two: blocks inside the problem end anywhere.
	for _, rows := range []int{len(points), 1, 129, 700} {
		b := domain.Block{Rows: rows, J: make([]float64, rows*m), GS: make([]float64, rows*ns), GU: make([]float64, rows*nu)}
		for i := range rows {
			at := points[i%len(points)]
			b.S, b.U, b.C = append(b.S, at.s...), append(b.U, at.u...), append(b.C, at.c...)
			b.Sigma = append(b.Sigma, simplex(rng, m)...)
		}
		inputs := slices.Concat(b.S, b.U, b.C, b.Sigma)
		block.GradientBlock(b)
		if !slices.Equal(inputs, slices.Concat(b.S, b.U, b.C, b.Sigma)) {
			errs = append(errs, fmt.Errorf("GradientBlock of %d rows changed an input", rows))
		}
		onlyJ := domain.Block{Rows: rows, S: b.S, U: b.U, C: b.C, J: make([]float64, rows*m)}
		block.GradientBlock(onlyJ)
		onlyGradient := domain.Block{Rows: rows, S: b.S, U: b.U, C: b.C, Sigma: b.Sigma, GS: make([]float64, rows*ns), GU: make([]float64, rows*nu)}
		block.GradientBlock(onlyGradient)
		for i := range rows {
			at := points[i%len(points)]
			J, gs, gu := make([]float64, m), make([]float64, ns), make([]float64, nu)
			p.Objectives(at.s, at.u, at.c, J)
			p.Gradient(at.s, at.u, at.c, b.Sigma[i*m:(i+1)*m], gs, gu)
			for _, part := range []struct {
				name      string
				got, want []float64
			}{{"J", b.J[i*m:], J}, {"J without gradient", onlyJ.J[i*m:], J}, {"∂/∂s", b.GS[i*ns:], gs}, {"∂/∂u", b.GU[i*nu:], gu},
				{"∂/∂s without J", onlyGradient.GS[i*ns:], gs}, {"∂/∂u without J", onlyGradient.GU[i*nu:], gu}} {
				size := 1.0
				for _, v := range part.want {
					size = math.Max(size, math.Abs(v))
				}
				for j, want := range part.want {
					if d := math.Abs(part.got[j] - want); !(d <= blockTolerance*size) {
						errs = append(errs, fmt.Errorf("GradientBlock of %d rows, row %d: %s[%d] is %v, row by row %v", rows, i, part.name, j, part.got[j], want))
					}
				}
			}
		}
	}
	return errs
}

func checkDynamics(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	for i, at := range points {
		before := at.clone()
		sNext, cNext := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		base := make([]float64, spec.PlanSize())
		p.Step(at.s, at.c, at.u, sNext, cNext)
		p.Base(at.s, at.c, base)
		if !tensor.Finite(sNext) || !tensor.Finite(cNext) || !tensor.Finite(base) {
			errs = append(errs, fmt.Errorf("point %d: Step gives %v and %v, Base %v", i, sNext, cNext, base))
		}
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.u, before.u) || !slices.Equal(at.c, before.c) {
			errs = append(errs, fmt.Errorf("point %d: Step or Base changed an input", i))
		}
	}
	return errs
}

// checkScore compares Score's margins with those of Margins, to the tolerance of
// one evaluation of the dynamics.
func checkScore(p domain.Problem, points []point) (errs []error) {
	scored, ok := p.(domain.Scored)
	if !ok {
		return nil
	}
	spec := p.Spec()
	for i, at := range points {
		before := at.clone()
		J, m, want := make([]float64, spec.ObjectiveSize()), make([]float64, len(spec.Margins)), make([]float64, len(spec.Margins))
		scored.Score(at.s, at.c, at.u, J, m)
		p.Margins(at.s, at.c, at.u, want)
		if !tensor.Finite(J) {
			errs = append(errs, fmt.Errorf("point %d: Score gives the objectives %v", i, J))
		}
		for k := range m {
			if !(math.Abs(m[k]-want[k]) <= 1e-9*(1+math.Abs(want[k]))) {
				errs = append(errs, fmt.Errorf("point %d: Score says %v of margin %s, Margins %v", i, m[k], spec.Margins[k].Name, want[k]))
			}
		}
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.u, before.u) || !slices.Equal(at.c, before.c) {
			errs = append(errs, fmt.Errorf("point %d: Score changed an input", i))
		}
	}
	return errs
}

// checkPlanGradient compares a problem's own derivatives of whole plans with
// differences of what it says that a plan costs, in batches whose rows share context and
// priority, or some of them do.
func checkPlanGradient(p domain.Problem, points []point) (errs []error) {
	own, ok := p.(domain.PlanGradient)
	if !ok {
		return nil
	}
	spec := p.Spec()
	ns, np, nc, m := spec.MeasuredSize(), spec.PlanSize(), spec.ContextSize(), spec.ObjectiveSize()
	rng := newRand(domainSeed + 8)
	for _, shared := range []int{1, 3, len(points)} {
		rows := len(points)
		b := domain.Batch{
			Rows: rows, SStride: ns + 1, UStride: np + 3, CStride: nc, SigmaStride: m, JStride: m + 2, GSStride: ns + 1, GUStride: np + 2,
			S: make([]float32, rows*(ns+1)), U: make([]float32, rows*(np+3)), C: make([]float32, rows*nc), Sigma: make([]float32, rows*m),
			J: make([]float32, rows*(m+2)), GS: make([]float32, rows*(ns+1)), GU: make([]float32, rows*(np+2)),
		}
		if shared == rows {
			b.CStride, b.SigmaStride = 0, 0
		}
		var sigma []float64
		for i := range rows {
			first := points[i-i%shared]
			tensor.Narrow(b.S[i*b.SStride:], first.s)
			for h := range spec.Plan {
				tensor.Narrow(b.U[i*b.UStride+h*spec.ActionSize():], draw(rng, spec.Action))
			}
			if i%shared == 0 {
				sigma = simplex(rng, m)
			}
			tensor.Narrow(b.C[i*b.CStride:], first.c)
			tensor.Narrow(b.Sigma[i*b.SigmaStride:], sigma)
		}
		withoutJ := b
		withoutJ.J = nil
		own.PlanGradientBatch(withoutJ)
		gradient := slices.Concat(b.GS, b.GU)
		own.PlanGradientBatch(b)
		if identical(slices.Concat(b.GS, b.GU), gradient) != nil {
			errs = append(errs, errors.New("PlanGradientBatch gives another gradient when J is not wanted"))
		}
		J, gs, gplan := make([]float64, m), make([]float64, ns), make([]float64, np)
		for i := range rows {
			s, plan := row64(b.S[i*b.SStride:][:ns]), row64(b.U[i*b.UStride:][:np])
			c, sigma := row64(b.C[i*b.CStride:][:nc]), row64(b.Sigma[i*b.SigmaStride:][:m])
			ref.PlanGradient(p, s, plan, c, sigma, J, gs, gplan)
			errs = append(errs, rowErrors(&b, i, "PlanGradientBatch", "of PlanObjectives", J, gs, gplan, "∂/∂plan")...)
		}
	}
	return errs
}

// planRows is how many plans of each point a PlanScorer is given at once.
const planRows = 21

// checkPlanScore compares a PlanScorer with the roll-out of one plan after another.
func checkPlanScore(p domain.Problem, points []point) (errs []error) {
	scoring, ok := p.(domain.PlanScoring)
	if !ok {
		return nil
	}
	scorer, err := scoring.NewPlanScorer(nil)
	if err != nil {
		return []error{fmt.Errorf("a PlanScorer on the CPU: %w", err)}
	}
	spec := p.Spec()
	np, rng := spec.PlanSize(), newRand(domainSeed+6)
	for i, at := range points {
		b := domain.PlanBatch{S: at.s, C: at.c, Preference: domain.Preference{Adaptive: true}, Plans: tensor.New(planRows, np), Steps: spec.Plan, NoProjection: i%4 == 3}
		if i%2 == 1 {
			b.Preference, b.Steps = domain.Preference{W: simplex(rng, spec.ObjectiveSize())}, max(1, spec.Plan/2)
		}
		for r := range planRows {
			for h := range spec.Plan {
				tensor.Narrow(b.Plans.Row(r)[h*spec.ActionSize():], draw(rng, spec.Action))
			}
		}
		lost := i % planRows
		b.Plans.Row(lost)[0] = float32(math.NaN())
		before, given := at.clone(), b.Plans.Clone()
		said := [2]domain.PlanBatch{b, b}
		said[1].Threads = 3
		for k := range said {
			o := &said[k]
			o.Projected, o.Cost, o.Margin = make([]float64, planRows*np), make([]float64, planRows), make([]float64, planRows)
			if err := scorer.ScorePlans(context.Background(), *o); err != nil {
				return append(errs, fmt.Errorf("point %d: ScorePlans: %w", i, err))
			}
		}
		if !slices.Equal(at.s, before.s) || !slices.Equal(at.c, before.c) || identical(b.Plans.Data, given.Data) != nil {
			errs = append(errs, fmt.Errorf("point %d: ScorePlans changed an input", i))
		}
		one, three := said[0], said[1]
		if m := one.Margin[lost]; m >= -spec.MarginTolerance {
			errs = append(errs, fmt.Errorf("point %d: a plan that is not finite has the margin %v", i, m))
		}
		for r := range planRows {
			if r == lost {
				continue
			}
			plan, cost, margin := ref.ScorePlan(p, at.s, at.c, b.Preference, row64(b.Plans.Row(r)), b.Steps, !b.NoProjection)
			want := append(plan, cost, margin)
			got := slices.Concat(one.Projected[r*np:(r+1)*np], one.Cost[r:r+1], one.Margin[r:r+1])
			if !slices.Equal(got, slices.Concat(three.Projected[r*np:(r+1)*np], three.Cost[r:r+1], three.Margin[r:r+1])) {
				errs = append(errs, fmt.Errorf("point %d, plan %d: ScorePlans says something else on three threads", i, r))
			}
			for j, v := range want {
				if d := math.Abs(got[j] - v); !(d <= planTolerance*math.Max(1, math.Abs(v))) && got[j] != v {
					errs = append(errs, fmt.Errorf("point %d, plan %d: ScorePlans says %v of plan, cost and margin, the roll-out %v", i, r, got, want))
					break
				}
			}
		}
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		if err := scorer.ScorePlans(cancelled, one); !errors.Is(err, context.Canceled) {
			errs = append(errs, fmt.Errorf("point %d: ScorePlans of a cancelled context: %v", i, err))
		}
	}
	return errs
}

// polishIterations are as many as a polish of a closed loop has, and polishSteps as many
// actions as its plan has at most.
const (
	polishIterations = 10
	polishSteps      = 20
)

func checkPolish(p domain.Problem, points []point) (errs []error) {
	polisher, ok := p.(domain.Polisher)
	if !ok {
		return nil
	}
	spec, rng, gained := p.Spec(), newRand(domainSeed+7), 0
	for i, at := range points {
		steps, pref := polishSteps, domain.Preference{Adaptive: true}
		if f, ok := p.(domain.Finite); ok {
			steps = min(steps, f.Remaining(at.c))
		}
		if i%2 == 1 {
			pref = domain.Preference{W: simplex(rng, spec.ObjectiveSize())}
		}
		given, cost, margin := ref.ScorePlan(p, at.s, at.c, pref, slices.Repeat(at.u, steps), steps, true)
		before, plans, changed := at.clone(), [3][]float64{}, [3]bool{}
		var beside sync.WaitGroup
		for k := range plans {
			plans[k] = slices.Clone(given)
			polish := func() { changed[k] = polisher.Polish(at.s, at.c, pref, plans[k], polishIterations) }
			if k == 0 {
				polish()
			} else {
				beside.Go(polish)
			}
		}
		beside.Wait()
		switch {
		case !slices.Equal(at.s, before.s) || !slices.Equal(at.c, before.c):
			errs = append(errs, fmt.Errorf("point %d: Polish changed an input", i))
		case !slices.Equal(plans[0], plans[1]) || !slices.Equal(plans[0], plans[2]) || changed[0] != changed[1] || changed[0] != changed[2]:
			errs = append(errs, fmt.Errorf("point %d: Polish of the same plan gives %v, then %v and %v", i, plans[0], plans[1], plans[2]))
		case !tensor.Finite(plans[0]):
			errs = append(errs, fmt.Errorf("point %d: Polish gives %v", i, plans[0]))
		case !changed[0] && !slices.Equal(plans[0], given):
			errs = append(errs, fmt.Errorf("point %d: Polish reports no change and gives %v for %v", i, plans[0], given))
		}
		_, polished, kept := ref.ScorePlan(p, at.s, at.c, pref, plans[0], steps, true)
		if kept >= -spec.MarginTolerance && (polished < cost || margin < -spec.MarginTolerance) {
			gained++
		}
	}
	if gained < 2 {
		errs = append(errs, fmt.Errorf("a polish improved %d of %d plans", gained, len(points)))
	}
	return errs
}

func checkIndicators(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	for i, at := range points {
		delta, sigma := make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize())
		p.Indicators(at.s, at.u, at.c, delta)
		for j, d := range delta {
			if !(d >= 0 && d <= 1) {
				errs = append(errs, fmt.Errorf("point %d: indicator %d is %v, want [0, 1] (s %v)", i, j, d, at.s))
			}
		}
		spec.Semantic.Priority(delta, sigma)
		sum := 0.0
		for _, v := range sigma {
			sum += v
		}
		if !(math.Abs(sum-1) <= 1e-12) {
			errs = append(errs, fmt.Errorf("point %d: priority %v sums to %v", i, sigma, sum))
		}
	}
	return errs
}

func checkProjection(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	margins := make([]float64, len(spec.Margins))
	feasible := 0
	for i, at := range points {
		// The drawn action, and one far outside.
		for _, factor := range []float64{1, 3} {
			u := slices.Clone(at.u)
			for j := range u {
				u[j] *= factor
			}
			again := slices.Clone(u)
			before := at.clone()
			ok := p.Project(at.s, at.c, u)
			if okAgain := p.Project(at.s, at.c, again); ok != okAgain || !slices.Equal(u, again) {
				errs = append(errs, fmt.Errorf("point %d: the same projection twice gives %v, %v and %v, %v", i, u, ok, again, okAgain))
			}
			if !slices.Equal(at.s, before.s) || !slices.Equal(at.c, before.c) {
				errs = append(errs, fmt.Errorf("point %d: Project changed the state or the context", i))
			}
			if !tensor.Finite(u) {
				errs = append(errs, fmt.Errorf("point %d: projected action %v", i, u))
				continue
			}
			if !ok {
				continue
			}
			feasible++
			errs = append(errs, boxErrors(fmt.Sprintf("point %d, projected", i), spec, u)...)
			p.Margins(at.s, at.c, u, margins)
			for j, m := range margins {
				if !(m >= -spec.MarginTolerance) {
					errs = append(errs, fmt.Errorf("point %d: Project reports a feasible action, margin %s is %v (tolerance %v)", i, spec.Margins[j].Name, m, spec.MarginTolerance))
				}
			}
		}
	}
	if feasible == 0 {
		errs = append(errs, errors.New("Project never reports a feasible action, so that its margins could not be checked: does any action keep them?"))
	}
	return errs
}

// boxErrors checks the hard box of every action of a plan, to rounding.
func boxErrors(what string, spec *domain.Spec, plan []float64) (errs []error) {
	for j, v := range plan {
		a := spec.Action[j%len(spec.Action)]
		slack := 1e-12 + spec.MarginTolerance
		if a.Bounded() && !(v >= a.Lo-slack && v <= a.Hi+slack) {
			errs = append(errs, fmt.Errorf("%s: %s is %v, its box is [%v, %v]", what, a.Name, v, a.Lo, a.Hi))
		}
	}
	return errs
}

func checkPicture(p domain.Problem, points []point) (errs []error) {
	pictured, ok := p.(domain.Pictured)
	if !ok {
		return nil
	}
	for i, at := range points {
		shapes := pictured.Picture(at.s, at.c)
		for k := range shapes {
			if err := shapes[k].Validate(); err != nil {
				errs = append(errs, fmt.Errorf("point %d: picture: %d of %d: %w", i, k, len(shapes), err))
			}
		}
		if again := pictured.Picture(at.s, at.c); !reflect.DeepEqual(shapes, again) {
			errs = append(errs, fmt.Errorf("point %d: picture: %v the first time, %v the second", i, shapes, again))
		}
	}
	return errs
}

func checkFallback(p domain.Problem, points []point) (errs []error) {
	spec := p.Spec()
	for i, at := range points {
		blind := make([]float64, len(at.s))
		for j := range blind {
			blind[j] = math.NaN()
		}
		for _, s := range [][]float64{blind, at.s} {
			u := make([]float64, spec.ActionSize())
			for j := range u {
				u[j] = math.NaN()
			}
			p.Fallback(s, at.c, u)
			if !tensor.Finite(u) {
				errs = append(errs, fmt.Errorf("point %d: fallback action %v for the state %v", i, u, s))
				continue
			}
			errs = append(errs, boxErrors(fmt.Sprintf("point %d, fallback", i), spec, u)...)
		}
	}
	return errs
}
