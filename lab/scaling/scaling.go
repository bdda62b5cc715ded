// Package scaling measures how costs grow with sizes, and fits powers to them. The central type is Scaling, the record of
// gpc-lab bench scaling.
package scaling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/lab/compare"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/tensor"
)

// Axis is one size that a cost is measured along.
type Axis struct {
	Name string // such as "batch"
	What string // what is timed at each, and what stays as it is
	// Values are the sizes, ascending.
	Values []int
	// Measure times calls at a size: µs in their order, and the work of one, FLOP, 0 where it
	// is not counted.
	Measure func(ctx context.Context, r *bench.Runner, value int) (us []float64, flops float64, err error)
}

// Scaling is the record of `gpc-lab bench scaling`.
type Scaling struct {
	Device  string        `json:"device"`      // that was measured
	Commit  string        `json:"commit"`      // of the program
	Command string        `json:"command"`     // as typed
	Backend string        `json:"backend"`     // cpu, cuda or ref
	ISA     string        `json:"isa"`         // of its kernels
	Threads int           `json:"threads"`     // of the engine
	Peak    float64       `json:"peak_gflops"` // ceiling, the largest of the run; 0: none
	Load    *machine.Load `json:"load,omitempty"`
	Curves  []Curve       `json:"curves"`
}

// Curve is a cost along one axis.
type Curve struct {
	Axis   string  `json:"axis"` // size that varies
	What   string  `json:"what"` // what is timed, and what stays
	Points []Point `json:"points"`
}

// Point is the cost at one size.
type Point struct {
	X        int        `json:"x"`              // the size
	Median   float64    `json:"median_us"`      // of a call
	Interval [2]float64 `json:"median_ci95_us"` // between order statistics of at most 100 calls
	Calls    int        `json:"calls"`          // timed
	GFlop    float64    `json:"gflop"`          // work of a call by the documented count; 0: not counted
}

// Power is a cost fitted as c·x^Exponent: least squares of the logarithms, with a 95 % interval
// by Student's t of the points' own scatter about the line; NaN below three points.
type Power struct {
	Exponent, Lo, Hi float64
	Constant         float64 // c, in the unit of the cost
	From, To, N      int     // sizes that it is over, and how many of them
}

// FitPower fits values above 0 at two sizes or more, ascending.
func FitPower(x []int, y []float64) (Power, error) {
	if len(x) != len(y) || len(x) < 2 {
		return Power{}, fmt.Errorf("a power of %d sizes and %d costs, want as many of both, 2 or more", len(x), len(y))
	}
	lx, ly := make([]float64, len(x)), make([]float64, len(x))
	for i := range x {
		if x[i] < 1 || !(y[i] > 0) || math.IsInf(y[i], 0) {
			return Power{}, fmt.Errorf("a cost of %v at size %d, want both above 0", y[i], x[i])
		}
		if i > 0 && x[i] <= x[i-1] {
			return Power{}, fmt.Errorf("size %d behind %d, want them ascending", x[i], x[i-1])
		}
		lx[i], ly[i] = math.Log(float64(x[i])), math.Log(y[i])
	}
	alpha, beta := stat.LinearRegression(lx, ly, nil, false)
	p := Power{Exponent: beta, Lo: math.NaN(), Hi: math.NaN(), Constant: math.Exp(alpha), From: x[0], To: x[len(x)-1], N: len(x)}
	if free := len(x) - 2; free > 0 {
		residual, spread, mean := 0.0, 0.0, stat.Mean(lx, nil)
		for i := range lx {
			e, d := ly[i]-alpha-beta*lx[i], lx[i]-mean
			residual, spread = residual+e*e, spread+d*d
		}
		half := distuv.StudentsT{Sigma: 1, Nu: float64(free)}.Quantile(0.975) * math.Sqrt(residual/float64(free)/spread)
		p.Lo, p.Hi = beta-half, beta+half
	}
	return p, nil
}

// Cost is the fit of the medians, of the last n points; 0: all.
func (c *Curve) Cost(n int) (Power, error) {
	return c.fit(n, func(p *Point) float64 { return p.Median })
}

