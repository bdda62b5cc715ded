package kernels

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

var _ backend.RolloutsBackend = (*Backend)(nil)

// plansSpace is where the roll-outs of many plans lie.
type plansSpace struct {
	s, c, best            piece
	input, state, context piece // of E_x and Base, of the next state
	workspace             piece
}

func (p *plansSpace) reserve(l *layoutOf, m *deviceMap, rows int) {
	f := &m.flow
	l.reserve(&p.s, 8*rows*f.states, false)
	l.reserve(&p.c, 8*rows*f.contexts, false)
	l.reserve(&p.best, 8*rows*f.plan, false)
	l.reserve(&p.input, 4*rows*m.width, false)
	l.reserve(&p.state, 4*rows*f.states, false)
	l.reserve(&p.context, 4*rows*f.contexts, false)
	l.reserve(&p.workspace, f.code.workspace*f.code.inFlight(m.backend, rows), false)
}

// plans are decoded plans to roll out: where those of the first step lie, and those that
// the base policy then decodes, with Base, and where cost and margin go.
type plans struct {
	rows, steps       int
	first, next, base driver.Pointer
	cost, margin      driver.Pointer
	survived          driver.Pointer // 0: not wanted
	project           bool
	bend              func(h int) *bendJob // of the base policy at step h; nil: nothing bends it
}

// rollOut queues the roll-outs of plans under the true dynamics, continued by the base
// policy where a plan is one action.
func (m *deviceMap) rollOut(q *queue, s *plansSpace, p *plans, policy packedNet, preference *preferenceJob) {
	f := &m.flow
	job := rolloutJob{
		s: s.s.device, c: s.c.device, cost: p.cost, margin: p.margin, plan: p.first, best: s.best.device,
		input: s.input.device, stateOut: s.state.device, contextOut: s.context.device, workspace: s.workspace.device, kept: p.survived, rows: int32(p.rows), project: flag(p.project),
	}
	for h := range p.steps {
		job.h, job.encode, job.base = int32(h), 0, 0
		if h == p.steps-1 {
			job.last = f.code.last
		}
		if policy.device != 0 && h < p.steps-1 {
			job.encode = 1
			if !f.code.warp { // the roll-out of GPC_DOMAIN takes Base itself
				job.base = p.base
			}
		}
		f.code.rollout(q, &job, preference)
		if job.encode == 0 {
			continue
		}
		if job.base == 0 {
			f.bases(q, p.rows, inputs{x: s.state.device, ctx: s.context.device, ldx: f.states, ldctx: f.contexts}, p.base)
		}
		next := forwardJob{
			net: policy.device, z: s.input.device, physical: p.next, mean: f.meanU, scale: f.scaleU, base: p.base, lo: f.lo, hi: f.hi,
			ldz: int32(m.width), ldp: int32(f.plan), ldbase: int32(f.plan),
		}
		if p.bend == nil {
			q.forward(p.rows, policy.width, &next)
		} else {
			q.bent(p.rows, policy.width, &next, p.bend(h+1))
		}
		job.plan = p.next
	}
}

// scores tells whether the device functions score a roll-out as the problem does.
func (m *deviceMap) scores(q *queue, p domain.Problem, unavailable error) {
	abilities, code, lacks := domain.AbilitiesOfProblem(p), &m.flow.code, ""
	switch {
	case abilities.Score != nil && !code.scored:
		lacks = "do not score an action by the state it leads to"
	case abilities.Failed != nil && !code.fails:
		lacks = "do not know a state that is lost"
	case backend.Ends(p) && (abilities.PlanTerminalCost == nil || code.warp):
		lacks = "do not know what comes behind a plan"
	default:
		return
	}
	q.enqueue(func() error { return fmt.Errorf("%s: its device functions %s: %w", p.Spec().Name, lacks, unavailable) })
}

// behindSize is how many numbers say what comes behind plans; 0 where nothing does.
func (m *deviceMap) behindSize(p domain.Problem) int {
	if !backend.Ends(p) {
		return 0
	}
	return domain.QuadraticSize(m.flow.states + m.flow.contexts)
}

