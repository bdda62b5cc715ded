package kernels

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/normal"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
)

var _ backend.RefinerBackend = (*Backend)(nil)

// refiner makes whole refinements on the device: one captured graph from the
// observation to the chosen plan, for each set of counts. What crosses is the
// observation on the way in, the chosen plan and the statistics on the way out, and
// the swept preferences.
type refiner struct {
	deviceMap
	room       *memory // buffers of the largest request so far, and the graphs on them
	neighbours int     // of localization

	policy    packedNet // D_u of E_x, the base policy of the roll-out, where every step is launches of its own
	whole     policy    // the same, where a roll-out is one
	abilities *domain.ProblemAbilities
	floor     float64 // of the preference slot
	spec      *domain.Spec
	norm      model.Normalizer // of E_x's input
	normS     model.Normalizer

	problem         domain.Problem
	terminalNumbers int // numbers that say what comes behind plans; 0 where nothing does
	capacity        int
	host            *driver.HostMemory
	buffers         stepBuffers
	space           refineSpace
	search          searchSpace
	graphs          keptGraphs[refineKey]
	tables          tableKey
}

// refineSpace is what a refinement needs beside the step's buffers.
type refineSpace struct {
	observation, result                  piece // cross; see observationLayout and resultLayout
	observed, spot, nearest, residual    piece
	sigma                                piece
	z, other                             piece
	preferences, scales, table           piece
	sweepIn, sweepOut                    piece
	source                               piece
	distance, consistent, list, selected piece
	listLength, selectedCount            piece
	cost, margin                         piece
	plansSpace
}

// refineKey names a graph.
type refineKey struct {
	candidates, perturbed, neighbours, sweep, flow, look, scales int
	previous, project, adaptive, counted, terminal               bool
}

// tableKey names the preferences in pinned memory.
type tableKey struct {
	seed              uint64
	candidates, sweep int
}

const maxNoiseScales = 64

// observationLayout places an observation in one block that crosses at once:
// float64 first.
type observationLayout struct {
	s, c, tau, seed, weights, rates, terminal, state, ctx, normal, input, slot, tau32, previous, bytes int
}

func (r *refiner) observationLayout() observationLayout {
	spec := r.spec
	ns, nc, m := spec.MeasuredSize(), spec.ContextSize(), spec.ObjectiveSize()
	var l observationLayout
	offset := 0
	take := func(place *int, n, size int) {
		*place = offset
		offset += n * size
	}
	take(&l.s, ns, 8)
	take(&l.c, nc, 8)
	take(&l.tau, 1, 8)
	take(&l.seed, 1, 8)
	take(&l.weights, m, 8)
	take(&l.rates, m, 8)
	take(&l.terminal, r.terminalNumbers, 8)
	take(&l.state, ns, 4)
	take(&l.ctx, nc, 4)
	take(&l.normal, ns, 4)
	take(&l.input, r.width, 4)
	take(&l.slot, 1+m, 4)
	take(&l.tau32, 1, 4)
	take(&l.previous, r.flow.latent, 4)
	l.bytes = (offset + 7) / 8 * 8
	return l
}

// chosenSources is the place of the first source in what gpc_refine_choose writes,
// chosenValues how much it may write.
const (
	chosenSources = 8
	chosenValues  = chosenSources + 4*(int(domain.SourcePrevious)+1)
)

// resultLayout places the result in one block, in bytes.
type resultLayout struct{ plan, sigma, decoded, latent, consistent, bytes int }

func (r *refiner) resultLayout() resultLayout {
	var l resultLayout
	l.plan = 8 * chosenValues
	l.sigma = l.plan + 8*r.spec.PlanSize()
	l.decoded = l.sigma + 8*r.spec.ObjectiveSize()
	l.latent = l.decoded + 4*r.spec.MeasuredSize()
	l.consistent = l.latent + 4*r.flow.latent
	l.bytes = (l.consistent + 8) / 8 * 8
	return l
}

// refineKernels are what the graphs of a refinement are made of beside the step.
var refineKernels = []string{
	"gpc_refine_distances", "gpc_refine_collect", "gpc_refine_neighbours",
	"gpc_refine_inputs", "gpc_refine_scatter", "gpc_refine_choose",
}

