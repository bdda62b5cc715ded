package kernels

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

var _ backend.LoopsBackend = (*Backend)(nil)

// loops keep the latents of many closed loops on the device. A decision is one
// captured graph for each chunk of loops: the observation goes in; the plan, σ and
// what is recorded of the decision come out, projected actions with their margins and
// latents where they are asked for.
type loops struct {
	deviceMap
	room *memory // of a chunk, and the graphs
	cfg  backend.LoopsConfig
	rows int
	tile int // of passes

	latent  driver.Pointer
	chunk   int
	buffers stepBuffers
	space   loopsSpace
	search  searchSpace
	host    *driver.HostMemory
	graphs  keptGraphs[loopsKey]
}

// deviceMap is a map on the device, with its problem.
type deviceMap struct {
	backend                               *Backend
	memory                                *memory // networks, codes, constants
	flow                                  flow
	encoder                               packedNet
	width                                 int   // of E_x's input
	codes                                 codes // count 0: none
	meanX, scaleX, semantic, inverseRange driver.Pointer
}

// packMap copies a map to the device. none is the error of a problem that has no
// device functions.
func packMap(q *queue, cfg backend.MapConfig, unavailable error) deviceMap {
	m := &memory{}
	d := deviceMap{
		backend: q.Backend, memory: m, flow: newFlow(q, m, cfg.Step), encoder: packNet(q, m, "encoder E_x", cfg.EncoderX), width: cfg.EncoderX.In(),
		meanX: uploaded(q, m, cfg.NormX.Mean), scaleX: uploaded(q, m, cfg.NormX.Scale),
		semantic: uploaded(q, m, semanticOf(cfg.Step.Problem.Spec())), inverseRange: uploaded(q, m, cfg.InverseRange),
	}
	if cfg.Codes.Rows > 0 {
		d.codes = packCodes(q, m, cfg.Codes, cfg.Decoded)
	}
	if d.flow.code.name == "" {
		q.enqueue(func() error {
			return fmt.Errorf("%s: %s: %w", cfg.Step.Problem.Spec().Name, d.flow.code.reason, unavailable)
		})
	}
	return d
}

// loopsSpace is what a decision of a chunk needs beside the step's buffers. Pieces
// of one direction lie together.
type loopsSpace struct {
	state, c, sigma, s, slot, tau, alpha, hold, steering                                 piece // in; state where actions are projected
	action, margins, margin, sigmaOut, residual, displacement, plan, z, fallbacks, flags piece // out; the first three where they are
	input, normal, context, observed, zt, decoded, first, weight                         piece
	nearest, distance, consistent, stray                                                 piece
	cost, workspace                                                                      piece // of the projection
}

// loopsKey names a graph: the first loop of its chunk, how many, and whether latents
// and projected actions are wanted.
type loopsKey struct {
	first, rows       int
	latents, projects bool
}

// loopKernels are what the graphs of a decision are made of beside the step.
var loopKernels = []string{
	"gpc_loop_observe", "gpc_loop_blend", "gpc_loop_settle",
}

