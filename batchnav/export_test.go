package batchnav

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Round scores a round of the search as a decision does, for tests with problems that
// import this package.
type Round struct{ search *search }

// NewRound prepares the scores of a search's rounds.
func NewRound(b backend.Backend, m *model.Model, p domain.Problem, opt Options) (Round, backend.RolloutsConfig, error) {
	a, err := NewBatch(b, m, p, opt, 1)
	if err != nil {
		return Round{}, backend.RolloutsConfig{}, err
	}
	return Round{a.search}, a.rolloutsConfig(a.search.round, max(1, a.search.steps), crossentropy.Options{}), nil
}

// OnDevice tells whether the backend scores by itself.
func (r Round) OnDevice() bool { return r.search.device != nil }

// Score scores candidates.
func (r Round) Score(obs Observation, offsets tensor.Matrix, steps int) (out backend.RolloutsOutput, err error) {
	s := r.search
	input, state, z := tensor.New(1, s.spec.ObservationSize()), make([]float32, len(obs.S)), tensor.New(1, s.model.Latent())
	s.observe(obs.S, obs.C, obs.Preference, make([]float64, s.spec.PreferenceSize()), input.Row(0), state, s.present, nil)
	if err := s.encoder.Forward(input, z); err != nil {
		return out, err
	}
	s.offsets = offsets
	err = s.score(root{obs.S, obs.C, obs.Preference, state, z.Row(0)}, steps)
	n := offsets.Rows
	return backend.RolloutsOutput{Cost: s.cost[:n], Margin: s.margin[:n], First: s.first.Slice(0, n), Kept: s.survived[:n]}, err
}

// BestCost is what the best roll-out of a loop's last search costs.
func BestCost(n *Navigator) float64 { return n.batch.loops[0].memory.Best().Cost }

// LookAhead is how many decisions a roll-out from a context looks ahead.
var LookAhead = lookAhead
