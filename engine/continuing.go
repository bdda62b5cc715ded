package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"unsafe"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// continuing computes on one backend and, when that fails, goes on on another with
// the same state: `auto` over a GPU. An object that meets a fault is made again on
// the second backend from what it was made of, and the call that failed is repeated
// there. A fault that ends the first backend moves every object, at its next call.
//
// What an object is made of is kept on the host for that: networks and codes are
// copied, training data are the caller's own and may not change, as for the CPU
// backend. A trainer's state is saved every few updates, and the updates since then
// are made again.
type continuing struct {
	first        backend.Backend
	open         func() (backend.Backend, error) // of the second
	fault        func(error) bool                // not the caller's mistake
	fatal        func(error) bool                // ends the first backend
	notice       func(string)                    // is told of every move; nil: nobody
	saveInterval int                             // updates between two copies of a trainer's state; 0: savedEvery
	markLoss     func() bool                     // whether the end of a shared backend was told already; nil: it is not shared

	mutex     sync.Mutex
	second    backend.Backend // nil until it is needed
	firstLost bool            // the first backend can no longer be used
}

var (
	_ domain.Accelerator = (*continuing)(nil)
	_ backend.Planner    = (*continuing)(nil)
)

// reportMove is told when an object moves because of err.
func (c *continuing) reportMove(name string, err error) {
	c.mutex.Lock()
	first := !c.firstLost
	c.firstLost = c.firstLost || c.fatal(err)
	c.mutex.Unlock()
	if c.notice != nil && first && !(c.fatal(err) && c.markLoss != nil && c.markLoss()) {
		c.notice(fmt.Sprintf("%s goes on on the CPU: %v", name, err))
	}
}

// isFirstLost tells whether the first backend can no longer be used.
func (c *continuing) isFirstLost() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.firstLost
}

// refuge is the second backend.
func (c *continuing) refuge() (backend.Backend, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.second == nil {
		b, err := c.open()
		if err != nil {
			return nil, err
		}
		c.second = b
	}
	return c.second, nil
}

// Tell implements backend.Teller by the first backend.
func (c *continuing) Tell(key, text string) {
	if b, ok := c.first.(backend.Teller); ok {
		b.Tell(key, text)
	}
}

// Describe names the backend that new objects are made on.
func (c *continuing) Describe() backend.Description {
	if c.isFirstLost() {
		if b, err := c.refuge(); err == nil {
			return b.Describe()
		}
	}
	return c.first.Describe()
}

// PeakFMA is that of the backend that new objects are made on.
func (c *continuing) PeakFMA() float64 { return c.ceiling(Ceiling.PeakFMA) }

// PeakBandwidth is that of the backend that new objects are made on.
func (c *continuing) PeakBandwidth() float64 { return c.ceiling(Ceiling.PeakBandwidth) }

func (c *continuing) ceiling(measure func(Ceiling) float64) float64 {
	b := c.first
	if c.isFirstLost() {
		var err error
		if b, err = c.refuge(); err != nil {
			return 0
		}
	}
	if m, ok := b.(Ceiling); ok {
		return measure(m)
	}
	return 0
}

// Program implements domain.Accelerator on the first backend. Without one there, or
// after its end, it is errors.ErrUnsupported, and so is every fault of a program, which
// does not move: whoever owns it goes on with its own arithmetic on the CPU.
func (c *continuing) Program(images fs.FS, kernels ...string) (domain.Program, error) {
	a, ok := c.first.(domain.Accelerator)
	if !ok || c.isFirstLost() {
		return nil, errors.ErrUnsupported
	}
	p, err := a.Program(images, kernels...)
	return program{p, c}, c.unsupported(err)
}

// NewPlans implements backend.Planner on the first backend, as Program.
func (c *continuing) NewPlans(problem domain.Problem, steps int, tolerance float64, iterations int) (*domain.Plans, error) {
	planner, ok := c.first.(backend.Planner)
	if !ok || c.isFirstLost() {
		return nil, errors.ErrUnsupported
	}
	p, err := planner.NewPlans(problem, steps, tolerance, iterations)
	if err != nil {
		return nil, c.unsupported(err)
	}
	return &domain.Plans{Places: p.Places, Solve: func(ctx context.Context, jobs []*domain.PlanJob) error {
		return c.unsupported(p.Solve(ctx, jobs))
	}}, nil
}

// unsupported tells of a fault of a program or of plans and makes it errors.ErrUnsupported.
func (c *continuing) unsupported(err error) error {
	if err == nil || !c.fault(err) {
		return err
	}
	c.reportMove("a program", err)
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
}

