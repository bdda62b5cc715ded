package batchnav

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// MaxQuestions bounds the observations of one call of a Proposer.
const MaxQuestions = 1 << 12

// Proposer implements domain.Proposer on one map and one backend: the parts of a
// refinement up to the decoded plans, for many observations at once. E_x,
// localization, the decoded state and the search of neighbours are one call of
// the backend each over all observations; the latents of one observation flow
// together.
type Proposer struct {
	*loaded
	draw *draws
	// One row per question.
	input, normal, state, ctx tensor.Matrix // E_x's; x̂; s; c
	observed, spot            tensor.Matrix // E_x; localized
	decoded, first            tensor.Matrix // D_s and the whole plan at spot
	weight                    tensor.Matrix
	sigma                     [][]float64
	tau                       []float32
	consistentRow             []bool
	nearest                   []int32
	distance                  []float32
	// One row per candidate.
	z, other, plan tensor.Matrix
	source         []Source
	sweepInput     tensor.Matrix // one row per swept preference
	sweepZ         tensor.Matrix
	// Scratch of one row.
	slot, delta, shat, u, w, normals []float64
	scales                           []float64
}

var _ domain.Proposer = (*Proposer)(nil)

// NewProposer prepares proposals with room for capacity candidates over all
// questions of one call; more can be asked for and are given a larger workspace.
func NewProposer(b backend.Backend, m *model.Model, p domain.Problem, opt Options, capacity int) (*Proposer, error) {
	if capacity < 1 || capacity > MaxCandidates {
		return nil, fmt.Errorf("propose: a workspace for %d candidates, want 1 to %d", capacity, MaxCandidates)
	}
	l, err := load(b, m, p, &opt)
	if err != nil {
		return nil, err
	}
	if err := l.makeStepper(capacity); err != nil {
		return nil, err
	}
	spec := l.spec
	r := &Proposer{
		loaded: l, draw: newDraws(),
		slot: make([]float64, spec.PreferenceSize()), delta: make([]float64, spec.ObjectiveSize()), shat: make([]float64, spec.MeasuredSize()),
		u: make([]float64, spec.ActionSize()), w: make([]float64, spec.ObjectiveSize()), normals: make([]float64, m.Latent()),
	}
	r.scales = r.noiseScales()
	r.growQuestions(1)
	r.growCandidates(capacity)
	return r, nil
}

// LatentSize implements domain.Proposer.
func (r *Proposer) LatentSize() int { return r.model.Latent() }

// Constants returns the navigation constants in force.
func (r *Proposer) Constants() domain.Navigation { return r.nav }

func (r *Proposer) growQuestions(n int) {
	if n <= r.input.Rows {
		return
	}
	spec, nz := r.spec, r.model.Latent()
	r.input = tensor.New(n, spec.ObservationSize())
	r.normal, r.state, r.ctx = tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.ContextSize())
	r.observed, r.spot = tensor.New(n, nz), tensor.New(n, nz)
	r.decoded, r.first = tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.PlanSize())
	r.weight = tensor.New(n, spec.ObjectiveSize())
	r.tau, r.consistentRow = make([]float32, n), make([]bool, n)
	r.sigma = make([][]float64, n)
	for i := range r.sigma {
		r.sigma[i] = make([]float64, spec.ObjectiveSize())
	}
}

func (r *Proposer) growCandidates(n int) {
	if n <= r.z.Rows {
		return
	}
	nz := r.model.Latent()
	r.z, r.other, r.plan = tensor.New(n, nz), tensor.New(n, nz), tensor.New(n, r.spec.PlanSize())
	r.source = make([]Source, n)
}

