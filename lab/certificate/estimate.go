// Package certificate estimates the constants of the paper's guarantees on held-out samples of a map, says which
// conditions hold, and compares the bounds with what a method does in closed loop (docs/reference/certify.md). The
// central type is Certificate.
package certificate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// Number is null in JSON where it is not finite.
type Number = batchnav.Number

// Options say what is certified.
type Options struct {
	Seed uint64 // of the samples' displacements
	// Steps are the latent steps, ≥ 1, that Recover follows after a perturbation of Perturbation, > 0, a
	// fraction of the spread of M*.
	Steps        int
	Perturbation float64

	// Others than these are for tests; 0: certifySamples, certifyPoints.
	samples, points int
}

const (
	certifySamples    = 1000 // held-out samples that are used, at most
	certifyPoints     = 400  // codes that give Jacobians and curvature, at most
	certifyDirections = 4    // displacements of each sample
)

// Constants are the paper's quantities (appendix:theory), estimated on held-out
// samples. Each is an estimate from finitely many points, except the Bounds,
// which hold everywhere. Latent and state quantities are in normalised units,
// actions in physical ones.
type Constants struct {
	Samples           int    `json:"samples"`             // held out
	GammaMin          Number `json:"gamma_min"`           // γ_min: least margin of the decoded action
	GammaMinOptimal   Number `json:"gamma_min_optimal"`   // that of u*
	GammaMinProjected Number `json:"gamma_min_projected"` // that of the projected action
	KDu               Number `json:"k_du"`                // largest sampled ‖J_Du‖₂
	KDuBound          Number `json:"k_du_bound"`          // Π‖W_l‖₂ of D_u
	KDs               Number `json:"k_ds"`                // largest sampled ‖J_Ds‖₂
	KDsBound          Number `json:"k_ds_bound"`          // Π‖W_l‖₂ of D_s
	Lf                Number `json:"l_f"`                 // L_f: largest ‖∂m_i/∂u‖
	// Sigma0 is the least n_z-th singular value of J_Ds, which is 0 whenever D_s
	// maps to fewer dimensions; SigmaRowSpace the least min(n_s, n_z)-th.
	Sigma0            Number `json:"sigma_0"`             // σ_0: least n_z-th singular value of J_Ds
	SigmaRowSpace     Number `json:"sigma_row_space"`     // least min(n_s, n_z)-th
	MuPL              Number `json:"mu_pl"`               // μ_PL: least sampled ‖∇Φ‖²/Φ
	DeltaDec          Number `json:"delta_dec"`           // largest ‖D_u − u*‖ of the clipped plan
	DeltaDecProjected Number `json:"delta_dec_projected"` // of the first action after projection
	DeltaLoc          Number `json:"delta_loc"`           // largest ‖z_loc − E_x(x)‖
	DeltaFeas         Number `json:"delta_feas"`          // γ_min/(L_f K_Du), 0 where γ_min ≤ 0
	// FDelta bounds the increase of Φ under a displacement of ½V_max²Δt² at the
	// samples: ‖∇Φ‖r + K_Ds²r², exact within a linear piece of D_s.
	FDelta           Number `json:"f_delta"`           // F_Δ: bound of the increase of Φ in a capped step
	KappaMax         Number `json:"kappa_max"`         // largest curvature of M*
	KappaP95         Number `json:"kappa_p95"`         // its 95 % quantile
	TangentDimension int    `json:"tangent_dimension"` // that it was read in
	// The loop's own constants, for the record.
	Dt      float64 `json:"dt"`       // Δt of the latent flow
	Epsilon float64 `json:"epsilon"`  // ε of the energy
	VMax    float64 `json:"v_max"`    // cap of the velocity
	LieGain float64 `json:"lie_gain"` // γ_L
	TauGeom float64 `json:"tau_geom"` // of the map
}

