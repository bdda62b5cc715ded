package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// Refine implements backend.Refiner.
func (r *refiner) Refine(in backend.RefineInput) (backend.RefineOutput, error) {
	if err := r.check(in); err != nil {
		return backend.RefineOutput{}, err
	}
	var out backend.RefineOutput
	err := r.run(in, 0, in.Candidates, func(key refineKey) { out = r.result(key) })
	return out, err
}

// run takes candidates [first, to) through the graph that it gives done the key of, while
// the results lie in pinned memory.
func (r *refiner) run(in backend.RefineInput, first, to int, done func(refineKey)) error {
	err := r.backend.do(func(t *driver.Thread) error {
		if err := r.grow(t, padded(in.Candidates)); err != nil {
			return err
		}
		r.sweep(in)
		counted := r.stage(in)
		key := refineKey{
			candidates: in.Candidates, around: in.Around, neighbours: in.Neighbours, sweep: in.Sweep, flow: in.FlowSteps, look: in.LookAhead, scales: len(in.NoiseScales),
			first: first, rows: to - first,
			previous: in.Previous != nil, project: !in.NoProjection, adaptive: in.Preference.Adaptive, counted: counted, behind: in.TerminalCost != nil,
		}
		if err := r.graphs.run(t, r.backend, key, func(q *queue) { r.queue(q, key) }); err != nil {
			return err
		}
		done(key)
		return nil
	})
	if isShort(err) {
		err = errors.Join(backend.ErrNoRefiner, err)
	}
	return err
}

func (r *refiner) check(in backend.RefineInput) error {
	spec, alone := r.spec, 2
	if in.Previous != nil {
		alone = 3
	}
	switch {
	case len(in.S) != spec.MeasuredSize() || len(in.C) != spec.ContextSize():
		return fmt.Errorf("refiner: the observation has %d measured values and %d of context, want %d and %d", len(in.S), len(in.C), spec.MeasuredSize(), spec.ContextSize())
	case in.Previous != nil && len(in.Previous) != r.flow.latent:
		return fmt.Errorf("refiner: a previous latent of %d entries, want %d", len(in.Previous), r.flow.latent)
	case in.Previous == nil && in.Around != 0:
		return fmt.Errorf("refiner: %d candidates around a previous latent, and there is none", in.Around)
	case in.Candidates < 1 || min(in.Around, in.Neighbours, in.Sweep) < 0 || in.Around+in.Neighbours+in.Sweep > max(0, in.Candidates-alone):
		return fmt.Errorf("refiner: %d candidates with %d around the previous latent, %d neighbours and %d preferences, want room for all beside %d", in.Candidates, in.Around, in.Neighbours, in.Sweep, alone)
	case in.FlowSteps < 0 || in.LookAhead < 1:
		return fmt.Errorf("refiner: %d flow steps and a look-ahead of %d, want at least 0 and 1", in.FlowSteps, in.LookAhead)
	case spec.Plan > 1 && in.LookAhead > spec.Plan:
		return fmt.Errorf("refiner: a look-ahead of %d over a plan of %d", in.LookAhead, spec.Plan)
	case len(in.NoiseScales) < 1 || len(in.NoiseScales) > maxNoiseScales:
		return fmt.Errorf("refiner: %d noise scales, want 1 to %d", len(in.NoiseScales), maxNoiseScales)
	}
	return cmp.Or(in.CheckTerminalCost(r.problem), in.Preference.Validate(spec.ObjectiveSize()))
}

// sweep writes the preferences into pinned memory where they are not those of the call before.
func (r *refiner) sweep(in backend.RefineInput) {
	key := tableKey{in.Seed, in.Candidates, in.Sweep}
	if key == r.tables {
		return
	}
	m := r.flow.objectives
	preferences := driver.HostSlice[float32](r.host, r.space.preferences.host, in.Sweep*m)
	w, slot := make([]float64, m), make([]float64, 1+m)
	for i := range in.Sweep {
		in.Preferences(i, w)
		domain.Preference{W: w}.Slot(slot, r.floor)
		tensor.Narrow(preferences[i*m:(i+1)*m], slot[1:])
	}
	r.tables = key
}