type program struct {
	domain.Program
	owner *continuing
}

func (p program) Reserve(words ...int) error {
	return p.owner.unsupported(p.Program.Reserve(words...))
}

func (p program) Run(key any, queue func(domain.Queue) error) error {
	return p.owner.unsupported(p.Program.Run(key, queue))
}

func (c *continuing) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	err := c.first.Close()
	if c.second != nil {
		err = errors.Join(err, c.second.Close())
	}
	return err
}

// movable is one object on one of the two backends.
type movable[T any] struct {
	owner     *continuing
	name      string // for notices
	construct func(backend.Backend) (T, error)
	inner     T
	onSecond  bool // it lives on the second backend
}

func newMovable[T any](c *continuing, name string, construct func(backend.Backend) (T, error)) (*movable[T], error) {
	o := &movable[T]{owner: c, name: name, construct: construct}
	if !c.isFirstLost() {
		inner, err := construct(c.first)
		if err == nil || !c.fault(err) {
			o.inner = inner
			return o, err
		}
		c.reportMove(name, err)
	}
	return o, o.move()
}

// move makes the object on the second backend.
func (o *movable[T]) move() error {
	b, err := o.owner.refuge()
	if err != nil {
		return err
	}
	inner, err := o.construct(b)
	if err != nil {
		return err
	}
	o.inner, o.onSecond = inner, true
	return nil
}

// call makes one call, on the second backend if the first cannot.
func (o *movable[T]) call(f func(T) error) error {
	if !o.onSecond {
		if !o.owner.isFirstLost() {
			err := f(o.inner)
			if err == nil || !o.owner.fault(err) {
				return err
			}
			o.owner.reportMove(o.name, err)
		}
		if err := o.move(); err != nil {
			return err
		}
	}
	return f(o.inner)
}

// ask is do for a call that gives a value.
func ask[T, R any](o *movable[T], f func(T) (R, error)) (r R, err error) {
	err = o.call(func(inner T) (err error) {
		r, err = f(inner)
		return err
	})
	return r, err
}

func (c *continuing) NewNet(mlp *model.MLP) (backend.Net, error) {
	if mlp != nil {
		mlp = mlp.Clone()
	}
	o, err := newMovable(c, "a network", func(b backend.Backend) (backend.Net, error) { return b.NewNet(mlp) })
	if err != nil {
		return nil, err
	}
	return net{o}, nil
}

type net struct{ *movable[backend.Net] }

func (n net) Forward(z, y tensor.Matrix) error {
	return n.call(func(b backend.Net) error { return b.Forward(z, y) })
}

func (n net) VJP(z, ybar, zbar tensor.Matrix) error {
	return n.call(func(b backend.Net) error { return b.VJP(z, ybar, zbar) })
}

func (n net) Jacobian(z, jac tensor.Matrix) error {
	return n.call(func(b backend.Net) error { return b.Jacobian(z, jac) })
}

func (n net) Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error {
	return n.call(func(b backend.Net) error { return b.Metric(z, lambda, g) })
}

func (c *continuing) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	o, err := newMovable(c, "an eigendecomposition", func(b backend.Backend) (backend.Backend, error) { return b, nil })
	if err != nil {
		return err
	}
	return o.call(func(b backend.Backend) error { return b.EigTopK(g, n, k, values, vectors) })
}

func (c *continuing) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	o, err := newMovable(c, "the search over M*", func(b backend.Backend) (backend.Index, error) { return b.NewIndex(codes, decoded) })
	if err != nil {
		return nil, err
	}
	// From here on the function above makes it of copies.
	if codes, decoded = codes.Clone(), decoded.Clone(); o.onSecond {
		codes, decoded = tensor.Matrix{}, tensor.Matrix{}
	}
	return index{o, o.inner.Len()}, nil
}

type index struct {
	*movable[backend.Index]
	length int
}

func (i index) Len() int { return i.length }

func (i index) Localize(x, zobs tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	return i.call(func(b backend.Index) error { return b.Localize(x, zobs, tau, neighbours, out) })
}

func (i index) Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	return i.call(func(b backend.Index) error { return b.Nearest(z, k, idx, dist2) })
}

func (c *continuing) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	for _, mlp := range []**model.MLP{&cfg.DecoderS, &cfg.DecoderU} {
		if *mlp != nil {
			*mlp = (*mlp).Clone()
		}
	}
	o, err := newMovable(c, "the online step", func(b backend.Backend) (backend.Stepper, error) { return b.NewStepper(cfg) })
	if err != nil {
		return nil, err
	}
	return stepper{o}, nil
}