// rollouts score rounds of the search along roll-outs: one captured graph from the
// offsets of the candidates to what they cost, for each number of candidates and steps.
type rollouts struct {
	deviceMap
	room      *memory // buffers, and the graphs on them
	cfg       backend.RolloutsConfig
	abilities *domain.ProblemAbilities
	policy    packedNet // D_u of E_x, where every step is launches of its own
	whole     policy    // the same, where a roll-out is one
	slot      []float64 // scratch
	host      *driver.HostMemory
	space     roundSpace
	graphs    keptGraphs[roundKey]
	search    *searchRoom // of whole searches
}

// roundSpace is what a round needs. A round takes as much of in and out as it has
// candidates, see roundInput and roundOutput.
type roundSpace struct {
	plansSpace
	in, out       piece
	z, plan, base piece
}

// roundKey names a graph.
type roundKey struct {
	rows, steps, tile          int
	project, counted, terminal bool
}

// roundGraphs is how many graphs are kept: a look-ahead that ends with the episode is
// another number of steps at every decision.
const roundGraphs = 128

// roundInput places what goes in, in bytes: float64 first.
type roundInput struct{ s, c, weights, terminal, state, ctx, slot, latent, offsets int }

func (r *rollouts) roundInput() (l roundInput) {
	f := &r.flow
	l.c = 8 * f.states
	l.weights = l.c + 8*f.contexts
	l.terminal = l.weights + 8*f.objectives
	l.state = l.terminal + 8*r.behindSize(r.cfg.Step.Problem)
	l.ctx = l.state + 4*f.states
	l.slot = l.ctx + 4*f.contexts
	l.latent = l.slot + 4*(1+f.objectives)
	l.offsets = l.latent + 4*f.latent
	return l
}

// roundOutput places what comes out of so many candidates: costs, margins, the
// first actions, then the steps before a state that is lost, where there are such.
type roundOutput struct{ margin, first, survived, bytes int }

func (r *rollouts) roundOutput(rows int) roundOutput {
	l := roundOutput{margin: 8 * rows, first: 16 * rows, survived: 16*rows + 4*rows*r.flow.plan}
	if l.bytes = l.survived; r.abilities.Failed != nil {
		l.bytes += 4 * rows
	}
	return l
}

// rolloutKernels are what the graphs of a round are made of beside the problem's own.
var rolloutKernels = []string{
	"gpc_rollout_begin", "gpc_mlp_forward_1", "gpc_mlp_forward_8", "gpc_mlp_forward_32", "gpc_mlp_forward_32_tf32", "gpc_mlp_bent_8", "gpc_mlp_bent_32", "gpc_mlp_bent_32_tf32",
}

// NewRollouts implements backend.RolloutsBackend for problems with device functions,
// which have to score an action as the problem does.
func (b *Backend) NewRollouts(cfg backend.RolloutsConfig) (backend.Rollouts, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	abilities := domain.AbilitiesOfProblem(cfg.Step.Problem)
	if !mayHaveDevice(cfg.Step.Problem) {
		return nil, fmt.Errorf("%s has no device functions: %w", cfg.Step.Problem.Spec().Name, backend.ErrNoRollouts)
	}
	r := &rollouts{room: &memory{}, cfg: cfg, abilities: abilities, slot: make([]float64, cfg.Step.Problem.Spec().PreferenceSize())}
	r.graphs.memory, r.graphs.most = r.room, roundGraphs
	r.cfg.Codes, r.cfg.Decoded = tensor.Matrix{}, tensor.Matrix{}
	memories := [3]*memory{nil, r.room, {}}
	r.search = &searchRoom{memory: memories[2]}
	r.search.graphs.memory, r.search.graphs.most = memories[2], roundGraphs
	err := b.execute(func(t *driver.Thread) error {
		if err := b.preload(t, slices.Concat(rolloutKernels, roundsKernels)...); err != nil {
			return err
		}
		q := b.queue(t)
		r.deviceMap = packMap(q, r.cfg.MapConfig, backend.ErrNoRollouts)
		if r.whole = packPolicy(q, &r.deviceMap, cfg.EncoderX, cfg.Step.DecoderU); r.whole.name == "" {
			r.policy = packNet(q, r.memory, "base policy", cfg.EncoderX, cfg.Step.DecoderU)
		}
		r.scores(q, cfg.Step.Problem, backend.ErrNoRollouts)
		q.enqueue(func() error { return r.allocate(q, cfg.Step.MaxBatch) })
		if q.err != nil {
			r.room.rewind(t, 0, 0)
			r.memory.rewind(t, 0, 0)
		}
		return q.err
	})
	if driver.IsShort(err) {
		return nil, errors.Join(backend.ErrNoRollouts, err)
	}
	if err != nil {
		return nil, fmt.Errorf("roll-outs: %w", err)
	}
	r.cfg.EncoderX = nil
	memories[0] = r.memory
	runtime.AddCleanup(r, func(memories [3]*memory) {
		for _, m := range memories {
			b.discard(m.free)
		}
	}, memories)
	return r, nil
}

