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
func (r *refiner) Refine(input backend.RefineInput) (backend.RefineOutput, error) {
	if err := r.check(input); err != nil {
		return backend.RefineOutput{}, err
	}
	var out backend.RefineOutput
	err := r.backend.execute(func(t *driver.Thread) error {
		if err := r.grow(t, padded(input.Candidates)); err != nil {
			return err
		}
		r.sweep(input)
		counted := r.stage(input)
		key := refineKey{
			candidates: input.Candidates, perturbed: input.Around, neighbours: input.Neighbours, sweep: input.Sweep, flow: input.FlowSteps, look: input.LookAhead, scales: len(input.NoiseScales),
			previous: input.Previous != nil, project: !input.NoProjection, adaptive: input.Preference.Adaptive, counted: counted, terminal: input.TerminalCost != nil,
		}
		if err := r.graphs.run(t, r.backend, key, func(q *queue) { r.queue(q, key) }); err != nil {
			return err
		}
		out = r.result(key)
		return nil
	})
	if driver.IsShort(err) {
		err = errors.Join(backend.ErrNoRefiner, err)
	}
	return out, err
}

func (r *refiner) check(input backend.RefineInput) error {
	spec, reserved := r.spec, 2
	if input.Previous != nil {
		reserved = 3
	}
	switch {
	case len(input.S) != spec.MeasuredSize() || len(input.C) != spec.ContextSize():
		return fmt.Errorf("refiner: the observation has %d measured values and %d of context, want %d and %d", len(input.S), len(input.C), spec.MeasuredSize(), spec.ContextSize())
	case input.Previous != nil && len(input.Previous) != r.flow.latent:
		return fmt.Errorf("refiner: a previous latent of %d entries, want %d", len(input.Previous), r.flow.latent)
	case input.Previous == nil && input.Around != 0:
		return fmt.Errorf("refiner: %d candidates around a previous latent, and there is none", input.Around)
	case input.Candidates < 1 || min(input.Around, input.Neighbours, input.Sweep) < 0 || input.Around+input.Neighbours+input.Sweep > max(0, input.Candidates-reserved):
		return fmt.Errorf("refiner: %d candidates with %d around the previous latent, %d neighbours and %d preferences, want room for all beside %d", input.Candidates, input.Around, input.Neighbours, input.Sweep, reserved)
	case input.FlowSteps < 0 || input.LookAhead < 1:
		return fmt.Errorf("refiner: %d flow steps and a look-ahead of %d, want at least 0 and 1", input.FlowSteps, input.LookAhead)
	case spec.Plan > 1 && input.LookAhead > spec.Plan:
		return fmt.Errorf("refiner: a look-ahead of %d over a plan of %d", input.LookAhead, spec.Plan)
	case len(input.NoiseScales) < 1 || len(input.NoiseScales) > maxNoiseScales:
		return fmt.Errorf("refiner: %d noise scales, want 1 to %d", len(input.NoiseScales), maxNoiseScales)
	}
	return cmp.Or(input.CheckTerminalCost(r.problem), input.Preference.Validate(spec.ObjectiveSize()))
}

// sweep writes the preferences into pinned memory where they are not those of the call before.
func (r *refiner) sweep(input backend.RefineInput) {
	key := tableKey{input.Seed, input.Candidates, input.Sweep}
	if key == r.tables {
		return
	}
	m := r.flow.objectives
	preferences := driver.HostSlice[float32](r.host, r.space.preferences.host, input.Sweep*m)
	w, slot := make([]float64, m), make([]float64, 1+m)
	for i := range input.Sweep {
		input.Preferences(i, w)
		domain.Preference{W: w}.Slot(slot, r.floor)
		tensor.Narrow(preferences[i*m:(i+1)*m], slot[1:])
	}
	r.tables = key
}

// stage writes the observation into pinned memory, as kernels and E_x read it, and
// reports whether actions are counted with weights of ProblemAbilities.Weights.
func (r *refiner) stage(refinement backend.RefineInput) (counted bool) {
	l, base, f := r.observationLayout(), r.space.observation.host, &r.flow
	doubles := func(offset, n int) []float64 { return driver.HostSlice[float64](r.host, base+offset, n) }
	singles := func(offset, n int) []float32 { return driver.HostSlice[float32](r.host, base+offset, n) }
	copy(doubles(l.s, f.states), refinement.S)
	copy(doubles(l.c, f.contexts), refinement.C)
	doubles(l.tau, 1)[0] = float64(refinement.Tau)
	driver.HostSlice[uint64](r.host, base+l.seed, 1)[0] = refinement.Seed
	clear(doubles(l.weights, f.objectives))
	clear(doubles(l.rates, f.objectives))
	if refinement.TerminalCost != nil {
		refinement.TerminalCost.Pack(doubles(l.terminal, r.terminalNumbers))
	}
	if !refinement.Preference.Adaptive {
		copy(doubles(l.weights, f.objectives), refinement.Preference.W)
	}
	state, ctx, input := singles(l.state, f.states), singles(l.ctx, f.contexts), singles(l.input, r.width)
	tensor.Narrow(state, refinement.S)
	tensor.Narrow(ctx, refinement.C)
	r.normS.Apply(singles(l.normal, f.states), state)
	slot := make([]float64, 1+f.objectives)
	refinement.Preference.Slot(slot, r.floor)
	tensor.Narrow(singles(l.slot, len(slot)), slot)
	copy(input, state)
	copy(input[f.states:], ctx)
	tensor.Narrow(input[f.states+f.contexts:], slot)
	r.norm.Apply(input, input)
	singles(l.tau32, 1)[0] = refinement.Tau
	copy(singles(l.previous, f.latent), refinement.Previous)
	copy(driver.HostSlice[float64](r.host, r.space.scales.host, len(refinement.NoiseScales)), refinement.NoiseScales)
	return r.abilities.Weights(refinement.Preference, doubles(l.rates, f.objectives))
}