type stepper struct{ *movable[backend.Stepper] }

// Step keeps latents that it overwrites until it is done: it may have to begin again.
func (s stepper) Step(in backend.StepInput, out backend.StepOutput) error {
	if !s.onSecond && overlap(in.Z, out.Z) {
		in.Z = in.Z.Clone()
	}
	return s.call(func(b backend.Stepper) error { return b.Step(in, out) })
}

func (s stepper) Field(input backend.StepInput, f tensor.Matrix, energy []float32) error {
	return s.call(func(b backend.Stepper) error { return b.Field(input, f, energy) })
}

func (s stepper) Decode(z, ctx, x tensor.Matrix, u, states tensor.Matrix) error {
	return s.call(func(b backend.Stepper) error { return b.Decode(z, ctx, x, u, states) })
}

// Split is that of the device; zero where the step runs on the second backend.
func (s stepper) Split() backend.SplitCost {
	if inner, ok := s.inner.(backend.SplitStepper); ok {
		return inner.Split()
	}
	return backend.SplitCost{}
}

// overlap tells whether two matrices share memory.
func overlap(a, b tensor.Matrix) bool {
	if len(a.Data) == 0 || len(b.Data) == 0 {
		return false
	}
	begin := func(m tensor.Matrix) uintptr { return uintptr(unsafe.Pointer(&m.Data[0])) }
	end := func(m tensor.Matrix) uintptr { return uintptr(unsafe.Pointer(&m.Data[len(m.Data)-1])) }
	return begin(a) <= end(b) && begin(b) <= end(a)
}

// NewRefiner is that of the first backend, where it has one. A refiner that meets a
// fault returns backend.ErrNoRefiner from then on, and its caller refines in single
// operations, which go on on the second backend.
func (c *continuing) NewRefiner(cfg backend.MapConfig) (backend.Refiner, error) {
	o, err := newOptional(c, "refinement", backend.ErrNoRefiner, func(b backend.RefinerBackend) (backend.Refiner, error) { return b.NewRefiner(cfg) })
	if err != nil {
		return nil, err
	}
	return refiner{o}, nil
}

// NewRollouts is that of the first backend as NewRefiner is, with
// backend.ErrNoRollouts.
func (c *continuing) NewRollouts(cfg backend.RolloutsConfig) (backend.Rollouts, error) {
	o, err := newOptional(c, "the search along roll-outs", backend.ErrNoRollouts, func(b backend.RolloutsBackend) (backend.Rollouts, error) { return b.NewRollouts(cfg) })
	if err != nil {
		return nil, err
	}
	return rollouts{o}, nil
}

// optional is an object of the first backend whose caller can do without it: after a
// fault it says so.
type optional[T any] struct {
	owner     *continuing
	name      string
	absence   error // what it says
	inner     T
	withdrawn bool
}

// newOptional makes an object where the first backend is a B.
func newOptional[B, T any](c *continuing, name string, absence error, construct func(B) (T, error)) (*optional[T], error) {
	b, ok := c.first.(B)
	if !ok {
		return nil, absence
	}
	o := &optional[T]{owner: c, name: name, absence: absence}
	return o, o.call(func() (err error) {
		o.inner, err = construct(b)
		return err
	})
}

// call makes one call, unless a fault came before; a fault is the error that says so.
func (l *optional[T]) call(f func() error) error {
	if l.withdrawn || l.owner.isFirstLost() {
		return l.absence
	}
	err := f()
	if err == nil || !l.owner.fault(err) {
		return err
	}
	l.owner.reportMove(l.name, err)
	l.withdrawn = true
	return l.absence
}

type refiner struct{ *optional[backend.Refiner] }

func (r refiner) Refine(in backend.RefineInput) (out backend.RefineOutput, err error) {
	err = r.call(func() (err error) {
		out, err = r.inner.Refine(in)
		return err
	})
	return out, err
}

type rollouts struct{ *optional[backend.Rollouts] }

func (r rollouts) Score(in backend.RolloutsInput, out backend.RolloutsOutput) error {
	return r.call(func() error { return r.inner.Score(in, out) })
}

func (r rollouts) Search(in backend.SearchInput, out *backend.SearchOutput) error {
	return r.call(func() error { return r.inner.Search(in, out) })
}

func (r rollouts) Executes() bool { return r.inner.Executes() }