// allocate makes room for so many candidates.
func (r *rollouts) allocate(q *queue, rows int) error {
	f, s := &r.flow, &r.space
	var l layoutOf
	l.reserve(&s.in, r.roundInput().offsets+4*rows*r.cfg.Steps*r.cfg.Width(), true)
	l.reserve(&s.out, r.roundOutput(rows).bytes, true)
	if r.whole.name == "" {
		s.reserve(&l, &r.deviceMap, rows)
		l.reserve(&s.z, 4*rows*f.latent, false)
		l.reserve(&s.plan, 4*rows*f.plan, false)
		l.reserve(&s.base, 4*rows*f.plan, false)
	}
	_, r.host = l.place(q, r.room)
	return q.err
}

// Score implements backend.Rollouts.
func (r *rollouts) Score(in backend.RolloutsInput, out backend.RolloutsOutput) error {
	if err := r.cfg.Check(&in, &out); err != nil {
		return err
	}
	return r.backend.execute(func(t *driver.Thread) error {
		counted := r.stage(in)
		rows := in.Offsets.Rows
		key := roundKey{rows: rows, steps: in.Steps, tile: r.backend.tileOf(rows), project: !in.NoProjection, counted: counted, terminal: in.TerminalCost != nil}
		if err := r.graphs.run(t, r.backend, key, func(q *queue) { r.queue(q, key) }); err != nil {
			return err
		}
		offset, l := r.space.out.host, r.roundOutput(rows)
		copy(out.Cost, driver.HostSlice[float64](r.host, offset, rows))
		copy(out.Margin, driver.HostSlice[float64](r.host, offset+l.margin, rows))
		first := driver.HostSlice[float32](r.host, offset+l.first, rows*r.flow.plan)
		for i := range rows {
			copy(out.First.Row(i), first[i*r.flow.plan:])
		}
		for i := range out.Kept {
			if out.Kept[i] = in.Steps; r.abilities.Failed != nil {
				out.Kept[i] = int(driver.HostSlice[int32](r.host, offset+l.survived, rows)[i])
			}
		}
		return nil
	})
}

// stage writes what goes in into pinned memory, as the kernels read it, and reports
// whether actions are counted with weights of ProblemAbilities.Weights.
func (r *rollouts) stage(input backend.RolloutsInput) (counted bool) {
	base := r.space.in.host
	gather(driver.HostSlice[float32](r.host, base+r.roundInput().offsets, input.Offsets.Rows*input.Offsets.Cols), input.Offsets, 0, input.Offsets.Rows)
	return r.observe(r.host, base, input.S, input.C, input.Preference, input.Z, input.TerminalCost)
}

// observe writes an observation with its latent, preference and what comes behind plans into pinned memory.
func (r *rollouts) observe(host *driver.HostMemory, base int, s, c []float64, pref domain.Preference, z []float32, terminalCost *domain.Quadratic) (counted bool) {
	l, f := r.roundInput(), &r.flow
	doubles := func(offset, n int) []float64 { return driver.HostSlice[float64](host, base+offset, n) }
	singles := func(offset, n int) []float32 { return driver.HostSlice[float32](host, base+offset, n) }
	copy(doubles(l.s, f.states), s)
	copy(doubles(l.c, f.contexts), c)
	tensor.Narrow(singles(l.state, f.states), s)
	tensor.Narrow(singles(l.ctx, f.contexts), c)
	pref.Slot(r.slot, r.cfg.PreferenceFloor)
	tensor.Narrow(singles(l.slot, len(r.slot)), r.slot)
	copy(singles(l.latent, f.latent), z)
	if terminalCost != nil {
		terminalCost.Pack(doubles(l.terminal, r.behindSize(r.cfg.Step.Problem)))
	}
	clear(doubles(l.weights, f.objectives))
	return r.abilities.Weights(pref, doubles(l.weights, f.objectives))
}

type roundStart struct {
	s, c, latent, offsets, rollS, rollC, z  driver.Pointer
	rows, n, states, contexts, ldoffsets, _ int32
}