// queue puts a whole refinement on the stream.
func (r *refiner) queue(q *queue, key refineKey) {
	s := &r.space
	q.upload(s.observation.device, r.host, s.observation.host, s.observation.bytes)
	q.upload(s.scales.device, r.host, s.scales.host, 8*key.scales)
	if key.sweep > 0 {
		q.upload(s.preferences.device, r.host, s.preferences.host, 4*key.sweep*r.flow.objectives)
	}
	o := r.place()
	preference := preferenceJob{weights: o.weights, slot: o.slot, semantic: r.semantic, mean: r.meanX, scale: r.scaleX, adaptive: flag(key.adaptive)}
	r.anchor(q, o, &preference)
	r.scatter(q, key, o)
	q.tile = r.backend.tileOf(key.candidates)
	r.drift(q, key, o)
	preference.weights, preference.adaptive = o.rates, 1 // what an action is counted with
	if key.counted {
		preference.adaptive = 0
	}
	if key.terminal {
		preference.behind = o.terminal
	}
	r.evaluate(q, key, &preference)
	r.choose(q, key)
}

// observed is where the parts of the observation lie on the device.
type observed struct{ s, c, tau, seed, weights, rates, terminal, state, ctx, normal, input, slot, tau32, previous driver.Pointer }

func (r *refiner) place() observed {
	l, base := r.observationLayout(), r.space.observation.device
	return observed{
		base.Offset(l.s), base.Offset(l.c), base.Offset(l.tau), base.Offset(l.seed), base.Offset(l.weights), base.Offset(l.rates), base.Offset(l.terminal), base.Offset(l.state), base.Offset(l.ctx),
		base.Offset(l.normal), base.Offset(l.input), base.Offset(l.slot), base.Offset(l.tau32), base.Offset(l.previous),
	}
}

// encode queues E_x over rows of inputs.
func (r *refiner) encode(q *queue, rows int, input, z driver.Pointer) {
	job := forwardJob{net: r.encoder.device, z: input, y: z, ldz: int32(r.width), ldy: int32(r.flow.latent)}
	q.forward(rows, r.encoder.width, &job)
}

// anchor encodes and localizes the observation and takes the priority at ŝ.
func (r *refiner) anchor(q *queue, o observed, preference *preferenceJob) {
	f, s, l := &r.flow, &r.space, r.resultLayout()
	r.encode(q, 1, o.input, s.observed.device)
	out := located{s.spot.device, s.nearest.device, s.residual.device, s.result.device.Offset(l.consistent)}
	if r.codes.count > 0 {
		queries := query{rows: 1, z: s.observed.device, x: o.normal, tau: o.tau32}
		q.localize(r.codes, queries, r.neighbours, &r.search, out)
	} else {
		q.copy(s.spot.device, s.observed.device, 4*f.latent)
		q.enqueue(func() error {
			return q.t.Fill32Async(s.result.device.Offset(l.consistent/4*4), 0x01010101, 1, q.stream)
		})
	}
	f.bases(q, 1, inputs{x: o.state, ctx: o.ctx}, r.buffers.base.device)
	f.decode(q, 1, s.spot.device, &r.buffers, true)
	q.copy(s.result.device.Offset(l.decoded), r.buffers.s.device, 4*f.states)
	job := steeringJob{state: r.buffers.s.device, plan: r.buffers.planOut.device, c: o.c, sigma: s.result.device.Offset(l.sigma), weights: s.sigma.device, rows: 1, ldplan: int32(f.plan)}
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
		localized: s.spot.device, observed: s.observed.device, table: s.table.device, seed: o.seed, stream: backend.CandidateStream, scales: s.scales.device, s: o.s, c: o.c, z: s.z.device, source: s.source.device,
		rollS: s.s.device, rollC: s.c.device, rows: int32(key.candidates), n: int32(f.latent),
		states: int16(f.states), contexts: int16(f.contexts), scaleCount: int16(key.scales),
	}
	if key.previous {
		job.previous, job.around = o.previous, int32(key.perturbed)
	}
	if key.neighbours > 0 && r.codes.count > 0 {
		c := r.codes
		k := min(2*key.neighbours, c.count)
		q.needs(func(*trace) work {
			return work{cycles: shortChain, bytes: 4 * float64(c.count) * float64(c.ld+c.lddecoded)}
		})
		q.launch("gpc_refine_distances", driver.Dim{X: ceil(c.count, 256)}, 256, 0, driver.Address(c.values), driver.Int32(c.ld), driver.Int32(c.n),
			driver.Address(c.decoded), driver.Int32(c.lddecoded), driver.Int32(c.states), driver.Int32(c.count), driver.Address(s.observed.device), driver.Address(o.normal),
			driver.Address(o.tau), driver.Address(s.distance.device), driver.Address(s.consistent.device))
		q.neighbours(s, c.count, k, key.neighbours)
		job.codes, job.ldcodes = c.values, int16(c.ld)
		job.chosen, job.found = s.selected.device, s.selectedCount.device
	}
	if key.sweep > 0 {
		q.launch("gpc_refine_inputs", driver.Dim{X: ceil(key.sweep, 128)}, 128, 0, driver.Int32(key.sweep), driver.Int32(r.width), driver.Int32(f.objectives),
			driver.Address(o.input), driver.Address(s.preferences.device), driver.Address(r.meanX), driver.Address(r.scaleX), driver.Address(s.sweepIn.device))
		r.encode(q, key.sweep, s.sweepIn.device, s.sweepOut.device)
		job.preferences = s.sweepOut.device
	}
	q.launch("gpc_refine_scatter", driver.Dim{X: ceil(key.candidates, 128)}, 128, 0, driver.Struct(&job), driver.Int32(key.sweep))
}