// Work is the fit of the counted work, likewise; an error where it was not counted.
func (c *Curve) Work(n int) (Power, error) {
	return c.fit(n, func(p *Point) float64 { return p.GFlop })
}

func (c *Curve) fit(n int, value func(p *Point) float64) (Power, error) {
	points := c.Points
	if n > 0 && n < len(points) {
		points = points[len(points)-n:]
	}
	var x []int
	var y []float64
	for i := range points {
		x, y = append(x, points[i].X), append(y, value(&points[i]))
	}
	p, err := FitPower(x, y)
	if err != nil {
		return p, fmt.Errorf("%s: %w", c.Axis, err)
	}
	return p, nil
}

// Upper is how many points the fit of a curve's end is over: half of them, at least four.
func (c *Curve) Upper() int { return min(len(c.Points), max(4, (len(c.Points)+1)/2)) }

// Validate says which key of a record cannot be shown.
func (s *Scaling) Validate() error {
	if len(s.Curves) == 0 {
		return errors.New("curves is missing or empty, so that this is no record of bench scaling")
	}
	for i := range s.Curves {
		c := &s.Curves[i]
		key := fmt.Sprintf("curves[%d]", i)
		if c.Axis == "" {
			return fmt.Errorf("%s.axis is missing", key)
		}
		if len(c.Points) < 2 {
			return fmt.Errorf("%s.points has %d sizes, want 2 or more", key, len(c.Points))
		}
		for j, p := range c.Points {
			place := fmt.Sprintf("%s.points[%d]", key, j)
			switch {
			case p.X < 1 || j > 0 && p.X <= c.Points[j-1].X:
				return fmt.Errorf("%s.x: %d, want sizes above 0 in ascending order", place, p.X)
			case !(p.Median > 0) || !natural(p.Median):
				return fmt.Errorf("%s.median_us: %v, want a finite time above 0", place, p.Median)
			case !natural(p.GFlop):
				return fmt.Errorf("%s.gflop: %v, want a finite number ≥ 0", place, p.GFlop)
			case !(p.Interval[0] > 0 && p.Interval[0] <= p.Interval[1]) || !natural(p.Interval[1]):
				return fmt.Errorf("%s.median_ci95_us: %v, want finite times above 0, the lower first", place, p.Interval)
			}
		}
	}
	return nil
}

// Measure measures costs along axes on an engine. opt's operations are not heeded; progress is called before each size.
func Measure(ctx context.Context, e *gpc.Engine, axes []Axis, opt bench.Options, progress func(axis string, done, total int)) (*Scaling, error) {
	about := e.About()
	s := &Scaling{Backend: about.Backend, ISA: about.ISA, Threads: about.Threads}
	opt.Ops, opt.Extra = []string{"scaling"}, []bench.Operation{{Name: "scaling", Once: true, Measure: func(ctx context.Context, r *bench.Runner, _ bench.Shape) error {
		return s.measure(ctx, r, axes, progress)
	}}}
	_, err := e.Bench(ctx, nil, opt)
	return s, err
}

func (s *Scaling) measure(ctx context.Context, r *bench.Runner, axes []Axis, progress func(axis string, done, total int)) error {
	peak := func() {
		if v := r.Peak() / 1e9; v > s.Peak {
			s.Peak = v
		}
	}
	for _, a := range axes {
		c := Curve{Axis: a.Name, What: a.What}
		for i, x := range a.Values {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress(a.Name, i, len(a.Values))
			peak()
			us, flops, err := a.Measure(ctx, r, x)
			if err != nil {
				return fmt.Errorf("%s %d: %w", a.Name, x, err)
			}
			c.Points = append(c.Points, pointOf(x, us, flops))
		}
		peak()
		s.Curves = append(s.Curves, c)
	}
	return nil
}