// stage writes the observation into pinned memory, as kernels and E_x read it, and
// reports whether actions are counted with weights of ProblemAbilities.Weights.
func (r *refiner) stage(in backend.RefineInput) (counted bool) {
	l, base, f := r.observationLayout(), r.space.observation.host, &r.flow
	doubles := func(at, n int) []float64 { return driver.HostSlice[float64](r.host, base+at, n) }
	singles := func(at, n int) []float32 { return driver.HostSlice[float32](r.host, base+at, n) }
	copy(doubles(l.s, f.states), in.S)
	copy(doubles(l.c, f.contexts), in.C)
	doubles(l.tau, 1)[0] = float64(in.Tau)
	driver.HostSlice[uint64](r.host, base+l.seed, 1)[0] = in.Seed
	clear(doubles(l.weights, f.objectives))
	clear(doubles(l.rates, f.objectives))
	if in.TerminalCost != nil {
		in.TerminalCost.Pack(doubles(l.behind, r.behind))
	}
	if !in.Preference.Adaptive {
		copy(doubles(l.weights, f.objectives), in.Preference.W)
	}
	state, ctx, input := singles(l.state, f.states), singles(l.ctx, f.contexts), singles(l.input, r.width)
	tensor.Narrow(state, in.S)
	tensor.Narrow(ctx, in.C)
	r.normS.Apply(singles(l.normal, f.states), state)
	slot := make([]float64, 1+f.objectives)
	in.Preference.Slot(slot, r.floor)
	tensor.Narrow(singles(l.slot, len(slot)), slot)
	copy(input, state)
	copy(input[f.states:], ctx)
	tensor.Narrow(input[f.states+f.contexts:], slot)
	r.norm.Apply(input, input)
	singles(l.tau32, 1)[0] = in.Tau
	copy(singles(l.previous, f.latent), in.Previous)
	copy(driver.HostSlice[float64](r.host, r.space.scales.host, len(in.NoiseScales)), in.NoiseScales)
	return r.may.Weights(in.Preference, doubles(l.rates, f.objectives))
}

// queue puts a whole refinement on the stream.
func (r *refiner) queue(q *queue, key refineKey) {
	s := &r.space
	q.upload(s.observation.at, r.host, s.observation.host, s.observation.bytes)
	q.upload(s.scales.at, r.host, s.scales.host, 8*key.scales)
	if key.sweep > 0 {
		q.upload(s.preferences.at, r.host, s.preferences.host, 4*key.sweep*r.flow.objectives)
	}
	o := r.place()
	preference := preferenceJob{weights: o.weights, slot: o.slot, semantic: r.semantic, mean: r.meanX, scale: r.scaleX}
	if key.adaptive {
		preference.adaptive = 1
	}
	r.anchor(q, o, &preference)
	r.scatter(q, key, o)
	q.tile = r.backend.tileOf(key.candidates)
	r.drift(q, key, o)
	preference.weights, preference.adaptive = o.rates, 1 // what an action is counted with
	if key.counted {
		preference.adaptive = 0
	}
	if key.behind {
		preference.behind = o.behind
	}
	r.evaluate(q, key, &preference)
	if key.whole() {
		r.choose(q, key)
		return
	}
	for _, p := range []piece{r.space.cost, r.space.margin} {
		q.download(r.host, p.host+8*key.first, p.at.Offset(8*key.first), 8*key.rows)
	}
}

// observed is where the parts of the observation lie on the device.
type observed struct{ s, c, tau, seed, weights, rates, behind, state, ctx, normal, input, slot, tau32, previous driver.Pointer }

func (r *refiner) place() observed {
	l, at := r.observationLayout(), r.space.observation.at
	return observed{
		at.Offset(l.s), at.Offset(l.c), at.Offset(l.tau), at.Offset(l.seed), at.Offset(l.weights), at.Offset(l.rates), at.Offset(l.behind), at.Offset(l.state), at.Offset(l.ctx),
		at.Offset(l.normal), at.Offset(l.input), at.Offset(l.slot), at.Offset(l.tau32), at.Offset(l.previous),
	}
}

// encode queues E_x over rows of inputs.
func (r *refiner) encode(q *queue, rows int, input, z driver.Pointer) {
	job := forwardJob{net: r.encoder.at, z: input, y: z, ldz: int32(r.width), ldy: int32(r.flow.latent)}
	q.forward(rows, r.encoder.width, &job)
}

