package testdomain

import (
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Network draws a network of these widths with normal biases of the given scale. It
// panics where model.NewMLP fails.
func Network(rng *rand.Rand, bias float64, widths ...int) *model.MLP {
	m, err := model.NewMLP(rng, widths...)
	if err != nil {
		panic(err)
	}
	for _, l := range m.Layers {
		for i := range l.B {
			l.B[i] = float32(bias * rng.NormFloat64())
		}
	}
	return m
}

// Scaled is a normalisation of n components about zero.
func Scaled(n int, scale float32) model.Normalizer {
	return model.Normalizer{Mean: make([]float32, n), Scale: slices.Repeat([]float32{scale}, n)}
}

// Untrained draws a map of a problem's sizes: networks with the given hidden layers,
// unit normalisations, normal codes and what D_s makes of them.
func Untrained(rng *rand.Rand, spec *domain.Spec, latent, codes int, hidden ...int) *model.Model {
	nx, no, ns, nu, objectives := spec.ObservationSize(), spec.OracleSize(), spec.MeasuredSize(), spec.PlanSize(), spec.ObjectiveSize()
	net := func(in, out int) *model.MLP {
		m, err := model.NewMLP(rng, slices.Concat([]int{in}, hidden, []int{out})...)
		if err != nil {
			panic(err)
		}
		return m
	}
	m := &model.Model{
		Case: spec.Name, Provenance: model.Provenance{ProblemSHA256: durable.Sum(spec.Fingerprint(nil))}, EncoderX: net(nx, latent), EncoderO: net(no, latent), DecoderU: net(latent, nu), DecoderS: net(latent, ns),
		NormX: Scaled(nx, 1), NormO: Scaled(no, 1), NormS: Scaled(ns, 1), NormU: Scaled(nu, 1), Codes: tensor.New(codes, latent),
		Calibration: model.Calibration{
			TauGeom: 0.1, ObjectiveIdeal: make([]float64, objectives), ObjectiveNadir: slices.Repeat([]float64{30}, objectives), LatentSpread: 2,
		},
	}
	for i := range m.Codes.Data {
		m.Codes.Data[i] = float32(rng.NormFloat64())
	}
	m.CodesDecoded = tensor.New(codes, ns)
	if err := m.DecoderS.Forward(m.Codes, m.CodesDecoded); err != nil {
		panic(err)
	}
	return m
}
