package backendtest

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

// Deviation is how far one operation's float32 results are from float64
// arithmetic on the same float32 inputs.
type Deviation struct {
	Operation string
	Size      string // widths of the networks, or counts
	Rows      int    // rows compared
	// Absolute is the largest |got − want| of all entries, Relative the largest
	// over rows of the row's largest |got − want| over its largest |want|. NaN
	// where a result is not a number.
	Absolute, Relative float64
}

// Add takes one row of results in.
func (d *Deviation) Add(got, want []float64) {
	off, scale := 0.0, 0.0
	for i, w := range want {
		off, scale = math.Max(off, math.Abs(got[i]-w)), math.Max(scale, math.Abs(w))
	}
	d.Rows++
	d.Absolute = math.Max(d.Absolute, off)
	if off > 0 || math.IsNaN(off) {
		d.Relative = math.Max(d.Relative, off/scale)
	}
}

func (d *Deviation) add(got []float32, want []float64) { d.Add(row64(got), want) }

// Deviations measures a backend over batches of the given number of rows, at the
// sizes of Case 1 and of a large map. Rows that float32 does not determine are
// left out, as in the suite.
func Deviations(b backend.Backend, rows int) ([]Deviation, error) {
	var list []Deviation
	for _, measure := range []func(backend.Backend, stepShape) ([]Deviation, error){netDeviations, eigDeviations, stepDeviations, indexDeviations, trainerDeviations} {
		for _, s := range []stepShape{
			{16, 256, 4, 9, 2, 1, 3, rows},
			{32, 256, 60, 7, 12, 1, 3, rows},
		} {
			found, err := measure(b, s)
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
	}
	return list, nil
}

func netDeviations(b backend.Backend, s stepShape) ([]Deviation, error) {
	rng := newRand(1600)
	mlp := testdomain.Network(rng, 0.2, s.latent, s.hidden, s.hidden, s.measured)
	z, ybar := testdomain.Matrix(rng, s.batch, mlp.In()), testdomain.Matrix(rng, s.batch, mlp.Out())
	got, err := runNet(b, mlp, z, ybar)
	if err != nil {
		return nil, err
	}
	size := fmt.Sprintf("%d → %d → %d → %d", s.latent, s.hidden, s.hidden, s.measured)
	list := []Deviation{{Operation: "Forward", Size: size}, {Operation: "VJP", Size: size}, {Operation: "Jacobian", Size: size}, {Operation: "Metric", Size: size}}
	net, smooth := ref.Widen(mlp), smoothRows(z, mlp)
	for i := range z.Rows {
		x := row64(z.Row(i))
		list[0].add(got.y.Row(i), net.Forward(x))
		if smooth[i] {
			jac := net.Jacobian(x)
			list[1].add(got.zbar.Row(i), net.VJP(x, row64(ybar.Row(i))))
			list[2].add(got.jac.Row(i), jac)
			list[3].add(got.metric.Row(i), ref.PullbackMetric(jac, s.latent, testLambda))
		}
	}
	return list, nil
}

func eigDeviations(b backend.Backend, s stepShape) ([]Deviation, error) {
	n, k := s.latent, s.topK
	g := metrics(1601, s.batch, n)
	values, vectors, err := runEig(b, g, n, k)
	if err != nil {
		return nil, err
	}
	size := fmt.Sprintf("%d of %d × %d", k, n, n)
	list := []Deviation{{Operation: "EigTopK, values", Size: size}, {Operation: "EigTopK, vectors", Size: size}}
	for i := range g.Rows {
		full, basis := ref.EigTopK(row64(g.Row(i)), n, n)
		list[0].add(values.Row(i), full[:k])
		for j := range k {
			got, want := make([]float32, n), make([]float64, n)
			for l := range n {
				got[l], want[l] = vectors.Row(i)[l*k+j], basis[l*n+j]
			}
			if eigenGap(full, j) > gapMargin*full[0] && signLead(want) > signMargin {
				list[1].add(got, want)
			}
		}
	}
	return list, nil
}

func stepDeviations(b backend.Backend, s stepShape) ([]Deviation, error) {
	rng := newRand(1602)
	cfg, in := s.config(rng), s.input(rng, s.batch)
	size := fmt.Sprintf("n_z %d, hidden %d, n_s %d, plan %d, k %d", s.latent, s.hidden, s.measured, s.action*s.plan, s.topK)
	return StepDeviations(b, size, cfg, in)
}

// StepDeviations measures decoding, energy, field and step of one map and problem;
// size is what the results are called by.
func StepDeviations(b backend.Backend, size string, cfg backend.StepperConfig, in backend.StepInput) ([]Deviation, error) {
	got, err := runStep(b, cfg, in)
	if err != nil {
		return nil, err
	}
	list := []Deviation{
		{Operation: "Decode, state", Size: size}, {Operation: "Decode, plan", Size: size}, {Operation: "Energy", Size: size},
		{Operation: "Field", Size: size}, {Operation: "Step, latent", Size: size}, {Operation: "Step, action", Size: size},
	}
	e := ref.NewEnergy(cfg)
	field, step := wellPosed(cfg, in)
	for i := range in.Z.Rows {
		z, x, ctx, weights := row64(in.Z.Row(i)), row64(in.X.Row(i)), row64(in.Ctx.Row(i)), row64(in.Weights.Row(i))
		list[0].add(got.decodedS.Row(i), e.NormS.Invert(e.DecoderS.Forward(z)))
		list[1].add(got.decodedU.Row(i), e.DecodeAction(z, x, ctx))
		f, v := e.Field(z, x, ctx, weights)
		list[2].add(got.energy[i:i+1], []float64{v})
		if field[i] {
			list[3].add(got.f.Row(i), f)
		}
		if step[i] {
			next, _ := e.Step(z, x, ctx, weights, cfg.Params)
			list[4].add(got.z.Row(i), next)
			list[5].add(got.u.Row(i), e.DecodeAction(next, x, ctx))
		}
	}
	return list, nil
}

func indexDeviations(b backend.Backend, s stepShape) ([]Deviation, error) {
	const count, neighbours = 2000, 12
	set := newCodeSet(1603, count, s.latent, s.measured)
	x, z := set.queries(1604, s.batch)
	tau := make([]float32, s.batch)
	for i := range tau {
		tau[i] = threshold(set.residuals(x.Row(i)), 0.3)
	}
	index, err := b.NewIndex(set.codes, set.decoded)
	if err != nil {
		return nil, err
	}
	got, err := runLocalize(index, x, z, tau, neighbours)
	if err != nil {
		return nil, err
	}
	size := fmt.Sprintf("%d codes, n_z %d, n_s %d, %d neighbours", count, s.latent, s.measured, neighbours)
	list := []Deviation{{Operation: "Localize, residual", Size: size}, {Operation: "Localize, point", Size: size}}
	codes, decoded := make([][]float64, count), make([][]float64, count)
	for i := range count {
		codes[i], decoded[i] = row64(set.codes.Row(i)), row64(set.decoded.Row(i))
	}
	for i := range z.Rows {
		want := ref.Localize(codes, decoded, row64(x.Row(i)), row64(z.Row(i)), float64(tau[i]), neighbours)
		if int(got.nearest[i]) == want.Nearest { // a tie within rounding goes either way
			list[0].add(got.residual[i:i+1], []float64{want.Residual})
			list[1].add(got.z.Row(i), want.Z)
		}
	}
	return list, nil
}

func trainerDeviations(b backend.Backend, s stepShape) ([]Deviation, error) {
	c := trainerCase{"deviations", s.latent, s.hidden, s.measured + s.context, s.measured + s.action, s.measured, s.action * s.plan, 64, 4, false, 10, 1e-3}
	cfg := c.config(1605)
	size := fmt.Sprintf("n_z %d, hidden %d, %d rows, %d steps", s.latent, s.hidden, c.batch, trainerSteps)
	list := []Deviation{
		{Operation: "manifold training, losses", Size: size}, {Operation: "rollout training, losses", Size: size}, {Operation: "training, weights", Size: size},
	}
	var trainers [2]backend.Trainer
	for i, made := range []backend.Backend{b, training.New()} {
		var err error
		if trainers[i], err = made.NewTrainer(cfg); err != nil {
			return nil, err
		}
	}
	// add takes one step with both trainers; every loss is a row of its own.
	add := func(d *Deviation, step func(backend.Trainer) (any, error)) error {
		var values [2][]float64
		for i, t := range trainers {
			l, err := step(t)
			if err != nil {
				return err
			}
			_, values[i] = losses(l)
		}
		for i, w := range values[1] {
			off := math.Abs(values[0][i] - w)
			d.Rows++
			d.Absolute = math.Max(d.Absolute, off)
			if w != 0 {
				d.Relative = math.Max(d.Relative, off/math.Abs(w))
			}
		}
		return nil
	}
	for step := range trainerSteps {
		rows, neighbours, kernel := c.manifoldArguments(step)
		if err := add(&list[0], func(t backend.Trainer) (any, error) {
			return t.ManifoldStep(rows, neighbours, kernel, trainerRate)
		}); err != nil {
			return nil, err
		}
	}
	for _, t := range trainers {
		if err := t.PrepareRollout(); err != nil {
			return nil, err
		}
	}
	for step := range trainerSteps {
		rows := c.rolloutRows(step)
		if err := add(&list[1], func(t backend.Trainer) (any, error) { return t.RolloutStep(rows, trainerRate) }); err != nil {
			return nil, err
		}
	}
	var nets [2]backend.Networks
	for i, t := range trainers {
		var err error
		if nets[i], err = t.Networks(); err != nil {
			return nil, err
		}
	}
	list[2].add(parameters(nets[0]), row64(parameters(nets[1])))
	return list, nil
}
