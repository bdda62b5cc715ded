package batchnav

import (
	"context"
	"fmt"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// MaxQuestions bounds the observations of one call of a Proposer, MaxCandidates the
// plans over all of them.
const (
	MaxQuestions  = 1 << 12
	MaxCandidates = 1 << 20
)

// Proposer implements domain.Proposer on one map and one backend, for many
// observations at once: the first part of propose, score, choose. E_x,
// localization, the decoded state and the search of neighbours are one call of
// the backend each over all observations; the latents of one observation flow
// together.
type Proposer struct {
	anchors
	draw     *draws
	nearest  []int32
	distance []float32
	// One row per candidate.
	z, other, plan tensor.Matrix
	source         []domain.Source
	sweepInput     tensor.Matrix // one row per swept preference
	sweepZ         tensor.Matrix
	w, normals     []float64 // scratch of one row
	scales         []float64
	// When the last call had localized, scattered and moved its latents.
	localized, scattered, flowed time.Time
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
	return newProposer(l, capacity)
}

func newProposer(l *loaded, capacity int) (*Proposer, error) {
	if err := l.makeStepper(capacity); err != nil { // larger batches it takes in parts
		return nil, err
	}
	r := &Proposer{
		anchors: newAnchors(l), draw: newDraws(), scales: l.noiseScales(),
		w: make([]float64, l.spec.ObjectiveSize()), normals: make([]float64, l.model.Latent()),
	}
	r.grow(1)
	r.growCandidates(capacity)
	return r, nil
}

// LatentSize implements domain.Proposer.
func (r *Proposer) LatentSize() int { return r.model.Latent() }

func (r *Proposer) growCandidates(n int) {
	if n <= r.z.Rows {
		return
	}
	nz := r.model.Latent()
	r.z, r.other, r.plan = tensor.New(n, nz), tensor.New(n, nz), tensor.New(n, r.spec.PlanSize())
	r.source = make([]domain.Source, n)
}

// Mixture holds the shares of candidates by source.
type Mixture = domain.Mixture

// checkOptions says what is wrong with flow steps and shares.
func checkOptions(o domain.ProposeOptions) error {
	if o.FlowSteps < 0 || o.FlowSteps > MaxFlowSteps {
		return fmt.Errorf("%d flow steps, want 0 to %d", o.FlowSteps, MaxFlowSteps)
	}
	if m := o.Mixture; !(m.Neighbours >= 0 && m.Preference >= 0 && m.Previous >= 0 && m.Neighbours+m.Preference+m.Previous <= 1) {
		return fmt.Errorf("shares %g of neighbours, %g of preferences and %g around the previous latent, want them ≥ 0 with a sum ≤ 1", m.Neighbours, m.Preference, m.Previous)
	}
	return nil
}

// check says what is wrong with a question, to be read after its name.
func (l *loaded) check(q *domain.Question) error {
	if err := l.spec.CheckObservation(q.S, q.C, q.Preference); err != nil {
		return err
	}
	if q.Previous != nil && (len(q.Previous) != l.model.Latent() || !tensor.Finite(q.Previous)) {
		return fmt.Errorf("has a previous latent of %d entries, want %d that are finite", len(q.Previous), l.model.Latent())
	}
	return nil
}

// checkAll says what is wrong with a request, and how many candidates it has.
func (r *Proposer) checkAll(opt domain.ProposeOptions, questions []domain.Question, answers []domain.Answer) (total int, err error) {
	if len(questions) != len(answers) || len(questions) > MaxQuestions {
		return 0, fmt.Errorf("propose: %d questions and %d answers, want equal numbers, at most %d", len(questions), len(answers), MaxQuestions)
	}
	if err := checkOptions(opt); err != nil {
		return 0, fmt.Errorf("propose: %w", err)
	}
	for i := range questions {
		q := &questions[i]
		if err := r.check(q); err != nil {
			return 0, fmt.Errorf("propose: question %d %w", i, err)
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
	total, err := r.checkAll(opt, questions, answers)
	if err != nil || len(questions) == 0 {
		return err
	}
	r.growCandidates(total)
	if err := r.anchor(questions, answers); err != nil {
		return err
	}
	r.localized = time.Now()
	if err := r.sampleStarts(opt.Mixture, questions); err != nil {
		return err
	}
	r.scattered = time.Now()
	offset := 0
	for i := range questions {
		a, n := &answers[i], questions[i].Count
		z, plan := r.z.Slice(offset, offset+n), r.plan.Slice(offset, offset+n)
		a.Plans, a.Sources, a.Latents = plan, r.source[offset:offset+n], z
		if n > 0 {
			if a.Latents, err = r.flow(opt.Context, i, z, r.other.Slice(offset, offset+n), opt.FlowSteps, plan); err != nil {
				return err
			}
		}
		offset += n
	}
	r.flowed = time.Now()
	return nil
}

// anchor encodes and localizes all observations, and computes priority and
// residual of each.
func (r *Proposer) anchor(questions []domain.Question, answers []domain.Answer) error {
	if err := r.localize(questions); err != nil {
		return err
	}
	if err := r.steer(questions); err != nil {
		return err
	}
	for i := range questions {
		a := &answers[i]
		a.Sigma, a.Consistent, a.Limit = r.sigma[i], r.consistent[i], r.limit(0)
		a.Residual = r.residual(r.normal.Row(i), r.estimate.Row(i))
	}
	return nil
}

// sampleStarts writes the start latents of every question and their sources. The
// neighbours and the swept preferences of all questions are one call each.
func (r *Proposer) sampleStarts(mix Mixture, questions []domain.Question) error {
	mostNeighbours, swept := 0, 0
	for i := range questions {
		neighbours, preferences, _ := shares(&questions[i], mix)
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
	if err := r.sweep(mix, questions, swept); err != nil {
		return err
	}
	offset, sweepRow := 0, 0
	for i := range questions {
		q := &questions[i]
		z, source := r.z.Slice(offset, offset+q.Count), r.source[offset:offset+q.Count]
		neighbours, preferences, previous := shares(q, mix)
		n := 0
		add := func(latent []float32, s domain.Source) {
			if n < q.Count {
				copy(z.Row(n), latent)
				source[n] = s
				n++
			}
		}
		scatter := func(latent []float32, count int, s domain.Source) {
			for j := range count {
				perturb(latent, r.scales[j%len(r.scales)], q.Seed, n, r.normals, z.Row(n))
				source[n] = s
				n++
			}
		}
		add(r.observed.Row(i), domain.SourceLocalized)
		add(r.spot.Row(i), domain.SourceLocalized)
		if q.Previous != nil {
			add(q.Previous, domain.SourcePrevious)
		}
		scatter(q.Previous, previous, domain.SourcePrevious)
		if k > 0 {
			most := n + neighbours
			for _, code := range r.nearest[i*k : i*k+min(k, 2*neighbours)] {
				if n < most && code >= 0 && tensor.SquaredDistance(r.normal.Row(i), r.decoded.Row(int(code))) <= float64(r.tau[i]) {
					add(r.model.Codes.Row(int(code)), domain.SourceNeighbour)
				}
			}
		}
		for range preferences {
			add(r.sweepZ.Row(sweepRow), domain.SourcePreference)
			sweepRow++
		}
		scatter(r.spot.Row(i), q.Count-n, domain.SourceNoise)
		offset += q.Count
	}
	return nil
}

// sweep encodes every observation under its preferences over the simplex, all in
// one call, into sweepZ.
func (r *Proposer) sweep(mix Mixture, questions []domain.Question, rows int) error {
	if rows == 0 {
		return nil
	}
	if rows > r.sweepInput.Rows {
		r.sweepInput, r.sweepZ = tensor.New(rows, r.spec.ObservationSize()), tensor.New(rows, r.model.Latent())
	}
	number, plain := 0, r.spec.ObservationSize()-r.spec.PreferenceSize()
	for i := range questions {
		_, preferences, _ := shares(&questions[i], mix)
		for j := range preferences {
			// The observation itself is normalised already; only the slot differs.
			row := r.sweepInput.Row(number)
			copy(row, r.input.Row(i))
			r.draw.preference(questions[i].Seed, j, preferences, r.w)
			domain.Preference{W: r.w}.Slot(r.slot, r.model.Calibration.PreferenceFloor)
			for p, v := range r.slot {
				row[plain+p] = (float32(v) - r.model.NormX.Mean[plain+p]) / r.model.NormX.Scale[plain+p]
			}
			number++
		}
	}
	return r.encoder.Forward(r.sweepInput.Slice(0, rows), r.sweepZ.Slice(0, rows))
}

// flow moves the latents z of question i by steps latent steps, all under its weights, and leaves the decoded plans in
// plan. other has the size of z. It returns the one of the two that holds the final latents.
func (r *Proposer) flow(ctx context.Context, i int, z, other tensor.Matrix, steps int, plan tensor.Matrix) (tensor.Matrix, error) {
	n := z.Rows
	in := backend.StepInput{X: tensor.Broadcast(r.state.Row(i), n), Ctx: tensor.Broadcast(r.ctx.Row(i), n), Weights: tensor.Broadcast(r.weight.Row(i), n)}
	if steps == 0 {
		return z, r.stepper.Decode(z, in.Ctx, in.X, plan, tensor.Matrix{})
	}
	for step := range steps {
		if ctx != nil && ctx.Err() != nil {
			return z, ctx.Err()
		}
		in.Z = z
		out := backend.StepOutput{Z: other}
		if step == steps-1 {
			out.U = plan
		}
		if err := r.stepper.Step(in, out); err != nil {
			return z, fmt.Errorf("flow step %d of %d: %w", step+1, steps, err)
		}
		z, other = other, z
	}
	return z, nil
}