// anchor encodes and localizes the observation and takes the priority at ŝ.
func (r *refiner) anchor(q *queue, o observed, preference *preferenceJob) {
	f, s, l := &r.flow, &r.space, r.resultLayout()
	r.encode(q, 1, o.input, s.observed.at)
	out := located{s.spot.at, s.nearest.at, s.residual.at, s.result.at.Offset(l.consistent)}
	if r.codes.count > 0 {
		of := query{rows: 1, z: s.observed.at, x: o.normal, tau: o.tau32}
		q.localize(r.codes, of, r.neighbours, &r.search, out)
	} else {
		q.copy(s.spot.at, s.observed.at, 4*f.latent)
		q.then(func() error { return q.t.Fill32Async(s.result.at.Offset(l.consistent/4*4), 0x01010101, 1, q.on) })
	}
	f.bases(q, 1, inputs{x: o.state, ctx: o.ctx}, r.buffers.base.at)
	f.decode(q, 1, s.spot.at, &r.buffers, true)
	q.copy(s.result.at.Offset(l.decoded), r.buffers.s.at, 4*f.states)
	job := steeringJob{state: r.buffers.s.at, plan: r.buffers.planOut.at, c: o.c, sigma: s.result.at.Offset(l.sigma), weights: s.sigma.at, rows: 1, ldplan: int32(f.plan)}
	f.code.priority(q, &job, preference, r.inverseRange)
}

type scatterJob struct {
	localized, observed, previous, codes, chosen, found, preferences, table, seed, scales, s, c, z, source, rollS, rollC driver.Pointer
	rows, n, around                                                                                                      int32
	stream                                                                                                               uint32
	ldcodes, states, contexts, scaleCount                                                                                int16
}

// scatter writes the start latents.
func (r *refiner) scatter(q *queue, key refineKey, o observed) {
	f, s := &r.flow, &r.space
	job := scatterJob{
		localized: s.spot.at, observed: s.observed.at, table: s.table.at, seed: o.seed, stream: backend.CandidateStream, scales: s.scales.at, s: o.s, c: o.c, z: s.z.at, source: s.source.at,
		rollS: s.s.at, rollC: s.c.at, rows: int32(key.candidates), n: int32(f.latent),
		states: int16(f.states), contexts: int16(f.contexts), scaleCount: int16(key.scales),
	}
	if key.previous {
		job.previous, job.around = o.previous, int32(key.around)
	}
	if key.neighbours > 0 && r.codes.count > 0 {
		c := r.codes
		k := min(2*key.neighbours, c.count)
		q.needs(func(*trace) work {
			return work{cycles: shortChain, bytes: 4 * float64(c.count) * float64(c.ld+c.lddecoded)}
		})
		q.launch("gpc_refine_distances", driver.Dim{X: ceil(c.count, 256)}, 256, 0, driver.Address(c.at), driver.Int32(c.ld), driver.Int32(c.n),
			driver.Address(c.decoded), driver.Int32(c.lddecoded), driver.Int32(c.states), driver.Int32(c.count), driver.Address(s.observed.at), driver.Address(o.normal),
			driver.Address(o.tau), driver.Address(s.distance.at), driver.Address(s.consistent.at))
		q.launch("gpc_refine_neighbours", driver.Dim{X: 1}, 1024, 32<<10, driver.Address(s.distance.at), driver.Address(s.consistent.at), driver.Int32(c.count),
			driver.Int32(k), driver.Int32(key.neighbours), driver.Address(s.list.at), driver.Address(s.chosen.at), driver.Address(s.found.at))
		job.codes, job.ldcodes, job.chosen, job.found = c.at, int16(c.ld), s.chosen.at, s.found.at
	}
	if key.sweep > 0 {
		q.launch("gpc_refine_inputs", driver.Dim{X: ceil(key.sweep, 128)}, 128, 0, driver.Int32(key.sweep), driver.Int32(r.width), driver.Int32(f.objectives),
			driver.Address(o.input), driver.Address(s.preferences.at), driver.Address(r.meanX), driver.Address(r.scaleX), driver.Address(s.sweepIn.at))
		r.encode(q, key.sweep, s.sweepIn.at, s.sweepOut.at)
		job.preferences = s.sweepOut.at
	}
	q.launch("gpc_refine_scatter", driver.Dim{X: ceil(key.candidates, 128)}, 128, 0, driver.Struct(&job), driver.Int32(key.sweep))
}

