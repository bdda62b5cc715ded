package backendtest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
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
//   - The case is one that domain.Case.Validate accepts, and no method has the name of an
//     ability that its Abilities leave out.
//   - Gradient agrees with central differences of Objectives in s and u;
//     Derivatives.Rows and Block, if there are any, with Gradient row by row.
//   - Dual functions, if there are any, have the values of the problem's own and their
//     derivatives.
//   - Step, Base and Objectives are finite; no method changes its inputs.
//   - Score, if there is one, gives finite objectives and the margins of Margins.
//   - A PlanScorer, if there is one, agrees on the CPU with the roll-out action by
//     action (planscore.Plan) in every row and on any number of threads; a plan that is
//     not finite spoils no other, and a cancelled context ends it.
//   - Polish, if there is one, writes finite plans, the same again and beside others,
//     leaves one that it reports no change of, and more than once its projected roll-out
//     is feasible and cheaper than that of the plan it was given.
//   - ManyMargins and ManyValues, if there are any, are those of the problem's functions, and Project leaves an action alone
//     that is inside the box and keeps its margins.
//   - Indicators are in [0, 1].
//   - Project leaves finite actions, and where it reports success every margin is
//     kept within MarginTolerance.
//   - Fallback is finite and inside the action box for a state that is all NaN.
//   - What a Picture shows is of finite shapes, the same again.
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
//   - Device functions (domain.ProblemAbilities.Device) agree with the problem's own methods, at these
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
	require.OK(t, c.Validate())
	t.Run("interfaces", func(t *testing.T) { report(t, checkInterfaces(c)) })
	if c.Learned != nil {
		t.Run("learned", func(t *testing.T) { RunDomain(t, domain.Case{Problem: c.Learned, Solver: c.Solver}, device) })
		c.Learned, c.Solver = nil, nil
	}
	if c.Plant != nil && !t.Run("starts", func(t *testing.T) {
		at := require.Get(diagnosis.Starts(&c))(t)
		report(t, errorsOf(diagnosis.AtStarts(c.Problem, at)))
		for _, room := range diagnosis.Room(c.Problem, at) {
			t.Log(room.String())
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
	points := require.Get(domainStates(c, samples))(t)
	for _, check := range domainChecks {
		t.Run(check.name, func(t *testing.T) { report(t, check.run(c.Problem, points)) })
	}
	if r, ok := c.Solver.(domain.Receding); ok && !testing.Short() {
		t.Run("horizon", func(t *testing.T) { report(t, checkHorizon(r, c.Problem, points)) })
	}
	if d := domain.AbilitiesOfProblem(c.Problem).Device; d != nil && device != nil {
		t.Run("device", func(t *testing.T) {
			code := d()
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
	{"dual", checkDual},
	{"stages", checkStaged},
	{"many margins", checkMany},
	{"many values", checkManyValues},
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

func domainStates(c domain.Case, samples []domain.Sample) ([]point, error) {
	spec := c.Problem.Spec()
	rng := newRand(domainSeed)
	var points []point
	if c.Plant != nil {
		visited, err := diagnosis.Visited(&c)
		for _, p := range visited {
			points = append(points, point{p.S, p.C, p.U})
		}
		return points, err
	}
	for _, s := range samples {
		points = append(points, point{s.S, s.C, diagnosis.Draw(rng, spec.Action)})
	}
	for len(points) < domainPoints {
		points = append(points, point{diagnosis.Draw(rng, spec.Measured), diagnosis.Draw(rng, spec.Context), diagnosis.Draw(rng, spec.Action)})
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