// certifier carries what the estimates share: the held-out samples with their places
// on M*.
type certifier struct {
	batchnav.Parts
	opt                Options
	spec               *domain.Spec
	latents            *batchnav.Latents
	samples            []domain.Sample
	rows               batchnav.Rows // of the samples
	normal, state, ctx tensor.Matrix // x̂; s; c
	observed, spot     tensor.Matrix // E_x; localized
	netS, netU         backend.Net
}

// newCertifier encodes and localizes the held-out samples.
func newCertifier(l *batchnav.Latents, holdout []domain.Sample, opt Options) (*certifier, error) {
	opt.samples, opt.points = cmp.Or(opt.samples, certifySamples), cmp.Or(opt.points, certifyPoints)
	if len(holdout) == 0 {
		return nil, fmt.Errorf("certify: no held-out samples")
	}
	n := min(opt.samples, len(holdout))
	a := &certifier{Parts: l.Parts(), latents: l, opt: opt}
	a.spec = a.Problem.Spec()
	spec, nz := a.spec, a.Model.Latent()
	var err error
	if a.netS, err = a.Backend.NewNet(a.Model.DecoderS); err != nil {
		return nil, err
	}
	if a.netU, err = a.Backend.NewNet(a.Model.DecoderU); err != nil {
		return nil, err
	}
	a.normal, a.state, a.ctx = tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.ContextSize())
	a.observed, a.spot = tensor.New(n, nz), tensor.New(n, nz)
	for i := range n {
		s := holdout[i*len(holdout)/n]
		if len(s.S) != spec.MeasuredSize() || len(s.C) != spec.ContextSize() || len(s.U) != spec.PlanSize() || !s.Preference.Adaptive {
			return nil, fmt.Errorf("certify: sample %d has %d state, %d context and %d action values, case %q has %d, %d and %d; want the adaptive priority",
				i*len(holdout)/n, len(s.S), len(s.C), len(s.U), spec.Name, spec.MeasuredSize(), spec.ContextSize(), spec.PlanSize())
		}
		a.samples = append(a.samples, s)
		a.rows.S, a.rows.C = append(a.rows.S, s.S...), append(a.rows.C, s.C...)
		tensor.Narrow(a.state.Row(i), s.S)
		tensor.Narrow(a.ctx.Row(i), s.C)
		a.Model.NormS.Apply(a.normal.Row(i), a.state.Row(i))
	}
	if err := l.Encode(a.rows, false, a.observed); err != nil {
		return nil, err
	}
	return a, l.Encode(a.rows, true, a.spot)
}

// Estimate computes the constants of a map from held-out samples, on which
// nothing of the map was trained.
func Estimate(ctx context.Context, l *batchnav.Latents, holdout []domain.Sample, opt Options) (*Constants, error) {
	a, err := newCertifier(l, holdout, opt)
	if err != nil {
		return nil, err
	}
	c := &Constants{
		Samples: len(a.samples), Dt: a.Navigation.LatentStep, Epsilon: a.Navigation.Epsilon, VMax: a.Navigation.VMax, LieGain: a.Navigation.LieGain,
		TauGeom:  a.Model.Calibration.TauGeom,
		KappaMax: Number(math.NaN()), KappaP95: Number(math.NaN()),
	}
	for _, step := range []func(*Constants) error{a.lipschitz, a.margins, a.localization, a.potential, a.shape} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(c); err != nil {
			return nil, err
		}
	}
	if c.GammaMin > 0 {
		c.DeltaFeas = c.GammaMin / (c.Lf * c.KDu)
	}
	return c, nil
}

// points are latents at which decoders are sampled: codes and localized samples.
func (a *certifier) points() tensor.Matrix {
	codes := min(a.opt.points, a.Model.Codes.Rows)
	extra := min(a.opt.points, a.spot.Rows)
	z := tensor.New(codes+extra, a.Model.Latent())
	for i := range codes {
		copy(z.Row(i), a.Model.Codes.Row(i*a.Model.Codes.Rows/codes))
	}
	for i := range extra {
		copy(z.Row(codes+i), a.spot.Row(i*a.spot.Rows/extra))
	}
	return z
}