// check says what is wrong with a request, and how many candidates it has.
func (r *Proposer) check(opt *domain.ProposeOptions, questions []domain.Question, answers []domain.Answer) (total int, err error) {
	if len(questions) != len(answers) || len(questions) > MaxQuestions {
		return 0, fmt.Errorf("propose: %d questions and %d answers, want as many of both and at most %d", len(questions), len(answers), MaxQuestions)
	}
	if opt.FlowSteps < 0 {
		return 0, fmt.Errorf("propose: %d flow steps, want none negative", opt.FlowSteps)
	}
	if err := checkMixture(opt.Mixture); err != nil {
		return 0, fmt.Errorf("propose: %w", err)
	}
	spec := r.spec
	for i := range questions {
		q := &questions[i]
		if len(q.S) != spec.MeasuredSize() || len(q.C) != spec.ContextSize() {
			return 0, fmt.Errorf("propose: question %d has %d measured values and %d of context, case %q has %d and %d",
				i, len(q.S), len(q.C), spec.Name, spec.MeasuredSize(), spec.ContextSize())
		}
		if !tensor.Finite(q.S) || !tensor.Finite(q.C) {
			return 0, fmt.Errorf("propose: question %d has an entry that is not finite: s %v, c %v", i, q.S, q.C)
		}
		if q.Previous != nil && (len(q.Previous) != r.model.Latent() || !tensor.Finite(q.Previous)) {
			return 0, fmt.Errorf("propose: question %d has a previous latent of %d entries, want %d that are finite", i, len(q.Previous), r.model.Latent())
		}
		if err := q.Preference.Validate(spec.ObjectiveSize()); err != nil {
			return 0, fmt.Errorf("propose: question %d: %w", i, err)
		}
		if q.Count < 0 || q.Count > MaxCandidates-total {
			return 0, fmt.Errorf("propose: question %d wants %d plans, want 0 or more and at most %d over all questions", i, q.Count, MaxCandidates)
		}
		total += q.Count
	}
	return total, nil
}

// Propose implements domain.Proposer.
func (r *Proposer) Propose(opt domain.ProposeOptions, questions []domain.Question, answers []domain.Answer) error {
	total, err := r.check(&opt, questions, answers)
	if err != nil || len(questions) == 0 {
		return err
	}
	r.growQuestions(len(questions))
	r.growCandidates(total)
	if err := r.anchor(questions, answers); err != nil {
		return err
	}
	if err := r.scatter(&opt, questions, answers); err != nil {
		return err
	}
	at := 0
	for i := range questions {
		a, n := &answers[i], questions[i].Count
		z, plan := r.z.Slice(at, at+n), r.plan.Slice(at, at+n)
		a.Plans, a.Sources, a.Latents = plan, r.source[at:at+n], z
		if n > 0 {
			if a.Latents, err = r.flow(z, r.other.Slice(at, at+n), opt.FlowSteps, r.state.Row(i), r.ctx.Row(i), r.weight.Row(i), plan); err != nil {
				return err
			}
		}
		at += n
	}
	return nil
}

// anchor encodes and localizes all observations, and computes priority and
// residual of each.
func (r *Proposer) anchor(questions []domain.Question, answers []domain.Answer) error {
	n := len(questions)
	for i := range questions {
		q := &questions[i]
		r.observe(q.S, q.C, q.Preference, r.slot, r.input.Row(i), r.state.Row(i), r.ctx.Row(i), r.normal.Row(i))
		r.tau[i], r.consistentRow[i] = float32(r.threshold(0)), true
	}
	observed, spot := r.observed.Slice(0, n), r.spot.Slice(0, n)
	if err := r.encoder.Forward(r.input.Slice(0, n), observed); err != nil {
		return err
	}
	if r.index == nil {
		if err := spot.CopyFrom(observed); err != nil {
			return err
		}
	} else if err := r.index.Localize(r.normal.Slice(0, n), observed, r.tau[:n], r.nav.Neighbours, backend.LocalizeOutput{Z: spot, Consistent: r.consistentRow[:n]}); err != nil {
		return err
	}
	if err := r.stepper.Decode(spot, r.ctx.Slice(0, n), r.state.Slice(0, n), r.first.Slice(0, n), r.decoded.Slice(0, n)); err != nil {
		return err
	}
	for i := range questions {
		a := &answers[i]
		decoded := r.decoded.Row(i)
		tensor.Widen(r.shat, decoded)
		tensor.Widen(r.u, r.first.Row(i)[:len(r.u)])
		r.steer(&questions[i], r.sigma[i])
		r.weights(r.sigma[i], r.weight.Row(i))
		r.model.NormS.Apply(decoded, decoded)
		a.Sigma, a.Consistent, a.Threshold = r.sigma[i], r.consistentRow[i], r.threshold(0)
		a.Residual = tensor.SquaredDistance(r.normal.Row(i), decoded)
	}
	return nil
}

// steer writes the priority at the decoded state; even weights where the
// indicators are not finite.
func (r *Proposer) steer(q *domain.Question, sigma []float64) {
	r.priority(q.Preference, r.shat, r.u, q.C, r.delta, sigma)
	if !tensor.Finite(sigma) {
		for i := range sigma {
			sigma[i] = 1 / float64(len(sigma))
		}
	}
}