// neighbours queues the choice of at most want consistent codes among the k nearest of count, whose distances are known.
func (q *queue) neighbours(s *refineSpace, count, k, want int) {
	list, length := driver.Address(s.list.device), driver.Address(s.listLength.device)
	codes, number := driver.Address(s.selected.device), driver.Address(s.selectedCount.device)
	q.launch("gpc_refine_collect", driver.Dim{X: 1}, 1024, 16<<10, driver.Address(s.distance.device), driver.Int32(count), driver.Int32(k), list, length, number)
	q.launch("gpc_refine_neighbours", driver.Dim{X: ceil(k, 8)}, 256, 0, driver.Address(s.distance.device), driver.Address(s.consistent.device), driver.Int32(k), driver.Int32(want), list, length, codes, number)
}

// drift flows the candidates together and decodes them.
func (r *refiner) drift(q *queue, key refineKey, o observed) {
	f, s, rows := &r.flow, &r.space, key.candidates
	input := inputs{x: o.state, ctx: o.ctx, weights: s.sigma.device, masks: r.buffers.maskS.device}
	f.bases(q, rows, input, r.buffers.base.device)
	from, to := s.z.device, s.other.device
	for range key.flow {
		input.z = from
		f.step(q, rows, input, &r.buffers, to, func() { f.gradients(q, rows, input, &r.buffers) })
		from, to = to, from
	}
	f.decode(q, rows, from, &r.buffers, false)
}

// flown is where drift leaves the latents.
func (r *refiner) flown(key refineKey) driver.Pointer {
	if key.flow%2 == 1 {
		return r.space.other.device
	}
	return r.space.z.device
}

// evaluate rolls every plan out under the true dynamics.
func (r *refiner) evaluate(q *queue, key refineKey, preference *preferenceJob) {
	b, s, f := &r.buffers, &r.space, &r.flow
	if r.whole.name != "" {
		job := r.wholeJob(r.place().s, r.place().c, key.candidates, key.look, key.project)
		job.plan, job.best = b.planOut.device, s.best.device
		job.cost, job.margin = s.cost.device, s.margin.device
		r.whole.run(q, &f.code, &job, preference)
		return
	}
	r.rollOut(q, &s.plansSpace, &plans{
		rows: key.candidates, steps: key.look, first: b.planOut.device, next: b.planOut.device, base: b.base.device,
		cost: s.cost.device, margin: s.margin.device, project: key.project,
	}, r.policy, preference)
}

// choose selects the winner and brings the result back.
func (r *refiner) choose(q *queue, key refineKey) {
	s, l := &r.space, r.resultLayout()
	q.needs(func(*trace) work { return work{cycles: 4 * shortChain} }) // 255 sums one behind the other
	q.launch("gpc_refine_choose", driver.Dim{X: 1}, 256, 0, driver.Int32(key.candidates), driver.Int32(r.flow.plan), driver.Int32(r.flow.latent),
		driver.Int32(key.sources()), driver.Float64(r.spec.MarginTolerance), driver.Address(s.cost.device), driver.Address(s.margin.device), driver.Address(s.source.device),
		driver.Address(s.best.device), driver.Address(r.flown(key)), driver.Address(s.result.device), driver.Address(s.result.device.Offset(l.plan)), driver.Address(s.result.device.Offset(l.latent)))
	q.download(r.host, s.result.host, s.result.device, s.result.bytes)
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