// lipschitz fills in K_Du, K_Ds, their bounds and σ_0.
func (a *certifier) lipschitz(c *Constants) error {
	z := a.points()
	u, err := jacobianExtremes(a.netU, a.spec.PlanSize(), z, a.Model.NormU.Scale)
	if err != nil {
		return err
	}
	s, err := jacobianExtremes(a.netS, a.spec.MeasuredSize(), z, nil)
	if err != nil {
		return err
	}
	boundU, err := layerBound(a.Model.DecoderU, a.Model.NormU.Scale)
	if err != nil {
		return err
	}
	boundS, err := layerBound(a.Model.DecoderS, nil)
	if err != nil {
		return err
	}
	c.KDu, c.KDuBound = Number(u.largest), Number(boundU)
	c.KDs, c.KDsBound = Number(s.largest), Number(boundS)
	c.Sigma0, c.SigmaRowSpace = Number(s.injective), Number(s.rowSpace)
	return nil
}

// difference is the step of central differences of margins in u, relative to 1 + |u|. It is the cube root of float64's
// rounding, where their error is least.
const difference = 6e-6

// margins fills in γ_min, δ_dec and L_f.
func (a *certifier) margins(c *Constants) error {
	n, nu := len(a.samples), a.spec.ActionSize()
	plan := tensor.New(n, a.spec.PlanSize())
	if err := a.Stepper.Decode(a.observed, a.ctx, a.state, plan, tensor.Matrix{}); err != nil {
		return err
	}
	u := make([]float64, nu)
	hi, lo := make([]float64, len(a.spec.Margins)), make([]float64, len(a.spec.Margins))
	steepness := make([]float64, len(a.spec.Margins)+1) // never empty
	gamma, optimal, projected := math.Inf(1), math.Inf(1), math.Inf(1)
	dec, decProjected, lf := 0.0, 0.0, 0.0
	for i, s := range a.samples {
		sum := 0.0
		for j, v := range plan.Row(i) {
			d := float64(v) - s.U[j]
			sum += d * d
		}
		dec = math.Max(dec, math.Sqrt(sum))
		tensor.Widen(u, plan.Row(i)[:nu])
		a.Problem.Margins(s.S, s.C, u, hi)
		gamma = math.Min(gamma, domain.Smallest(hi))
		clear(steepness)
		for j := range u {
			v := u[j]
			h := difference * (1 + math.Abs(v))
			u[j] = v + h
			a.Problem.Margins(s.S, s.C, u, hi)
			u[j] = v - h
			a.Problem.Margins(s.S, s.C, u, lo)
			u[j] = v
			for k := range hi {
				slope := (hi[k] - lo[k]) / (2 * h)
				steepness[k] += slope * slope
			}
		}
		lf = math.Max(lf, math.Sqrt(slices.Max(steepness)))
		a.Problem.Project(s.S, s.C, u)
		a.Problem.Margins(s.S, s.C, u, hi)
		projected = math.Min(projected, domain.Smallest(hi))
		sum = 0
		for j, v := range u {
			sum += (v - s.U[j]) * (v - s.U[j])
		}
		decProjected = math.Max(decProjected, math.Sqrt(sum))
		a.Problem.Margins(s.S, s.C, s.U[:nu], hi)
		optimal = math.Min(optimal, domain.Smallest(hi))
	}
	c.GammaMin, c.GammaMinOptimal, c.GammaMinProjected = Number(gamma), Number(optimal), Number(projected)
	c.DeltaDec, c.DeltaDecProjected, c.Lf = Number(dec), Number(decProjected), Number(lf)
	return nil
}

// localization fills in δ_loc.
func (a *certifier) localization(c *Constants) error {
	worst := 0.0
	for i := range a.samples {
		worst = math.Max(worst, math.Sqrt(tensor.SquaredDistance(a.spot.Row(i), a.observed.Row(i))))
	}
	c.DeltaLoc = Number(worst)
	return nil
}