// NewLoops implements backend.LoopsBackend for problems with device functions.
// Without device memory for all loops at once a decision is taken in chunks.
func (b *Backend) NewLoops(cfg backend.LoopsConfig) (backend.Loops, error) {
	if !mayHaveDevice(cfg.Step.Problem) || cfg.Step.DecoderS.In() > MaxLatent || min(cfg.Neighbours, cfg.Codes.Rows) > MaxNeighbours {
		return nil, backend.ErrNoLoops
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &loops{room: &memory{}, cfg: cfg, rows: cfg.Step.MaxBatch, tile: b.tileOf(cfg.Step.MaxBatch)}
	l.graphs.memory = l.room
	err := b.execute(func(t *driver.Thread) error {
		if err := b.preload(t, slices.Concat(stepKernels, loopKernels, searchKernels)...); err != nil {
			return err
		}
		mapCfg := cfg.MapConfig
		if cfg.Direct {
			mapCfg.Codes, mapCfg.Decoded = tensor.Matrix{}, tensor.Matrix{}
		}
		q := b.queue(t)
		l.deviceMap = packMap(q, mapCfg, backend.ErrNoLoops)
		l.latent = q.alloc(l.memory, 4*l.rows*l.flow.latent)
		// No loop has a latent yet.
		q.enqueue(func() error {
			return t.Fill32Async(l.latent, math.Float32bits(float32(math.NaN())), l.rows*l.flow.latent, q.stream)
		})
		if q.err != nil {
			l.memory.rewind(t, 0, 0)
			return q.err
		}
		for rows := min(l.rows, mostRows); ; rows = ceil(rows, 2) {
			err := l.allocate(t, rows)
			if err == nil {
				return nil
			}
			l.room.rewind(t, 0, 0)
			if !driver.IsShort(err) || rows <= 32 {
				l.memory.rewind(t, 0, 0)
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("loops: %w", err)
	}
	l.cfg.EncoderX, l.cfg.Codes, l.cfg.Decoded = nil, tensor.Matrix{Rows: cfg.Codes.Rows}, tensor.Matrix{}
	runtime.AddCleanup(l, func(m [2]*memory) {
		b.discard(m[0].free)
		b.discard(m[1].free)
	}, [2]*memory{l.memory, l.room})
	return l, nil
}

// neighbours of localization: at least the nearest code.
func (l *loops) neighbours() int { return max(1, min(l.cfg.Neighbours, l.codes.count)) }

// margins of the problem.
func (l *loops) margins() int { return len(l.cfg.Step.Problem.Spec().Margins) }

// allocate makes room for chunks of so many loops.
func (l *loops) allocate(t *driver.Thread, rows int) error {
	f, s := &l.flow, &l.space
	var err error
	if l.buffers, err = f.allocate(t, l.room, rows); err != nil {
		return err
	}
	var layout layoutOf
	reserve := func(p *piece, perRow int, crosses bool) { layout.reserve(p, rows*perRow, crosses) }
	projected := 0
	if l.cfg.Projects {
		projected = 8
		layout.reserve(&s.workspace, f.code.workspace*f.code.inFlight(l.backend, rows), false)
	}
	reserve(&s.cost, projected, false)
	reserve(&s.state, projected*f.states, true)
	reserve(&s.c, 8*f.contexts, true)
	reserve(&s.sigma, 8*f.objectives, true)
	reserve(&s.s, 4*f.states, true)
	reserve(&s.slot, 4*(1+f.objectives), true)
	reserve(&s.tau, 4, true)
	reserve(&s.alpha, 4, true)
	reserve(&s.hold, 1, true)
	reserve(&s.steering, 1, true)
	reserve(&s.action, projected*f.plan, true)
	reserve(&s.margins, projected*l.margins(), true)
	reserve(&s.margin, projected, true)
	reserve(&s.sigmaOut, 8*f.objectives, true)
	reserve(&s.residual, 8, true)
	reserve(&s.displacement, 8, true)
	reserve(&s.plan, 4*f.plan, true)
	reserve(&s.fallbacks, 1, true)
	reserve(&s.flags, 1, true)
	reserve(&s.z, 4*f.latent, true)
	reserve(&s.input, 4*l.width, false)
	reserve(&s.normal, 4*f.states, false)
	reserve(&s.context, 4*f.contexts, false)
	reserve(&s.observed, 4*f.latent, false)
	reserve(&s.zt, 4*f.latent, false)
	reserve(&s.decoded, 4*f.states, false)
	reserve(&s.first, 4*f.plan, false)
	reserve(&s.weight, 4*f.objectives, false)
	reserve(&s.nearest, 4, false)
	reserve(&s.distance, 4, false)
	reserve(&s.consistent, 1, false)
	reserve(&s.stray, 1, false)
	if l.codes.count > 0 {
		layout.reserved = append(layout.reserved, l.search.take(&layout, rows, l.neighbours(), l.codes.count, false)...)
	}
	q := l.backend.queue(t)
	_, l.host = layout.place(q, l.room)
	l.chunk = rows
	return q.err
}

// Decide implements backend.Loops.
func (l *loops) Decide(in backend.LoopsInput, out backend.LoopsOutput) error {
	if err := l.cfg.Check(l.rows, &in, &out); err != nil {
		return err
	}
	return l.backend.execute(func(t *driver.Thread) error {
		for start := 0; start < l.rows; start += l.chunk {
			rows := min(l.chunk, l.rows-start)
			l.stage(&in, start, rows)
			key := loopsKey{start, rows, out.Z.Rows > 0, len(out.Action) > 0}
			if err := l.graphs.run(t, l.backend, key, func(q *queue) { l.queue(q, key) }); err != nil {
				return err
			}
			l.give(&out, start, rows)
		}
		return nil
	})
}

// stage writes rows [from, from + rows) of an observation into pinned memory.
func (l *loops) stage(input *backend.LoopsInput, start, rows int) {
	s, f := &l.space, &l.flow
	copy(driver.HostSlice[float64](l.host, s.c.host, rows*f.contexts), input.C[start*f.contexts:])
	copy(driver.HostSlice[float64](l.host, s.sigma.host, rows*f.objectives), input.Sigma[start*f.objectives:])
	gather(driver.HostSlice[float32](l.host, s.s.host, rows*f.states), input.S, start, rows)
	gather(driver.HostSlice[float32](l.host, s.slot.host, rows*input.Slot.Cols), input.Slot, start, rows)
	copy(driver.HostSlice[float32](l.host, s.tau.host, rows), input.Tau[start:])
	copy(driver.HostSlice[float32](l.host, s.alpha.host, rows), input.Smoothing[start:])
	hold, steering := driver.HostSlice[uint8](l.host, s.hold.host, rows), driver.HostSlice[uint8](l.host, s.steering.host, rows)
	if len(input.State) > 0 {
		state := driver.HostSlice[float64](l.host, s.state.host, rows*f.states)
		copy(state, input.State[start*f.states:])
		for i := range rows {
			if input.Hold[start+i] { // whose numbers may be any, and not worth a power flow
				state[i*f.states] = math.NaN()
			}
		}
	}
	for i := range rows {
		hold[i] = uint8(flag(input.Hold[start+i]))
		steering[i] = uint8(input.Steering[start+i])
	}
}

// give copies what came out to rows [from, from + rows).
func (l *loops) give(out *backend.LoopsOutput, start, rows int) {
	s, f := &l.space, &l.flow
	w := workspace{host: l.host}
	w.give(out.U, start, start+rows, s.plan)
	copy(out.Sigma[start*f.objectives:], driver.HostSlice[float64](l.host, s.sigmaOut.host, rows*f.objectives))
	copy(out.Residual[start:], driver.HostSlice[float64](l.host, s.residual.host, rows))
	copy(out.Displacement[start:], driver.HostSlice[float64](l.host, s.displacement.host, rows))
	copy(out.Fallbacks[start:], driver.HostSlice[uint8](l.host, s.fallbacks.host, rows))
	copy(out.Flags[start:], driver.HostSlice[uint8](l.host, s.flags.host, rows))
	w.give(out.Z, start, start+rows, s.z)
	if len(out.Action) > 0 {
		l.giveActions(out, start, rows)
	}
}

// giveActions copies projected actions with their margins to rows [from, from + rows), and
// marks those that keep every limit.
func (l *loops) giveActions(out *backend.LoopsOutput, start, rows int) {
	s, f, spec := &l.space, &l.flow, l.cfg.Step.Problem.Spec()
	plans, smallest := driver.HostSlice[float64](l.host, s.action.host, rows*f.plan), driver.HostSlice[float64](l.host, s.margin.host, rows)
	copy(out.Margins[start*l.margins():], driver.HostSlice[float64](l.host, s.margins.host, rows*l.margins()))
	for i := range rows {
		copy(out.Action[(start+i)*f.actions:(start+i+1)*f.actions], plans[i*f.plan:])
		if spec.Keeps(smallest[i]) {
			out.Flags[start+i] |= backend.LoopProjected
		}
	}
}

// Latents implements backend.Loops.
func (l *loops) Latents(z tensor.Matrix) error {
	if err := backend.CheckOutput("loops", "latents", z, l.rows, l.flow.latent); err != nil {
		return err
	}
	flat := make([]float32, l.rows*l.flow.latent)
	err := l.backend.execute(func(t *driver.Thread) error {
		if err := t.Wait(l.backend.stream); err != nil {
			return err
		}
		return driver.Download(t, flat, l.latent)
	})
	if err != nil {
		return err
	}
	return z.CopyFrom(tensor.Matrix{Rows: l.rows, Cols: z.Cols, Stride: z.Cols, Data: flat})
}

// SetLatents implements backend.Loops.
func (l *loops) SetLatents(z tensor.Matrix) error {
	if err := tensor.Check("loops", "latents", z, l.rows, l.flow.latent); err != nil {
		return err
	}
	flat := make([]float32, l.rows*l.flow.latent)
	gather(flat, z, 0, l.rows)
	return l.backend.execute(func(t *driver.Thread) error {
		return errors.Join(t.Wait(l.backend.stream), driver.Upload(t, l.latent, flat))
	})
}