// queue puts a round on the stream.
func (r *rollouts) queue(q *queue, key roundKey) {
	f, s := &r.flow, &r.space
	l, o := r.roundInput(), r.roundOutput(key.rows)
	q.tile = key.tile
	input := func(offset int) driver.Pointer { return s.in.device.Offset(offset) }
	q.upload(s.in.device, r.host, s.in.host, l.offsets+4*key.rows*key.steps*r.cfg.Width())
	preference := r.preference(input, key.counted, key.terminal)
	var survived driver.Pointer
	if r.abilities.Failed != nil {
		survived = s.out.device.Offset(o.survived)
	}
	if first := s.out.device.Offset(o.first); r.whole.name != "" {
		job := r.wholeJob(input(l.s), input(l.c), key.rows, key.steps, key.project)
		job.latent, job.offsets, job.cost = input(l.latent), input(l.offsets), s.out.device
		job.margin, job.first = s.out.device.Offset(o.margin), first
		job.kept = survived
		r.whole.run(q, &f.code, &job, &preference)
	} else {
		f.bases(q, 1, inputs{x: input(l.state), ctx: input(l.ctx)}, s.base.device)
		r.rollAlong(q, &s.plansSpace, key.rows, key.steps, key.project, &preference, planRollout{
			s: input(l.s), c: input(l.c), latent: input(l.latent), offsets: input(l.offsets), z: s.z.device, first: first, plan: s.plan.device, start: s.base.device, base: s.base.device, cost: s.out.device, margin: s.out.device.Offset(o.margin), survived: survived,
		})
	}
	q.download(r.host, s.out.host, s.out.device, o.bytes)
}

// preference are the weights of an observation, which lies where input says.
func (r *rollouts) preference(input func(offset int) driver.Pointer, counted, terminal bool) preferenceJob {
	l := r.roundInput()
	job := preferenceJob{weights: input(l.weights), slot: input(l.slot), semantic: r.semantic, mean: r.meanX, scale: r.scaleX, adaptive: flag(!counted)}
	if terminal {
		job.behind = input(l.terminal)
	}
	return job
}

// wholeJob is that of whole roll-outs from one state.
func (m *deviceMap) wholeJob(s, c driver.Pointer, rows, steps int, project bool) policyJob {
	f := &m.flow
	return policyJob{
		s: s, c: c, mean: f.meanU, scale: f.scaleU, lo: f.lo, hi: f.hi, rows: int32(rows), steps: int32(steps), n: int32(f.latent), project: flag(project), last: f.code.last,
	}
}

// planRollout are candidates of the policy bent by offsets, and what they are rolled out with.
type planRollout struct {
	s, c, latent, start, offsets, z driver.Pointer // where all begin, with its Base at start
	base                            driver.Pointer // of later steps
	first, plan                     driver.Pointer // decoded
	cost, margin, survived          driver.Pointer
}

// rollAlong queues roll-outs in launches of their own for every step.
func (r *rollouts) rollAlong(q *queue, space *plansSpace, rows, steps int, project bool, preference *preferenceJob, a planRollout) {
	f, ld := &r.flow, steps*r.cfg.Width()
	begin := roundStart{
		s: a.s, c: a.c, latent: a.latent, offsets: a.offsets, rollS: space.s.device, rollC: space.c.device, z: a.z,
		rows: int32(rows), n: int32(f.latent), states: int32(f.states), contexts: int32(f.contexts), ldoffsets: int32(ld),
	}
	q.launch("gpc_rollout_begin", driver.Dim{X: ceil(rows*max(f.states, f.contexts, f.latent), 128)}, 128, 0, driver.Struct(&begin))
	decode := forwardJob{net: f.netU.device, z: a.z, physical: a.first, mean: f.meanU, scale: f.scaleU, base: a.start, lo: f.lo, hi: f.hi, ldz: int32(f.latent), ldp: int32(f.plan)}
	q.forward(rows, f.netU.width, &decode)
	r.rollOut(q, space, &plans{
		rows: rows, steps: steps, first: a.first, next: a.plan, base: a.base, cost: a.cost, margin: a.margin, survived: a.survived, project: project,
		bend: func(h int) *bendJob { return &bendJob{offsets: a.offsets.Offset(4 * h * f.latent), ld: int32(ld)} },
	}, r.policy, preference)
}
