package opf

import "github.com/gpc-engine/gpc/domain"

// navigation and training are the defaults of every System; docs/opf.md says why.
var navigation = domain.Navigation{
	LatentStep:     0.002,
	VMax:           1,
	Epsilon:        0.1,
	MetricLambda:   1e-3,
	TopK:           4,
	LieGain:        0.1,
	LieScale:       0.1,
	RetractionMix:  0.5,
	Smoothing:      1,
	PriorityFilter: 0.3,
	Neighbours:     12,
}

var training = domain.Training{
	Latent:          32,
	Hidden:          256,
	Scenarios:       5000,
	Weights:         50,
	Design:          domain.WeightDesign{Name: "mixed", Reference: economic, LogLo: -4, LogHi: 1},
	ManifoldEpochs:  30,
	RolloutEpochs:   3,
	Batch:           512,
	LearningRate:    1e-3,
	ActionWeight:    30,
	SpectralBound:   20,
	Codes:           5000,
	LocalNeighbours: 10,
}
