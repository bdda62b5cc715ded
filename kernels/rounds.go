package kernels

import (
	"errors"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/internal/normal"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// All rounds of a search along roll-outs in one captured graph: in each the candidates are drawn, rolled out and ranked, and the elites
// move mean and spread. What crosses is the observation with what the sampler begins with, and what the rounds came to.

// The structures of include/rounds.cuh and rounds_result.cu, field for field.

// The words of gpc_rounds_begin.
const (
	beginSeed = iota // two words
	_
	beginNumber
	beginGiven
	beginLimit
	beginWords = beginLimit + 4
)

// The words of gpc_rounds_state.
const (
	stateKept = iota
	stateDone
	stateMade
	_
	stateWords
)

type roundsJob struct {
	begin, state, table, unit, ranks, given, share, from, beside, mean, other, spread, candidates, cost, margin, kept, elites, standing, report driver.Pointer
	tolerance, beyond, wideWidth, heldWidth, heldSpread, floor, learn, keep                                                                     float64
	width, steps, knots, most, kinds, wide, held                                                                                                int32
	stream                                                                                                                                      uint32
}

type roundsOut struct {
	state, report, spread, executed, cost, margin, number, payload, offsets, acted, first driver.Pointer
	rounds, actions                                                                       int32
}

const (
	// A round's candidates and the elites are ranked in shared memory.
	mostRanked = 8192
	// Candidates of all rounds with their offsets and actions have so many bytes.
	roundsMemory = 1 << 30
)

var roundsKernels = []string{"gpc_rounds_draw", "gpc_rounds_rank", "gpc_rounds_adapt", "gpc_rounds_result"}

// searchKey names a graph of rounds.
type searchKey struct {
	candidates, round, rounds, steps, initial int
	project, counted, elites, terminal        bool
}

// searchRoom is what rounds need: for so many candidates over all and steps.
type searchRoom struct {
	memory     *memory
	host       *driver.HostMemory
	candidates int
	steps      int
	in, out    piece

	offsets, cost, margin, survived, first, executed, mean, elites, eliteCount, report, table, unit, ranks piece

	plansSpace
	z, plan, base, start piece // start: Base of the observation
	graphs               keptGraphs[searchKey]
	outcome              crossentropy.Outcome
}

// searchInput places what goes in behind the observation of roundInput, in bytes.
type searchInput struct{ begin, mean, spread, share, knot, neighbour, initial, state, bytes int }

func (r *rollouts) searchInput(steps, initial int) (l searchInput) {
	width, knots := r.cfg.Width(), min(crossentropy.MostKnots, steps)
	l.begin = (r.roundInput().offsets + 7) / 8 * 8
	l.mean = l.begin + 4*beginWords
	l.spread = l.mean + 8*steps*width
	l.share = l.spread + 8*knots*width
	l.knot = l.share + 4*steps
	l.neighbour = l.knot + 4*steps
	l.initial = l.neighbour + 4*knots
	l.state = l.initial + 4*initial*steps*width
	l.bytes = l.state + 4*stateWords // of those of later rounds none crosses
	return l
}

// searchOutput places what comes out, in bytes: with one elite's numbers, as far as one.
type searchOutput struct{ report, spread, executed, cost, margin, number, payload, offsets, one, bytes int }

func (r *rollouts) searchOutput(rounds, steps int) (l searchOutput) {
	width, most, nu := r.cfg.Width(), crossentropy.Elites(r.cfg.Search.Round), r.flow.plan
	l.report = 4 * stateWords
	l.spread = l.report + 8*5*rounds
	l.executed = l.spread + 8*min(crossentropy.MostKnots, steps)*width
	l.cost = l.executed + 8*steps*nu
	l.margin = l.cost + 8*most
	l.number = l.margin + 8*most
	l.payload = l.number + 4*most
	l.offsets = l.payload + 4*most*nu
	l.one = l.offsets + 4*steps*width
	l.bytes = l.offsets + 4*most*steps*width
	return l
}

// Executes implements backend.Rollouts.
func (r *rollouts) Executes() bool { return r.whole.name != "" }

// Search implements backend.Rollouts.
func (r *rollouts) Search(in backend.SearchInput, out *backend.SearchOutput) error {
	if err := in.CheckTerminalCost(r.cfg.Step.Problem); err != nil {
		return err
	}
	steps, round := in.Begin.Steps, r.cfg.Search.Round
	most := crossentropy.Elites(round)
	if round+most > mostRanked || 16*(round+most) > r.backend.device.SharedPerBlock-1024 || steps > r.cfg.Steps || in.Candidates*steps*(4*r.cfg.Width()+8*r.flow.plan) > roundsMemory {
		return backend.ErrNoSearch
	}
	limit := ceil(in.Candidates, round)
	key := searchKey{candidates: in.Candidates, round: round, rounds: limit, steps: steps, initial: 4, project: !in.NoProjection, elites: in.Elites, terminal: in.TerminalCost != nil}
	if in.Begin.Given.Rows > key.initial {
		key.initial = most + 4
	}
	if in.Rounds > 0 {
		limit = min(limit, in.Rounds)
	}
	err := r.backend.execute(func(t *driver.Thread) error {
		if err := r.makeSearchRoom(t, in.Candidates, steps); err != nil {
			return err
		}
		key.counted = r.stageSearch(in, key, limit)
		if err := r.search.graphs.run(t, r.backend, key, func(q *queue) { r.queueSearch(q, key) }); err != nil {
			return err
		}
		r.settled(key, out)
		return nil
	})
	if driver.IsShort(err) {
		return errors.Join(backend.ErrNoSearch, err)
	}
	return err
}

// makeSearchRoom makes room for so many candidates and steps.
func (r *rollouts) makeSearchRoom(t *driver.Thread, candidates, steps int) error {
	s := r.search
	if candidates <= s.candidates && steps <= s.steps {
		return nil
	}
	if err := s.graphs.free(t); err != nil {
		return err
	}
	candidates, steps = max(candidates, s.candidates), max(steps, s.steps)
	s.candidates, s.steps = 0, 0
	f, width, round := &r.flow, r.cfg.Width(), r.cfg.Search.Round
	most := crossentropy.Elites(round)
	var l layoutOf
	l.reserve(&s.in, r.searchInput(steps, most+4).bytes+4*stateWords*candidates, true)
	l.reserve(&s.out, r.searchOutput(candidates, steps).bytes, true)
	l.reserve(&s.offsets, 4*candidates*steps*width, false)
	l.reserve(&s.cost, 8*candidates, false)
	l.reserve(&s.margin, 8*candidates, false)
	l.reserve(&s.survived, 4*candidates, false)
	l.reserve(&s.first, 4*candidates*f.plan, false)
	l.reserve(&s.executed, 8*candidates*steps*f.plan, false)
	l.reserve(&s.mean, 8*steps*width, false)
	l.reserve(&s.elites, 2*4*most, false)
	l.reserve(&s.eliteCount, 4, false)
	l.reserve(&s.report, 8*5*candidates, false)
	l.reserve(&s.table, 8*len(normal.Table()), false)
	l.reserve(&s.unit, 8*width, false)
	l.reserve(&s.ranks, 8*3*(most+1), false)
	if r.whole.name == "" {
		s.plansSpace.reserve(&l, &r.deviceMap, round)
		l.reserve(&s.z, 4*round*f.latent, false)
		l.reserve(&s.plan, 4*round*f.plan, false)
		l.reserve(&s.base, 4*round*f.plan, false)
		l.reserve(&s.start, 4*f.plan, false)
	}
	q := r.backend.queue(t)
	_, s.host = l.place(q, s.memory)
	ranks := crossentropy.NewRanks(most)
	fill(q, s.table.device, normal.Table())
	fill(q, s.unit.device, r.cfg.Search.Unit)
	fill(q, s.ranks.device, append(append(append([]float64(nil), ranks.Most...), ranks.Place...), ranks.Sum...))
	if q.err != nil {
		s.memory.rewind(t, 0, 0)
		return q.err
	}
	s.candidates, s.steps = candidates, steps
	return nil
}

// stageSearch writes what goes in into pinned memory, and reports what stage does.
func (r *rollouts) stageSearch(input backend.SearchInput, key searchKey, limit int) (counted bool) {
	s := r.search
	l, base, begin := r.searchInput(key.steps, key.initial), s.in.host, &input.Begin
	counted = r.observe(s.host, base, input.S, input.C, input.Preference, input.Z, input.TerminalCost)
	copy(driver.HostSlice[uint32](s.host, base+l.begin, beginWords), []uint32{
		beginSeed: uint32(begin.Seed), beginSeed + 1: uint32(begin.Seed >> 32), beginNumber: begin.Number, beginGiven: uint32(begin.Given.Rows), beginLimit: uint32(limit),
	})
	clear(driver.HostSlice[int32](s.host, base+l.state, stateWords))
	copy(driver.HostSlice[float64](s.host, base+l.mean, len(begin.Mean)), begin.Mean)
	copy(driver.HostSlice[float64](s.host, base+l.spread, len(begin.Spread)), begin.Spread)
	share, starts := driver.HostSlice[float32](s.host, base+l.share, key.steps), driver.HostSlice[int32](s.host, base+l.knot, key.steps)
	for h := range key.steps {
		knot, _, f := crossentropy.Between(float64(h), key.steps, begin.Knots)
		starts[h], share[h] = int32(knot), f
	}
	neighbours := driver.HostSlice[int32](s.host, base+l.neighbour, begin.Knots)
	for k := range neighbours {
		neighbours[k] = int32(crossentropy.Beside(k, key.steps, begin.Knots))
	}
	gather(driver.HostSlice[float32](s.host, base+l.initial, begin.Given.Rows*begin.Given.Cols), begin.Given, 0, begin.Given.Rows)
	return counted
}

// queueSearch puts all rounds on the stream.
func (r *rollouts) queueSearch(q *queue, key searchKey) {
	f, s, width := &r.flow, r.search, r.cfg.Width()
	observation, l := r.roundInput(), r.searchInput(key.steps, key.initial)
	q.upload(s.in.device, s.host, s.in.host, l.bytes)
	input := func(offset int) driver.Pointer { return s.in.device.Offset(offset) }
	most := crossentropy.Elites(key.round)
	job := roundsJob{
		begin: input(l.begin), state: input(l.state), table: s.table.device, unit: s.unit.device, ranks: s.ranks.device, given: input(l.initial), share: input(l.share), from: input(l.knot), beside: input(l.neighbour),
		mean: input(l.mean), other: s.mean.device, spread: input(l.spread), candidates: s.offsets.device, cost: s.cost.device, margin: s.margin.device, elites: s.elites.device, standing: s.eliteCount.device, report: s.report.device,
		tolerance: r.cfg.Search.Tolerance, beyond: crossentropy.BeyondMargins, wideWidth: crossentropy.WideWidth, heldWidth: crossentropy.HeldWidth, heldSpread: crossentropy.HeldSpread,
		floor: crossentropy.SpreadFloor, learn: crossentropy.Learn, keep: 1 - crossentropy.Learn,
		width: int32(width), steps: int32(key.steps), knots: int32(min(crossentropy.MostKnots, key.steps)), most: int32(most),
		kinds: crossentropy.Kinds, wide: crossentropy.Wide, held: crossentropy.Held, stream: crossentropy.Stream,
	}
	if !f.code.warp { // kernels of their own do not know a lost state
		job.kept = s.survived.device
	}
	preference := r.preference(input, key.counted, key.terminal)
	if r.whole.name == "" {
		f.bases(q, 1, inputs{x: input(observation.state), ctx: input(observation.ctx)}, s.start.device)
	}
	for i := range key.rounds {
		first := i * key.round
		rows := min(key.round, key.candidates-first)
		q.tile = r.backend.tileOf(rows)
		q.launch("gpc_rounds_draw", driver.Dim{X: ceil(rows*width, 128)}, 128, 0, driver.Struct(&job), driver.Int32(i), driver.Int32(first), driver.Int32(rows))
		r.rollRound(q, key, &preference, input, i, first, rows)
		q.launch("gpc_rounds_rank", driver.Dim{X: ceil(rows+most, 8)}, 256, 16*(rows+most), driver.Struct(&job), driver.Int32(i), driver.Int32(first), driver.Int32(rows))
		q.launch("gpc_rounds_adapt", driver.Dim{X: ceil(key.steps*width, 32) + ceil(int(job.knots)*width, 32)}, 128, 0, driver.Struct(&job), driver.Int32(i), driver.Int32(first))
	}
	o := r.searchOutput(key.rounds, key.steps)
	output := func(offset int) driver.Pointer { return s.out.device.Offset(offset) }
	result := roundsOut{
		state: output(0), report: output(o.report), spread: output(o.spread), cost: output(o.cost), margin: output(o.margin), number: output(o.number), payload: output(o.payload), offsets: output(o.offsets),
		first: s.first.device, rounds: int32(key.rounds), actions: int32(f.plan),
	}
	if r.whole.name != "" {
		result.executed, result.acted = output(o.executed), s.executed.device
	}
	bytes, count := o.one, 1
	if key.elites {
		bytes, count = o.bytes, most
	}
	q.launch("gpc_rounds_result", driver.Dim{X: count}, 128, 0, driver.Struct(&job), driver.Struct(&result))
	q.download(s.host, s.out.host, s.out.device, bytes)
}

// rollRound queues the roll-outs of one round's candidates.
func (r *rollouts) rollRound(q *queue, key searchKey, preference *preferenceJob, input func(int) driver.Pointer, round, first, rows int) {
	f, s := &r.flow, r.search
	l, width := r.roundInput(), r.cfg.Width()
	state := input(r.searchInput(key.steps, key.initial).state)
	offsets := s.offsets.device.Offset(4 * first * key.steps * width)
	cost, margin, firsts := s.cost.device.Offset(8*first), s.margin.device.Offset(8*first), s.first.device.Offset(4*first*f.plan)
	if r.whole.name != "" {
		job := r.wholeJob(input(l.s), input(l.c), rows, key.steps, key.project)
		job.latent, job.offsets, job.cost = input(l.latent), offsets, cost
		job.margin, job.first = margin, firsts
		job.kept, job.executed = s.survived.device.Offset(4*first), s.executed.device.Offset(8*first*key.steps*f.plan)
		job.done = state.Offset(4 * (round*stateWords + stateDone))
		r.whole.run(q, &f.code, &job, preference)
		return
	}
	r.rollAlong(q, &s.plansSpace, rows, key.steps, key.project, preference, planRollout{
		s: input(l.s), c: input(l.c), latent: input(l.latent), offsets: offsets, z: s.z.device, first: firsts, plan: s.plan.device, start: s.start.device, base: s.base.device, cost: cost, margin: margin, survived: s.survived.device.Offset(4 * first),
	})
}

// settled reads what the rounds came to.
func (r *rollouts) settled(key searchKey, out *backend.SearchOutput) {
	s, o := r.search, r.searchOutput(key.rounds, key.steps)
	base, nu, size := s.out.host, r.flow.plan, key.steps*r.cfg.Width()
	state := driver.HostSlice[int32](s.host, base, stateWords)
	report := driver.HostSlice[float64](s.host, base+o.report, 5*int(state[stateMade]))
	out.Rounds = out.Rounds[:0]
	for i := range int(state[stateMade]) {
		v := report[5*i:]
		out.Rounds = append(out.Rounds, backend.SearchRound{
			Candidates: min(key.round, key.candidates-i*key.round), Feasible: int(v[2]), Total: v[3], Least: v[4], Cost: v[0], Margin: v[1],
		})
	}
	elites := int(state[stateKept])
	if !key.elites {
		elites = min(elites, 1)
	}
	c := &s.outcome
	c.Number = c.Number[:0]
	for _, n := range driver.HostSlice[int32](s.host, base+o.number, elites) {
		c.Number = append(c.Number, int(n))
	}
	c.Cost, c.Margin = driver.HostSlice[float64](s.host, base+o.cost, elites), driver.HostSlice[float64](s.host, base+o.margin, elites)
	c.Spread = driver.HostSlice[float64](s.host, base+o.spread, min(crossentropy.MostKnots, key.steps)*r.cfg.Width())
	c.Offsets = tensor.Matrix{Rows: elites, Cols: size, Stride: size, Data: driver.HostSlice[float32](s.host, base+o.offsets, elites*size)}
	c.Payload = tensor.Matrix{Rows: elites, Cols: nu, Stride: nu, Data: driver.HostSlice[float32](s.host, base+o.payload, elites*nu)}
	out.Outcome, out.Executed = *c, nil
	if elites > 0 && r.whole.name != "" && !math.IsInf(c.Margin[0], -1) {
		out.Executed = driver.HostSlice[float64](s.host, base+o.executed, key.steps*nu)
	}
}