// NewRefiner implements backend.RefinerBackend for problems with device functions,
// which have to score an action as the problem does.
func (b *Backend) NewRefiner(cfg backend.MapConfig) (backend.Refiner, error) {
	if !mayHaveDevice(cfg.Step.Problem) {
		return nil, fmt.Errorf("%s has no device functions: %w", cfg.Step.Problem.Spec().Name, backend.ErrNoRefiner)
	}
	if cfg.Step.DecoderS.In() > MaxLatent || cfg.Codes.Cols > MaxCodeSize || min(cfg.Neighbours, cfg.Codes.Rows) > MaxNeighbours {
		return nil, fmt.Errorf("%s: latents, codes or neighbours are more than the kernels take: %w", cfg.Step.Problem.Spec().Name, backend.ErrNoRefiner)
	}
	if err := cfg.Step.Validate(); err != nil {
		return nil, err
	}
	r := &refiner{
		room: &memory{}, problem: cfg.Step.Problem, abilities: domain.AbilitiesOfProblem(cfg.Step.Problem), floor: cfg.PreferenceFloor, spec: cfg.Step.Problem.Spec(), neighbours: cfg.Neighbours,
		norm:  model.Normalizer{Mean: slices.Clone(cfg.NormX.Mean), Scale: slices.Clone(cfg.NormX.Scale)},
		normS: model.Normalizer{Mean: slices.Clone(cfg.Step.NormS.Mean), Scale: slices.Clone(cfg.Step.NormS.Scale)},
	}
	r.graphs.memory = r.room
	err := b.execute(func(t *driver.Thread) error {
		if err := b.preload(t, slices.Concat(stepKernels, refineKernels, searchKernels)...); err != nil {
			return err
		}
		q := b.queue(t)
		r.deviceMap = packMap(q, cfg, backend.ErrNoRefiner)
		if r.spec.Plan == 1 {
			r.whole = packPolicy(q, &r.deviceMap, cfg.EncoderX, cfg.Step.DecoderU)
		}
		if r.spec.Plan == 1 && r.whole.name == "" {
			r.policy = packNet(q, r.memory, "base policy", cfg.EncoderX, cfg.Step.DecoderU)
		}
		r.scores(q, cfg.Step.Problem, backend.ErrNoRefiner)
		r.terminalNumbers = r.behindSize(cfg.Step.Problem)
		q.enqueue(func() error { return r.grow(t, padded(cfg.Step.MaxBatch)) })
		if q.err != nil {
			r.memory.rewind(t, 0, 0)
		}
		return q.err
	})
	if driver.IsShort(err) {
		return nil, errors.Join(backend.ErrNoRefiner, err)
	}
	if err != nil {
		return nil, fmt.Errorf("refiner: %w", err)
	}
	runtime.AddCleanup(r, func(m [2]*memory) {
		b.discard(m[0].free)
		b.discard(m[1].free)
	}, [2]*memory{r.memory, r.room})
	return r, nil
}

// grow makes room for so many candidates. Graphs on the old buffers end with them.
func (r *refiner) grow(t *driver.Thread, n int) error {
	if n <= r.capacity {
		return nil
	}
	if err := r.graphs.free(t); err != nil {
		return err
	}
	r.capacity, r.tables = 0, tableKey{}
	buffers, err := r.flow.allocate(t, r.room, n)
	if err != nil {
		r.room.rewind(t, 0, 0)
		return err
	}
	r.buffers = buffers
	f, s := &r.flow, &r.space
	var l layoutOf
	l.reserve(&s.observation, r.observationLayout().bytes, true)
	l.reserve(&s.result, r.resultLayout().bytes, true)
	l.reserve(&s.observed, 4*f.latent, false)
	l.reserve(&s.spot, 4*f.latent, false)
	l.reserve(&s.nearest, 4, false)
	l.reserve(&s.residual, 4, false)
	l.reserve(&s.sigma, 4*f.objectives, false)
	l.reserve(&s.z, 4*n*f.latent, false)
	l.reserve(&s.other, 4*n*f.latent, false)
	l.reserve(&s.preferences, 4*n*f.objectives, true)
	l.reserve(&s.table, 8*len(normal.Table()), false)
	l.reserve(&s.scales, 8*maxNoiseScales, true)
	l.reserve(&s.sweepIn, 4*n*r.width, false)
	l.reserve(&s.sweepOut, 4*n*f.latent, false)
	l.reserve(&s.source, n, false)
	l.reserve(&s.distance, 4*r.codes.count, false)
	l.reserve(&s.consistent, r.codes.count, false)
	l.reserve(&s.list, 4*r.codes.count, false)
	l.reserve(&s.selected, 4*n, false)
	l.reserve(&s.listLength, 4, false)
	l.reserve(&s.selectedCount, 4, false)
	l.reserve(&s.cost, 8*n, false)
	l.reserve(&s.margin, 8*n, false)
	s.reserve(&l, &r.deviceMap, n)
	l.reserved = append(l.reserved, r.search.take(&l, 1, max(1, min(r.neighbours, r.codes.count)), r.codes.count, false)...)
	q := r.backend.queue(t)
	_, r.host = l.place(q, r.room)
	fill(q, s.table.device, normal.Table())
	if q.err != nil {
		r.room.rewind(t, 0, 0)
		return q.err
	}
	r.capacity = n
	return nil
}