// scatter writes the start latents of every question and their sources. The
// neighbours and the swept preferences of all questions are one call each.
func (r *Proposer) scatter(opt *domain.ProposeOptions, questions []domain.Question, answers []domain.Answer) error {
	mostNeighbours, swept := 0, 0
	for i := range questions {
		neighbours, preferences, _ := shares(&questions[i], opt.Mixture)
		mostNeighbours = max(mostNeighbours, neighbours)
		swept += preferences
	}
	k := 0
	if r.index != nil && mostNeighbours > 0 {
		k = min(2*mostNeighbours, r.index.Len())
		if want := k * len(questions); cap(r.nearest) < want {
			r.nearest, r.distance = make([]int32, want), make([]float32, want)
		}
		r.nearest, r.distance = r.nearest[:k*len(questions)], r.distance[:k*len(questions)]
		if err := r.index.Nearest(r.observed.Slice(0, len(questions)), k, r.nearest, r.distance); err != nil {
			return err
		}
	}
	if err := r.sweep(opt, questions, swept); err != nil {
		return err
	}
	at, sweepAt := 0, 0
	for i := range questions {
		q := &questions[i]
		z, source := r.z.Slice(at, at+q.Count), r.source[at:at+q.Count]
		neighbours, preferences, previous := shares(q, opt.Mixture)
		n := 0
		put := func(latent []float32, s Source) {
			if n < q.Count {
				copy(z.Row(n), latent)
				source[n] = s
				n++
			}
		}
		put(r.observed.Row(i), SourceLocalized)
		put(r.spot.Row(i), SourceLocalized)
		if q.Previous != nil {
			put(q.Previous, SourcePrevious)
		}
		for j := range previous {
			r.draw.around(q.Previous, r.scales[j%len(r.scales)], q.Seed, n, r.normals, z.Row(n))
			source[n] = SourcePrevious
			n++
		}
		if k > 0 {
			codes := r.nearest[i*k : i*k+min(k, 2*neighbours)]
			for range r.admitted(codes, r.normal.Row(i), float64(r.tau[i]), neighbours, z.Slice(n, n+neighbours)) {
				source[n] = SourceNeighbour
				n++
			}
		}
		for range preferences {
			put(r.sweepZ.Row(sweepAt), SourcePreference)
			sweepAt++
		}
		for j := 0; n < q.Count; j++ {
			r.draw.around(r.spot.Row(i), r.scales[j%len(r.scales)], q.Seed, n, r.normals, z.Row(n))
			source[n] = SourceNoise
			n++
		}
		at += q.Count
	}
	return nil
}

// sweep encodes every observation under its preferences over the simplex, all in
// one call, into sweepZ.
func (r *Proposer) sweep(opt *domain.ProposeOptions, questions []domain.Question, rows int) error {
	if rows == 0 {
		return nil
	}
	if rows > r.sweepInput.Rows {
		r.sweepInput, r.sweepZ = tensor.New(rows, r.spec.ObservationSize()), tensor.New(rows, r.model.Latent())
	}
	at, plain := 0, r.spec.ObservationSize()-r.spec.PreferenceSize()
	for i := range questions {
		_, preferences, _ := shares(&questions[i], opt.Mixture)
		for j := range preferences {
			// The observation itself is normalised already; only the slot differs.
			row := r.sweepInput.Row(at)
			copy(row, r.input.Row(i))
			r.draw.preference(questions[i].Seed, j, preferences, r.w)
			domain.Preference{W: r.w}.Slot(r.slot)
			for p, v := range r.slot {
				row[plain+p] = (float32(v) - r.model.NormX.Mean[plain+p]) / r.model.NormX.Scale[plain+p]
			}
			at++
		}
	}
	return r.encoder.Forward(r.sweepInput.Slice(0, rows), r.sweepZ.Slice(0, rows))
}

// shares splits a question's plans beyond the first ones that stand alone.
func shares(q *domain.Question, mix Mixture) (neighbours, preferences, previous int) {
	alone := 2
	if q.Previous != nil {
		alone = 3
	}
	rest := max(0, q.Count-alone)
	part := func(share float64) int { return min(int(math.Floor(share*float64(rest)+shareRounding)), rest) }
	neighbours = part(mix.Neighbours)
	preferences = min(part(mix.Preference), rest-neighbours)
	if q.Previous != nil {
		previous = min(part(mix.Previous), rest-neighbours-preferences)
	}
	return neighbours, preferences, previous
}

// shareRounding keeps a share that is a whole number of plans whole.
const shareRounding = 1e-9