// gradients writes Φ and ‖∇Φ‖ at every row of z, for the observation of the same
// row: ∇Φ = −2 J_Dsᵀ(x̂ − D_s(z)).
func (a *certifier) gradients(z tensor.Matrix, phi, slope []float64) error {
	decoded, residual, bar := tensor.New(z.Rows, a.normal.Cols), tensor.New(z.Rows, a.normal.Cols), tensor.New(z.Rows, z.Cols)
	if err := a.netS.Forward(z, decoded); err != nil {
		return err
	}
	for i := range z.Rows {
		phi[i] = tensor.SquaredDistance(a.normal.Row(i), decoded.Row(i))
		for j, v := range a.normal.Row(i) {
			residual.Row(i)[j] = v - decoded.Row(i)[j]
		}
	}
	if err := a.netS.VJP(z, residual, bar); err != nil {
		return err
	}
	zero := make([]float32, z.Cols)
	for i := range z.Rows {
		slope[i] = 2 * math.Sqrt(tensor.SquaredDistance(bar.Row(i), zero))
	}
	return nil
}

// phiFloor is the least Φ at which ‖∇Φ‖²/Φ is read: below it float32's rounding
// of D_s (about 1e-6 per entry) decides the ratio.
const phiFloor = 1e-8

// potential fills in F_Δ at the localized samples and μ_PL around them.
func (a *certifier) potential(c *Constants) error {
	n := len(a.samples)
	phi, slope := make([]float64, n), make([]float64, n)
	if err := a.gradients(a.spot, phi, slope); err != nil {
		return err
	}
	r := 0.5 * a.Navigation.VMax * a.Navigation.VMax * a.Navigation.LatentStep * a.Navigation.LatentStep
	k := float64(c.KDs)
	for i := range n {
		c.FDelta = Number(math.Max(float64(c.FDelta), slope[i]*r+k*k*r*r))
	}
	radius := math.Max(float64(c.DeltaLoc), a.Navigation.VMax*a.Navigation.LatentStep) // of displacements around the localized latent
	mu := math.Inf(1)
	z := tensor.New(n, a.spot.Cols)
	for d := range certifyDirections {
		displace(a.opt.Seed, d, radius, a.spot, z)
		if err := a.gradients(z, phi, slope); err != nil {
			return err
		}
		for i := range n {
			if phi[i] > phiFloor {
				mu = math.Min(mu, slope[i]*slope[i]/phi[i])
			}
		}
	}
	if math.IsInf(mu, 1) {
		mu = math.NaN() // nowhere a residual to contract
	}
	c.MuPL = Number(mu)
	return nil
}

// displaceStream separates the directions from other uses of a seed.
const displaceStream = 0x6469737063650000

// displace writes z + radius·(unit direction), the directions uniform on the
// sphere and a function of seed, round and row.
func displace(seed uint64, round int, radius float64, z, out tensor.Matrix) {
	direction := make([]float64, z.Cols)
	for i := range z.Rows {
		rng := rand.New(rand.NewPCG(seed^displaceStream, uint64(round)<<32|uint64(i)))
		norm := 0.0
		for j := range direction {
			direction[j] = rng.NormFloat64()
			norm += direction[j] * direction[j]
		}
		norm = math.Sqrt(norm)
		for j, v := range z.Row(i) {
			out.Row(i)[j] = v + float32(radius*direction[j]/norm)
		}
	}
}

// curvatureNeighbours around a code measure its curvature. They are twice the tangent directions of the cases' latents,
// and few enough to stay local.
const curvatureNeighbours = 24

// shape fills in κ_max.
func (a *certifier) shape(c *Constants) error {
	if a.Index == nil {
		return nil
	}
	k, err := curvature(a.Index, a.Model.Codes, a.opt.points, curvatureNeighbours)
	c.KappaMax, c.KappaP95, c.TangentDimension = Number(k.largest), Number(k.p95), k.dimension
	return err
}

// quantile sorts v and returns its nearest-rank quantile, NaN where v has a NaN;
// v must not be empty.
func quantile(v []float64, p float64) float64 {
	slices.Sort(v)
	return stat.Quantile(p, stat.Empirical, v, nil)
}
