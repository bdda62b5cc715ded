package rollout

import "fmt"

// Evaluator scores many candidates in one call: a Processor on this CPU, a Device on
// a GPU. It is used by one goroutine. Plans are blocks of sixteen candidates,
// [block][robot][step][a, ω][lane]; the lanes beyond the last candidate are computed
// too and mean nothing. Shapes are checked: what does not fit is an error.
type Evaluator interface {
	// Plans is memory for the plans of so many candidates that Evaluate takes without a
	// copy, valid until a larger problem is asked for.
	Plans(p *Joint, candidates int) ([]float32, error)
	// Evaluate writes one Result a block and, where out is not nil, the derivatives of
	// the cost in the plans, in their layout. Where bounds is not nil, one entry a robot,
	// it first moves every action, in order and in place, to the nearest within box and
	// slew bound around the one before it; an action that is not a number stays so, and
	// what comes after it in its plan is unspecified.
	Evaluate(p *Joint, bounds []Bounds[float32], plans []float32, candidates int, results []Result, out []float32) error
}

// Descender is an Evaluator that takes a whole descent in one call.
type Descender interface {
	Evaluator
	// Descend takes the first block of plans, len(factors) times, along the derivatives of
	// their costs: by factors[i] times the candidate's rate in the direction of Adam, and
	// then into the bounds as Evaluate does. Iterate i is written to block i of plans, the
	// first as it was given, and its scores to results[i]. Not handled, it leaves the first
	// block as it was: go on by Evaluate.
	Descend(p *Joint, bounds []Bounds[float32], rates *[Lanes]float32, factors, plans []float32, results []Result) (handled bool, err error)
}

var (
	_ Evaluator = (*Processor)(nil)
	_ Descender = (*Device)(nil)
	_ Descender = (*continuing)(nil)
)

// shape is the number of robots, of steps, and of discs a step.
func (j *Joint) shape() (robots, steps, count int) { return len(j.Robots), j.Steps, j.Count }

// check says what is wrong with the sizes of the problem's parts.
func (j *Joint) check() error {
	n := len(j.Robots)
	if n < 1 || j.Steps < 1 || j.Count < 0 {
		return fmt.Errorf("rollout: a joint problem of %d robots, %d steps and %d discs, want at least 1, 1 and 0", n, j.Steps, j.Count)
	}
	if len(j.Goal) != n || len(j.Discs) != n || len(j.Pair) != n || j.Lateral != nil && len(j.Lateral) != n {
		return fmt.Errorf("rollout: a joint problem of %d robots has %d goal weights, %d sets of discs, %d rows of pairs and %d motions across", n, len(j.Goal), len(j.Discs), len(j.Pair), len(j.Lateral))
	}
	for i := range n {
		if len(j.Goal[i]) < j.Steps || len(j.Discs[i]) < j.Steps*j.Count*DiscFields || len(j.Pair[i]) < i {
			return fmt.Errorf("rollout: robot %d has %d goal weights, %d numbers of discs and %d pairs, want %d, %d and %d",
				i, len(j.Goal[i]), len(j.Discs[i]), len(j.Pair[i]), j.Steps, j.Steps*j.Count*DiscFields, i)
		}
	}
	if e := j.Ending; e != nil && e.Grid != nil {
		if g := e.Grid; g.NX < 2 || g.NY < 2 || len(g.Rate) < g.NX*g.NY || len(g.Value) < g.NX*g.NY {
			return fmt.Errorf("rollout: a grid of %d × %d points has %d rates and %d values, want at least 2 × 2 and one of each a point", g.NX, g.NY, len(g.Rate), len(g.Value))
		}
	}
	return nil
}

// Blocks is the number of blocks that hold so many candidates.
func Blocks(candidates int) int { return (candidates + Lanes - 1) / Lanes }

// checkBatch checks what a call of an Evaluator is given.
func checkBatch(p *Joint, bounds []Bounds[float32], plans, candidates int, results []Result, out []float32) error {
	if err := p.check(); err != nil {
		return err
	}
	robots, steps, _ := p.shape()
	n := Blocks(candidates)
	if candidates < 1 {
		return fmt.Errorf("rollout: %d candidates, want at least 1", candidates)
	}
	if want := n * robots * PlanSize(steps); plans < want || out != nil && len(out) < want {
		return fmt.Errorf("rollout: plans of %d numbers and derivatives of %d, want %d for %d candidates of %d robots and %d steps", plans, len(out), want, candidates, robots, steps)
	}
	if len(results) < n {
		return fmt.Errorf("rollout: %d results, want one for each of %d blocks", len(results), n)
	}
	if bounds != nil && len(bounds) != robots {
		return fmt.Errorf("rollout: bounds of %d robots, want %d", len(bounds), robots)
	}
	return nil
}

// Processor is the Evaluator on this CPU: an engine, block after block.
type Processor struct {
	engine *Engine
	work   *Workspace
	plans  []float32
}

// NewProcessor returns an evaluator on an engine.
func NewProcessor(e *Engine) *Processor { return &Processor{engine: e} }

// Plans implements Evaluator.
func (v *Processor) Plans(p *Joint, candidates int) ([]float32, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	robots, steps, _ := p.shape()
	if n := Blocks(max(candidates, 0)) * robots * PlanSize(steps); len(v.plans) < n {
		v.plans = make([]float32, n)
	}
	return v.plans, nil
}

// Evaluate implements Evaluator.
func (v *Processor) Evaluate(p *Joint, bounds []Bounds[float32], plans []float32, candidates int, results []Result, out []float32) error {
	if err := checkBatch(p, bounds, len(plans), candidates, results, out); err != nil {
		return err
	}
	robots, steps, _ := p.shape()
	plan := PlanSize(steps)
	size := robots * plan
	if v.work == nil || len(v.work.grads) < size || len(v.work.paths) < robots*PathSize(steps) {
		v.work = NewWorkspace(robots, steps)
	}
	for b := range Blocks(candidates) {
		block := plans[b*size : (b+1)*size]
		for i := range bounds {
			v.engine.Limit(block[i*plan:(i+1)*plan], steps, &bounds[i])
		}
		var slopes []float32
		if out != nil {
			slopes = out[b*size : (b+1)*size]
		}
		v.engine.Evaluate(p, block, v.work, &results[b], slopes)
	}
	return nil
}