func pointOf(x int, us []float64, flops float64) Point {
	sorted := slices.Sorted(slices.Values(us))
	p := Point{X: x, Median: stat.Quantile(0.5, stat.Empirical, sorted, nil), Calls: len(us), GFlop: flops / 1e9}
	sample := slices.Sorted(slices.Values(bench.Sample(us)))
	p.Interval = compare.MedianInterval(sample)
	for i, end := range []float64{sample[0], sample[len(sample)-1]} {
		if math.IsNaN(p.Interval[i]) {
			p.Interval[i] = end
		}
	}
	return p
}

// scaledBatch is the batch that axes keep.
const scaledBatch = 256

// scaledShape is the shape that they vary: the OPF of 30 buses.
func scaledShape() bench.Shape { return bench.Shapes[1] }

// Axes are those of the engine: batch, latent dimension, width and codes.
func Axes() []Axis {
	s := scaledShape()
	steps := func(vary func(s *bench.Shape, n *int, x int)) func(context.Context, *bench.Runner, int) ([]float64, float64, error) {
		return func(ctx context.Context, r *bench.Runner, x int) ([]float64, float64, error) {
			s, n := scaledShape(), scaledBatch
			vary(&s, &n, x)
			step, flops, err := r.Step(s, n)
			if err != nil {
				return nil, 0, err
			}
			us, err := r.Time(ctx, step)
			return us, flops, err
		}
	}
	const codesBatch = 64
	return []Axis{
		{"batch", fmt.Sprintf("a step of so many latents; %s", s), []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096},
			steps(func(_ *bench.Shape, n *int, x int) { *n = x })},
		{"n_z", fmt.Sprintf("a step of %d latents of that dimension; hidden %d, s %d, u %d", scaledBatch, s.Hidden, s.State, s.Action), []int{8, 12, 16, 24, 32, 40, 48, 64},
			steps(func(s *bench.Shape, _ *int, x int) { s.Latent = x })},
		{"width", fmt.Sprintf("a step of %d latents with hidden layers of that width; z %d, s %d, u %d", scaledBatch, s.Latent, s.State, s.Action), []int{64, 128, 192, 256, 384, 512, 768, 1024},
			steps(func(s *bench.Shape, _ *int, x int) { s.Hidden = x })},
		{"codes", fmt.Sprintf("localization of %d observations among so many codes of M*; z %d", codesBatch, s.Latent), []int{5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000},
			func(ctx context.Context, r *bench.Runner, x int) ([]float64, float64, error) {
				return codesOf(ctx, r, x, codesBatch)
			}},
	}
}

// codesOf times localizations of n observations, others each time.
func codesOf(ctx context.Context, r *bench.Runner, codes, n int) ([]float64, float64, error) {
	const calls = 16
	s := scaledShape()
	localize, err := r.Localize(s, codes, calls*n)
	if err != nil {
		return nil, 0, err
	}
	out := backend.LocalizeOutput{Z: tensor.New(n, s.Latent), Nearest: make([]int32, n), Residual: make([]float32, n), Consistent: make([]bool, n)}
	call := 0
	us, err := r.Time(ctx, func() error {
		first := call % calls * n
		call++
		return localize(first, n, out)
	})
	return us, 0, err
}

// Rows lays the fits out as a table, the header first.
func (s *Scaling) Rows() [][]string {
	rows := [][]string{{"axis", "sizes", "cost, µs", "exponent [95 %]", "of the largest", "of the counted work"}}
	for i := range s.Curves {
		c := &s.Curves[i]
		first, last := c.Points[0], c.Points[len(c.Points)-1]
		rows = append(rows, []string{
			c.Axis, fmt.Sprintf("%d to %d", first.X, last.X), deadline.Micros(first.Median) + " to " + deadline.Micros(last.Median),
			exponent(c.Cost(0)), exponent(c.Cost(c.Upper())), exponent(c.Work(0)),
		})
	}
	return rows
}

// exponent is a fit in a cell; a dash where there is none.
func exponent(p Power, err error) string {
	switch {
	case err != nil:
		return "–"
	case math.IsNaN(p.Lo):
		return fmt.Sprintf("%.2f", p.Exponent)
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", p.Exponent, p.Lo, p.Hi)
}

// natural reports whether a rate or a count can be one.
func natural(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
