package opf

import (
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// navigation and training are the defaults of every System; docs/explain/opf.md says why.
var navigation = domain.Navigation{
	// Small: the tangential field is the gradient of the state before the dispatch,
	// and the decoder is already the optimum after it.
	LatentStep:    0.002,
	VMax:          1,
	Epsilon:       0.1,
	MetricLambda:  1e-3,
	TopK:          4,
	LieGain:       0.1,
	LieScale:      0.1,
	RetractionMix: 0.5,
	// The projection knows the network and the loads, so that noise of the measured
	// state reaches only the encoder: nothing to smooth, and no power flow spent on
	// estimating it.
	Smoothing:      1,
	PriorityFilter: 0.3,
	Neighbours:     12, // 8 to 16 are alike; 32 cost 40 µs more, the nearest code alone a tenth of the gap
}

// stateTolerance, pu and rad: what loads of the envelope change voltages and angles by.
const stateTolerance = 0.02

// training has no rollout epochs: the adaptive priority alone has trajectories, and D_u
// would unlearn the other preferences.
var training = domain.Training{
	Latent:          32,
	Hidden:          256,
	Scenarios:       5000,
	Weights:         50,
	Design:          domain.WeightDesign{Name: "mixed", Reference: economic, LogLo: -4, LogHi: 1},
	ManifoldEpochs:  24,
	Batch:           512,
	LearningRate:    1e-3,
	ActionWeight:    30,
	SpectralBound:   20,
	Codes:           10000,
	LocalNeighbours: 10,
	PreferenceFloor: leastEconomic, // most of J₂ is given up between w₂ = 0 and a tenth of w₃
}

// Errors of a set-point that weigh alike in the action loss, pu. One of V_G moves every
// bus; in deviations of the targets one of P_G, which vary little beside the merit
// order, would weigh more. See docs/results/dispatch.md, "Steering".
const (
	powerTolerance = 0.004
	voltTolerance  = 0.0025
)

// trainingOf are the training defaults of a system; the encoder of the uncertain
// case sees one input more for every branch, and its model is kept smaller. A sample of a secure
// dispatch takes a hundred times as long: there are fewer, and the model is small.
func trainingOf(gens int, uncertain, survives bool) domain.Training {
	t := training
	if survives {
		t.Latent, t.Hidden, t.Encoder = 24, 128, 192
		t.Scenarios, t.Weights = 160, 2
		t.ManifoldEpochs, t.Batch, t.Codes = 80, 128, 1500
	}
	t.ActionTolerance = append(slices.Repeat([]float64{powerTolerance}, gens), slices.Repeat([]float64{voltTolerance}, gens)...)
	if uncertain {
		t.ManifoldEpochs, t.Codes = 40, 5000
	}
	return t
}