// drift flows the candidates together and decodes them.
func (r *refiner) drift(q *queue, key refineKey, o observed) {
	f, s, rows := &r.flow, &r.space, key.rows
	in := inputs{x: o.state, ctx: o.ctx, weights: s.sigma.at, masks: r.buffers.maskS.at}
	f.bases(q, rows, in, r.buffers.base.at)
	skip := 4 * key.first * f.latent
	from, to := s.z.at.Offset(skip), s.other.at.Offset(skip)
	for range key.flow {
		in.z = from
		f.step(q, rows, in, &r.buffers, to, func() { f.gradients(q, rows, in, &r.buffers) })
		from, to = to, from
	}
	f.decode(q, rows, from, &r.buffers, false)
}

// flown is where drift leaves the latents.
func (r *refiner) flown(key refineKey) driver.Pointer {
	if key.flow%2 == 1 {
		return r.space.other.at
	}
	return r.space.z.at
}

// evaluate rolls every plan out under the true dynamics.
func (r *refiner) evaluate(q *queue, key refineKey, preference *preferenceJob) {
	b, s, f := &r.buffers, &r.space, &r.flow
	space := s.plansSpace
	space.s.at, space.c.at, space.best.at = space.s.at.Offset(8*key.first*f.states), space.c.at.Offset(8*key.first*f.contexts), space.best.at.Offset(8*key.first*f.plan)
	if r.whole.name != "" {
		job := r.wholeJob(r.place().s, r.place().c, key.rows, key.look, key.project)
		job.plan, job.best, job.cost, job.margin = b.planOut.at, space.best.at, s.cost.at.Offset(8*key.first), s.margin.at.Offset(8*key.first)
		r.whole.run(q, &f.code, &job, preference)
		return
	}
	r.rollOut(q, &space, &plans{
		rows: key.rows, steps: key.look, first: b.planOut.at, next: b.planOut.at, base: b.base.at,
		cost: s.cost.at.Offset(8 * key.first), margin: s.margin.at.Offset(8 * key.first), project: key.project,
	}, r.policy, preference)
}

// choose selects the winner and brings the result back.
func (r *refiner) choose(q *queue, key refineKey) {
	s, l := &r.space, r.resultLayout()
	q.needs(func(*trace) work { return work{cycles: 4 * shortChain} }) // 255 sums one behind the other
	q.launch("gpc_refine_choose", driver.Dim{X: 1}, 256, 0, driver.Int32(key.candidates), driver.Int32(r.flow.plan), driver.Int32(r.flow.latent),
		driver.Int32(key.sources()), driver.Float64(r.spec.MarginTolerance), driver.Address(s.cost.at), driver.Address(s.margin.at), driver.Address(s.source.at),
		driver.Address(s.best.at), driver.Address(r.flown(key)), driver.Address(s.result.at), driver.Address(s.result.at.Offset(l.plan)), driver.Address(s.result.at.Offset(l.latent)))
	q.download(r.host, s.result.host, s.result.at, s.result.bytes)
}

// sources is how many of domain.Source the candidates may come from.
func (k refineKey) sources() int {
	if k.previous {
		return int(domain.SourcePrevious) + 1
	}
	return int(domain.SourcePrevious)
}

// result reads what choose brought back.
func (r *refiner) result(key refineKey) backend.RefineOutput {
	l, base := r.resultLayout(), r.space.result.host
	v := driver.HostSlice[float64](r.host, base, chosenValues)
	out := backend.RefineOutput{
		Index: int(v[0]), Source: domain.Source(v[1]), Feasible: v[2] != 0, Cost: v[3], Margin: v[4], FeasibleCount: int(v[5]), LocalizedCost: v[6], LocalizedMargin: v[7],
		U:          slices.Clone(driver.HostSlice[float64](r.host, base+l.plan, r.flow.plan)),
		Latent:     slices.Clone(driver.HostSlice[float32](r.host, base+l.latent, r.flow.latent)),
		Sigma:      slices.Clone(driver.HostSlice[float64](r.host, base+l.sigma, r.flow.objectives)),
		Decoded:    slices.Clone(driver.HostSlice[float32](r.host, base+l.decoded, r.flow.states)),
		Consistent: driver.HostSlice[uint8](r.host, base+l.consistent, 1)[0] != 0,
	}
	for i := range key.sources() {
		p := v[chosenSources+4*i:]
		out.Sources[i] = domain.SourceStatistics{Candidates: int(p[0]), Feasible: int(p[1]), BestCost: p[2], MeanCost: p[3]}
	}
	return out
}
