package train

import (
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// decoding measures how well a map reproduces rows outside its training set.
type decoding struct {
	tauGeom                   float64
	deltas                    []float64 // ‖u − u*‖ of each row, physical units
	deltaMax, deltaP99, delta float64   // their largest, 99th percentile, mean
}

// evaluateChunk rows are decoded at a time, which bounds the memory.
const evaluateChunk = 4096

// forward writes net(rows of in) for all listed rows.
func forward(be backend.Backend, mlp *model.MLP, in tensor.Matrix, rows []int32) (tensor.Matrix, error) {
	net, err := be.NewNet(mlp)
	if err != nil {
		return tensor.Matrix{}, err
	}
	out := tensor.New(len(rows), mlp.Out())
	gathered := tensor.New(min(len(rows), evaluateChunk), in.Cols)
	for from := 0; from < len(rows); from += evaluateChunk {
		to := min(from+evaluateChunk, len(rows))
		chunk := gathered.Slice(0, to-from)
		gather(chunk, in, rows[from:to])
		if err := net.Forward(chunk, out.Slice(from, to)); err != nil {
			return tensor.Matrix{}, err
		}
	}
	return out, nil
}

func gather(dst, src tensor.Matrix, rows []int32) {
	for i, r := range rows {
		copy(dst.Row(i), src.Row(int(r)))
	}
}

// evaluate decodes rows of the dataset through E_x, D_s and D_u, with the plan as the controller would send it: base
// added, clipped, projected. It compares them with state and u*.
func evaluate(be backend.Backend, problem domain.Problem, d *Data, s *trainingSet, nets backend.Networks, rows []int32) (decoding, error) {
	z, err := forward(be, nets.EncoderX, s.Training.X, rows)
	if err != nil {
		return decoding{}, err
	}
	indices := ascending(len(rows))
	state, err := forward(be, nets.DecoderS, z, indices)
	if err != nil {
		return decoding{}, err
	}
	action, err := forward(be, nets.DecoderU, z, indices)
	if err != nil {
		return decoding{}, err
	}
	var out decoding
	deltas, residuals := make([]float64, len(rows)), make([]float64, len(rows))
	parallel.Split(runtime.GOMAXPROCS(0), len(rows), func(_, from, to int) {
		plan := newPlanner(problem)
		for i := from; i < to; i++ {
			r := int(rows[i])
			residuals[i] = float64(squaredDistance32(state.Row(i), s.Training.S.Row(r)))
			u := plan.decode(s.NormU, action.Row(i), d.S.Row(r), d.C.Row(r))
			sum := 0.0
			for k, v := range d.U.Row(r) {
				e := u[k] - float64(v)
				sum += e * e
			}
			deltas[i] = math.Sqrt(sum)
		}
	})
	for i := range rows {
		out.tauGeom += residuals[i]
		out.delta += deltas[i]
	}
	n := float64(len(rows))
	out.tauGeom /= n
	out.delta /= n
	out.deltas = slices.Clone(deltas)
	slices.Sort(deltas)
	out.deltaMax = deltas[len(deltas)-1]
	out.deltaP99 = stat.Quantile(0.99, stat.Empirical, deltas, nil)
	return out, nil
}

// planner turns decoder outputs into plans, in float64 buffers of its own.
type planner struct {
	problem           domain.Problem
	projectPlan       func(s, c, plan []float64) // nil: action by action
	spec              *domain.Spec
	s, c, sNext, next []float64
	plan              []float64
	output            []float32
}

func newPlanner(problem domain.Problem) *planner {
	domain.Prepare(problem)
	spec := problem.Spec()
	vector := func(n int) []float64 { return make([]float64, n) }
	return &planner{
		problem: problem, projectPlan: domain.AbilitiesOfProblem(problem).ProjectPlan, spec: spec,
		s: vector(spec.MeasuredSize()), sNext: vector(spec.MeasuredSize()),
		c: vector(spec.ContextSize()), next: vector(spec.ContextSize()),
		plan: vector(spec.PlanSize()), output: make([]float32, spec.PlanSize()),
	}
}

// decode returns Base + denormalised output. Each action is clipped to its box and projected at the state that the
// known dynamics reach by the plan so far. The result is valid until the next call.
func (p *planner) decode(norm model.Normalizer, output, s, c []float32) []float64 {
	tensor.Widen(p.s, s)
	tensor.Widen(p.c, c)
	p.problem.Base(p.s, p.c, p.plan)
	norm.Invert(p.output, output)
	nu := p.spec.ActionSize()
	for i, v := range p.output {
		p.plan[i] += float64(v)
		if a := p.spec.Action[i%nu]; a.Bounded() {
			p.plan[i] = min(max(p.plan[i], a.Lo), a.Hi)
		}
	}
	if p.projectPlan != nil {
		p.projectPlan(p.s, p.c, p.plan)
		return p.plan
	}
	for h := range p.spec.Plan {
		u := p.plan[h*nu : (h+1)*nu]
		p.problem.Project(p.s, p.c, u)
		if h+1 < p.spec.Plan {
			p.problem.Step(p.s, p.c, u, p.sNext, p.next)
			p.s, p.sNext = p.sNext, p.s
			p.c, p.next = p.next, p.c
		}
	}
	return p.plan
}

// columnRange is the least and the largest value of each column; of the objectives of Pareto-optimal samples it is the
// ideal and the nadir point.
func columnRange(m tensor.Matrix) (lo, hi []float64) {
	lo, hi = slices.Repeat([]float64{math.Inf(1)}, m.Cols), slices.Repeat([]float64{math.Inf(-1)}, m.Cols)
	for i := range m.Rows {
		for k, v := range m.Row(i) {
			lo[k], hi[k] = math.Min(lo[k], float64(v)), math.Max(hi[k], float64(v))
		}
	}
	return lo, hi
}

// contextRange is the range of each entry of the context over the dataset, with room on either side. The room is a tenth
// of the width and a thousandth of the scale. For an entry that changes along a trajectory it is half the width, as of states.
func contextRange(d *Data, scale []float32) [][2]float64 {
	lo, hi := columnRange(d.C)
	result, share := make([][2]float64, d.C.Cols), slices.Repeat([]float64{0.1}, d.C.Cols)
	for i := 1; i < d.C.Rows; i++ {
		for k, v := range d.C.Row(i) {
			if d.Trajectory[i] == d.Trajectory[i-1] && v != d.C.Row(i - 1)[k] {
				share[k] = 0.5
			}
		}
	}
	for k := range result {
		room := share[k]*(hi[k]-lo[k]) + 1e-3*float64(scale[k])
		result[k] = [2]float64{lo[k] - room, hi[k] + room}
	}
	return result
}

// spread is the root mean square distance of the codes from their mean.
func spread(codes tensor.Matrix) float64 {
	mean := make([]float64, codes.Cols)
	for i := range codes.Rows {
		for k, v := range codes.Row(i) {
			mean[k] += float64(v)
		}
	}
	sum := 0.0
	for i := range codes.Rows {
		for k, v := range codes.Row(i) {
			d := float64(v) - mean[k]/float64(codes.Rows)
			sum += d * d
		}
	}
	return math.Sqrt(sum / float64(codes.Rows))
}
