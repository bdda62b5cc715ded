package kernels

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Group computes on several devices of one kind. A batch is dealt out in blocks of
// neighbouring rows, in the order of the devices; networks, codes and settings are on
// each. Every row is what one device makes of it, to the bit: rows do not depend on one
// another, and which kernels make them is chosen by the whole batch. A refinement ends with
// the choice on the first device (groupRefiner), training with the same update on all
// (groupTrainer).
//
// Programs of a domain's own (domain.Accelerator) run on the first device.
type Group struct{ members []*Backend }

var (
	_ backend.Backend         = (*Group)(nil)
	_ backend.LoopsBackend    = (*Group)(nil)
	_ backend.RefinerBackend  = (*Group)(nil)
	_ backend.RolloutsBackend = (*Group)(nil)
	_ domain.Accelerator      = (*Group)(nil)
)

// NewGroup makes a group of backends, each on a context of its own, and lets the devices
// read each other's memory where they can. Devices that differ in architecture,
// multiprocessors or shared memory are refused: by these kernels are chosen.
func NewGroup(members ...*Backend) (*Group, error) {
	first := members[0].device
	for _, b := range members[1:] {
		if d := b.device; d.ISA() != first.ISA() || d.Multiprocessors != first.Multiprocessors || d.SharedPerBlock != first.SharedPerBlock {
			return nil, fmt.Errorf("device %d is %v and device %d %v: devices that compute together have to be of one kind", first.Ordinal, first, d.Ordinal, d)
		}
	}
	g := &Group{members: members}
	err := g.forEach(len(members), func(i int) error {
		return members[i].execute(func(t *driver.Thread) error {
			for j, peer := range members {
				if j == i {
					continue
				}
				if _, err := t.ReachPeer(peer.context); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Describe implements backend.Backend. Threads are the multiprocessors of all.
func (g *Group) Describe() backend.Description {
	d := g.members[0].Describe()
	d.Device, d.Devices = fmt.Sprintf("%d × %s", len(g.members), d.Device), len(g.members)
	d.Threads *= len(g.members)
	d.Places = 0 // the host ranks
	return d
}

// Close ends the context of every member.
func (g *Group) Close() error {
	var err error
	for _, b := range g.members {
		err = errors.Join(err, b.Close())
	}
	return err
}

// PeakFMA is that of all devices together.
func (g *Group) PeakFMA() float64 { return g.sum((*Backend).PeakFMA) }

// PeakBandwidth is that of all devices together.
func (g *Group) PeakBandwidth() float64 { return g.sum((*Backend).PeakBandwidth) }

func (g *Group) sum(value func(*Backend) float64) (total float64) {
	for _, b := range g.members {
		total += value(b)
	}
	return total
}

// Program implements domain.Accelerator on the first device.
func (g *Group) Program(images fs.FS, kernels ...string) (domain.Program, error) {
	return g.members[0].Program(images, kernels...)
}

// block are neighbouring rows [from, to) of a batch.
type block struct{ from, to int }

func (b block) rows() int { return b.to - b.from }

// wide is the block where a row has n entries.
func (b block) wide(n int) block { return block{b.from * n, b.to * n} }

// matrix are the block's rows; what has no such rows is not read, or not written.
func (b block) matrix(m tensor.Matrix) tensor.Matrix {
	if m.Rows < b.to {
		return m
	}
	return m.Slice(b.from, b.to)
}

// entriesOf are the block's entries of a list, of none none.
func entriesOf[T any](b block, list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list[b.from:b.to]
}

// deal cuts rows in blocks, one for each device that has any.
func (g *Group) deal(rows int) []block {
	blocks := make([]block, min(rows, len(g.members)))
	for i := range blocks {
		blocks[i] = block{i * rows / len(blocks), (i + 1) * rows / len(blocks)}
	}
	return blocks
}

// forEach calls f for the first n devices, at the same time. Faults of devices are told with their
// names; an error about what was asked for is the same on all.
func (g *Group) forEach(n int, f func(i int) error) error {
	errs := make([]error, n)
	parallel.Each(n, n, func(_, i int) { errs[i] = f(i) })
	var faults []error
	for i, err := range errs {
		if err = g.memberError(i, err); err != nil && !driver.IsFault(err) {
			return err
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// memberError says which device a fault is of.
func (g *Group) memberError(i int, err error) error {
	if !driver.IsFault(err) {
		return err
	}
	return fmt.Errorf("device %d: %w", g.members[i].device.Ordinal, err)
}

// split calls f for every block of rows, each on its device.
func (g *Group) split(rows int, f func(i int, b block) error) error {
	blocks := g.deal(rows)
	return g.forEach(len(blocks), func(i int) error { return f(i, blocks[i]) })
}

// everywhere makes an object on every device, a T of this package.
func everywhere[T, I any](g *Group, f func(i int, b *Backend) (I, error)) ([]T, error) {
	objects := make([]T, len(g.members))
	err := g.forEach(len(objects), func(i int) error {
		o, err := f(i, g.members[i])
		if err == nil {
			objects[i] = any(o).(T)
		}
		return err
	})
	return objects, err
}

// groupNet is a network on every device.
type groupNet struct {
	group   *Group
	members []*net
	in, out int
}

// NewNet implements backend.Backend.
func (g *Group) NewNet(mlp *model.MLP) (backend.Net, error) {
	if err := mlp.Validate(); err != nil {
		return nil, err
	}
	members, err := everywhere[*net](g, func(_ int, b *Backend) (backend.Net, error) { return b.NewNet(mlp) })
	if err != nil {
		return nil, err
	}
	return &groupNet{g, members, mlp.In(), mlp.Out()}, nil
}

// run checks an operation and calls f for every block.
func (n *groupNet) run(op string, z tensor.Matrix, quantity string, out tensor.Matrix, cols int, f func(m *net, b block) error) error {
	if err := backend.CheckNet(op, z, n.in, quantity, out, cols); err != nil {
		return err
	}
	return n.group.split(z.Rows, func(i int, b block) error {
		n.members[i].whole = z.Rows
		return f(n.members[i], b)
	})
}

// Forward implements backend.Net.
func (n *groupNet) Forward(z, y tensor.Matrix) error {
	return n.run("Forward", z, "y", y, n.out, func(m *net, b block) error { return m.Forward(b.matrix(z), b.matrix(y)) })
}

// VJP implements backend.Net.
func (n *groupNet) VJP(z, ybar, zbar tensor.Matrix) error {
	if err := tensor.Check("VJP", "ybar", ybar, z.Rows, n.out); err != nil {
		return err
	}
	return n.run("VJP", z, "zbar", zbar, n.in, func(m *net, b block) error { return m.VJP(b.matrix(z), b.matrix(ybar), b.matrix(zbar)) })
}

// Jacobian implements backend.Net.
func (n *groupNet) Jacobian(z, jac tensor.Matrix) error {
	return n.run("Jacobian", z, "jac", jac, n.out*n.in, func(m *net, b block) error { return m.Jacobian(b.matrix(z), b.matrix(jac)) })
}

// Metric implements backend.Net.
func (n *groupNet) Metric(z tensor.Matrix, lambda float32, metric tensor.Matrix) error {
	return n.run("Metric", z, "g", metric, n.in*n.in, func(m *net, b block) error { return m.Metric(b.matrix(z), lambda, b.matrix(metric)) })
}

// EigTopK implements backend.Backend.
func (g *Group) EigTopK(m tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	if err := backend.CheckEigTopK(m, n, k, values, vectors); err != nil {
		return err
	}
	return g.split(m.Rows, func(i int, b block) error {
		return g.members[i].EigTopK(b.matrix(m), n, k, b.matrix(values), b.matrix(vectors))
	})
}

// groupIndex holds all codes on every device; queries are dealt out.
type groupIndex struct {
	group   *Group
	members []*index
}

// NewIndex implements backend.Backend.
func (g *Group) NewIndex(codes, decoded tensor.Matrix) (backend.Index, error) {
	members, err := everywhere[*index](g, func(_ int, b *Backend) (backend.Index, error) { return b.NewIndex(codes, decoded) })
	if err != nil {
		return nil, err
	}
	return &groupIndex{g, members}, nil
}

// Len implements backend.Index.
func (x *groupIndex) Len() int { return x.members[0].Len() }

// Localize implements backend.Index.
func (x *groupIndex) Localize(obs, zobs tensor.Matrix, tau []float32, neighbours int, out backend.LocalizeOutput) error {
	c := x.members[0].codes
	if err := backend.CheckLocalize(c.n, c.states, obs, zobs, tau, neighbours, out); err != nil {
		return err
	}
	return x.group.split(zobs.Rows, func(i int, b block) error {
		return x.members[i].Localize(b.matrix(obs), b.matrix(zobs), entriesOf(b, tau), neighbours, backend.LocalizeOutput{
			Z: b.matrix(out.Z), Nearest: entriesOf(b, out.Nearest), Residual: entriesOf(b, out.Residual), Consistent: entriesOf(b, out.Consistent),
		})
	})
}

// Nearest implements backend.Index.
func (x *groupIndex) Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error {
	c := x.members[0].codes
	if err := backend.CheckNearest(c.count, c.n, z, k, idx, dist2); err != nil {
		return err
	}
	return x.group.split(z.Rows, func(i int, b block) error {
		return x.members[i].Nearest(b.matrix(z), k, entriesOf(b.wide(k), idx), entriesOf(b.wide(k), dist2))
	})
}

// groupStepper is the online step on every device.
type groupStepper struct {
	group   *Group
	members []*Stepper
	sizes   backend.StepSizes
}

// NewStepper implements backend.Backend: each device has room for its part of MaxBatch.
func (g *Group) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	memberCfg := cfg
	memberCfg.MaxBatch = ceil(cfg.MaxBatch, len(g.members))
	members, err := everywhere[*Stepper](g, func(_ int, b *Backend) (backend.Stepper, error) { return b.NewStepper(memberCfg) })
	if err != nil {
		return nil, err
	}
	return &groupStepper{g, members, cfg.Sizes()}, nil
}

func (s *groupStepper) run(rows int, f func(m *Stepper, b block) error) error {
	return s.group.split(rows, func(i int, b block) error {
		s.members[i].whole = rows
		return f(s.members[i], b)
	})
}

// input are the block's rows of a step's input.
func (b block) input(input backend.StepInput) backend.StepInput {
	return backend.StepInput{Z: b.matrix(input.Z), X: b.matrix(input.X), Ctx: b.matrix(input.Ctx), Weights: b.matrix(input.Weights)}
}

// Step implements backend.Stepper.
func (s *groupStepper) Step(in backend.StepInput, out backend.StepOutput) error {
	if err := s.sizes.CheckStep(in, out); err != nil {
		return err
	}
	return s.run(in.Z.Rows, func(m *Stepper, b block) error {
		return m.Step(b.input(in), backend.StepOutput{Z: b.matrix(out.Z), U: b.matrix(out.U), Energy: entriesOf(b, out.Energy), Fallbacks: entriesOf(b, out.Fallbacks)})
	})
}

// Field implements backend.Stepper.
func (s *groupStepper) Field(input backend.StepInput, f tensor.Matrix, energy []float32) error {
	if err := s.sizes.CheckField(input, f, energy); err != nil {
		return err
	}
	return s.run(input.Z.Rows, func(m *Stepper, b block) error { return m.Field(b.input(input), b.matrix(f), entriesOf(b, energy)) })
}

// Decode implements backend.Stepper.
func (s *groupStepper) Decode(z, ctx, x tensor.Matrix, u, states tensor.Matrix) error {
	if err := s.sizes.CheckDecode(z, ctx, x, u, states); err != nil {
		return err
	}
	return s.run(z.Rows, func(m *Stepper, b block) error {
		return m.Decode(b.matrix(z), b.matrix(ctx), b.matrix(x), b.matrix(u), b.matrix(states))
	})
}

// Split implements backend.SplitStepper. Seconds are of all devices' shares, which the
// host takes at once.
func (s *groupStepper) Split() (c backend.SplitCost) {
	for _, m := range s.members {
		split := m.Split()
		c.Evaluations, c.Rows = c.Evaluations+split.Evaluations, c.Rows+split.Rows
		c.HostSeconds, c.Bytes = c.HostSeconds+split.HostSeconds, c.Bytes+split.Bytes
	}
	return c
}

// groupLoops are closed loops of which each device keeps a block.
type groupLoops struct {
	group   *Group
	members []backend.Loops
	cfg     backend.LoopsConfig
	blocks  []block
}

// NewLoops implements backend.LoopsBackend.
func (g *Group) NewLoops(cfg backend.LoopsConfig) (backend.Loops, error) {
	blocks := g.deal(max(0, cfg.Step.MaxBatch))
	if len(blocks) < 2 {
		return g.members[0].NewLoops(cfg)
	}
	members := make([]backend.Loops, len(blocks))
	err := g.forEach(len(blocks), func(i int) (err error) {
		memberCfg := cfg
		memberCfg.Step.MaxBatch = blocks[i].rows()
		members[i], err = g.members[i].newLoops(memberCfg, cfg.Step.MaxBatch)
		return err
	})
	if err != nil {
		return nil, err
	}
	cfg.EncoderX, cfg.Codes, cfg.Decoded = nil, tensor.Matrix{Rows: cfg.Codes.Rows}, tensor.Matrix{}
	return &groupLoops{g, members, cfg, blocks}, nil
}

func (l *groupLoops) forEach(f func(m backend.Loops, b block) error) error {
	return l.group.forEach(len(l.blocks), func(i int) error { return f(l.members[i], l.blocks[i]) })
}

// Decide implements backend.Loops.
func (l *groupLoops) Decide(in backend.LoopsInput, out backend.LoopsOutput) error {
	if err := l.cfg.Check(l.cfg.Step.MaxBatch, &in, &out); err != nil {
		return err
	}
	spec := l.cfg.Step.Problem.Spec()
	nc, m := spec.ContextSize(), spec.ObjectiveSize()
	return l.forEach(func(member backend.Loops, b block) error {
		return member.Decide(backend.LoopsInput{
			S: b.matrix(in.S), C: entriesOf(b.wide(nc), in.C), State: entriesOf(b.wide(spec.MeasuredSize()), in.State), Slot: b.matrix(in.Slot), Tau: entriesOf(b, in.Tau), Smoothing: entriesOf(b, in.Smoothing),
			Hold: entriesOf(b, in.Hold), Steering: entriesOf(b, in.Steering), Sigma: entriesOf(b.wide(m), in.Sigma),
		}, backend.LoopsOutput{
			U: b.matrix(out.U), Sigma: entriesOf(b.wide(m), out.Sigma), Residual: entriesOf(b, out.Residual), Displacement: entriesOf(b, out.Displacement),
			Fallbacks: entriesOf(b, out.Fallbacks), Flags: entriesOf(b, out.Flags), Z: b.matrix(out.Z),
			Action: entriesOf(b.wide(spec.ActionSize()), out.Action), Margins: entriesOf(b.wide(len(spec.Margins)), out.Margins),
		})
	})
}

// Latents implements backend.Loops.
func (l *groupLoops) Latents(z tensor.Matrix) error {
	if err := backend.CheckOutput("loops", "latents", z, l.cfg.Step.MaxBatch, l.cfg.Step.DecoderS.In()); err != nil {
		return err
	}
	return l.forEach(func(member backend.Loops, b block) error { return member.Latents(b.matrix(z)) })
}

// SetLatents implements backend.Loops.
func (l *groupLoops) SetLatents(z tensor.Matrix) error {
	if err := tensor.Check("loops", "latents", z, l.cfg.Step.MaxBatch, l.cfg.Step.DecoderS.In()); err != nil {
		return err
	}
	return l.forEach(func(member backend.Loops, b block) error { return member.SetLatents(b.matrix(z)) })
}

// groupRollouts score rounds of which each device has a block of candidates.
type groupRollouts struct {
	group   *Group
	members []*rollouts
	cfg     backend.RolloutsConfig
}

// NewRollouts implements backend.RolloutsBackend.
func (g *Group) NewRollouts(cfg backend.RolloutsConfig) (backend.Rollouts, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	memberCfg := cfg
	memberCfg.Step.MaxBatch = ceil(cfg.Step.MaxBatch, len(g.members))
	members, err := everywhere[*rollouts](g, func(_ int, b *Backend) (backend.Rollouts, error) { return b.NewRollouts(memberCfg) })
	if err != nil {
		return nil, err
	}
	cfg.EncoderX, cfg.Codes, cfg.Decoded = nil, tensor.Matrix{}, tensor.Matrix{}
	return &groupRollouts{g, members, cfg}, nil
}

// Score implements backend.Rollouts.
func (r *groupRollouts) Score(in backend.RolloutsInput, out backend.RolloutsOutput) error {
	if err := r.cfg.Check(&in, &out); err != nil {
		return err
	}
	return r.group.split(in.Offsets.Rows, func(i int, b block) error {
		memberInput := in
		memberInput.Offsets = b.matrix(in.Offsets)
		r.members[i].shared = in.Offsets.Rows
		return r.members[i].Score(memberInput, backend.RolloutsOutput{Cost: entriesOf(b, out.Cost), Margin: entriesOf(b, out.Margin), First: b.matrix(out.First), Kept: entriesOf(b, out.Kept)})
	})
}

// Search implements backend.Rollouts: the host ranks what several devices have scored.
func (r *groupRollouts) Search(backend.SearchInput, *backend.SearchOutput) error {
	return backend.ErrNoSearch
}

// Executes implements backend.Rollouts.
func (r *groupRollouts) Executes() bool { return false }

// groupRefiner shares the candidates of a refinement. Every device makes the anchor and
// the start latents of all of them, and flows and rolls out its own block. Then costs and
// margins of the others, 16 bytes a candidate, go to the first device by way of the
// host. It chooses as one device does, and the chosen plan is fetched from where it lies.
type groupRefiner struct {
	group   *Group
	members []*refiner
}

// NewRefiner implements backend.RefinerBackend.
func (g *Group) NewRefiner(cfg backend.MapConfig) (backend.Refiner, error) {
	members, err := everywhere[*refiner](g, func(_ int, b *Backend) (backend.Refiner, error) { return b.NewRefiner(cfg) })
	if err != nil {
		return nil, err
	}
	return &groupRefiner{g, members}, nil
}

// Refine implements backend.Refiner.
func (r *groupRefiner) Refine(in backend.RefineInput) (backend.RefineOutput, error) {
	if err := r.members[0].check(in); err != nil {
		return backend.RefineOutput{}, err
	}
	blocks := r.group.deal(in.Candidates)
	if len(blocks) < 2 {
		return r.members[0].Refine(in)
	}
	// The caller's function is one goroutine's.
	var drawing sync.Mutex
	preferences := in.Preferences
	in.Preferences = func(row int, w []float64) {
		drawing.Lock()
		defer drawing.Unlock()
		preferences(row, w)
	}
	var key refineKey // of the first device
	if err := r.group.forEach(len(blocks), func(i int) error {
		return r.members[i].run(in, blocks[i].from, blocks[i].to, func(memberKey refineKey) {
			if i == 0 {
				key = memberKey
			}
		})
	}); err != nil {
		return backend.RefineOutput{}, err
	}
	out, err := r.members[0].chooseAmong(key, r.members[:len(blocks)], blocks)
	if err != nil {
		return out, r.group.memberError(0, err)
	}
	owner := slices.IndexFunc(blocks, func(b block) bool { return out.Index < b.to })
	if owner == 0 {
		return out, nil
	}
	return out, r.group.memberError(owner, r.members[owner].fetch(key, &out))
}

// chooseAmong is the choice among the candidates of all members, whose blocks of costs
// and margins lie in their pinned memory.
func (r *refiner) chooseAmong(key refineKey, members []*refiner, blocks []block) (out backend.RefineOutput, err error) {
	err = r.backend.execute(func(t *driver.Thread) error {
		q := r.backend.queue(t)
		for i, b := range blocks[1:] {
			source := &members[1+i].space
			for _, p := range [][2]piece{{r.space.cost, source.cost}, {r.space.margin, source.margin}} {
				dst, other := p[0], p[1]
				copy(driver.HostSlice[float64](r.host, dst.host+8*b.from, b.rows()), driver.HostSlice[float64](members[1+i].host, other.host+8*b.from, b.rows()))
				q.upload(dst.device.Offset(8*b.from), r.host, dst.host+8*b.from, 8*b.rows())
			}
		}
		r.choose(q, key)
		if err := q.wait(); err != nil {
			return err
		}
		out = r.result(key)
		return nil
	})
	return out, err
}

// fetch reads the plan and the latent of the chosen candidate, which is of this device's
// block.
func (r *refiner) fetch(key refineKey, out *backend.RefineOutput) error {
	return r.backend.execute(func(t *driver.Thread) error {
		f := &r.flow
		return errors.Join(
			driver.Download(t, out.U, r.space.best.device.Offset(8*out.Index*f.plan)),
			driver.Download(t, out.Latent, r.flown(key).Offset(4*out.Index*f.latent)),
		)
	})
}
