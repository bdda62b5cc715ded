package domain

import (
	"context"

	"github.com/gpc-engine/gpc/tensor"
)

// Proposer is what a case's own controllers ask of a learned map: decoded plans
// for many observations at once, such as those of all robots of one scene. Its
// latents are scattered around each observation's place on M*, flow together and
// are decoded; whether a plan is any good is for the controller to find out.
//
// The same questions give the same answers, bit for bit, on any number of
// threads. A Proposer is used by one goroutine, keeps none of its inputs, and on
// the CPU does not allocate once it has met the largest request.
type Proposer interface {
	// LatentSize is n_z.
	LatentSize() int
	// Propose answers every question in the place of the same index. A question of
	// wrong sizes or with an entry that is not finite is an error that names it,
	// and nothing is then answered.
	Propose(opt ProposeOptions, questions []Question, answers []Answer) error
}

// ProposeOptions say how latents are scattered and moved.
type ProposeOptions struct {
	FlowSteps int     // latent steps (RK2 and Lie residual) that all candidates take; 0: none
	Mixture   Mixture // shares of the sources
	// Context ends the latent steps with its error; nil: nothing does.
	Context context.Context
}

// Mixture holds the shares of candidates by source; what is left of 1, and of
// sources that have too few, is noise around the localized code.
type Mixture struct {
	Neighbours, Preference float64
	// Previous is the share around the latent adopted at the last decision; 0 where
	// there is none.
	Previous float64
}

// Question is one observation, physical units, with what is asked of it.
type Question struct {
	S, C       []float64
	Preference Preference
	// Previous is the latent adopted at the last decision; nil: none.
	Previous []float32
	// Count is how many plans are wanted, 0 for none. The first is that of E_x
	// itself, the second that of the localized code, the third that of Previous
	// where there is one.
	Count int
	Seed  uint64
}

// Answer is what the map says of one observation. Its slices belong to the
// Proposer and hold until the next call.
type Answer struct {
	Plans   tensor.Matrix // [Count, plan], physical units, clipped to the action box
	Latents tensor.Matrix // [Count, n_z] that the plans were decoded from
	Sources []Source      // [Count]
	// Sigma is the priority that steered the flow: the question's own weights, or
	// the semantic σ at the decoded state.
	Sigma []float64
	// Residual is ‖x̂ − D_s(z)‖² at the localized latent, normalised units; above Limit
	// the observation is off the map.
	Residual, Limit float64
	// Consistent reports whether M_t was not empty; true without localization.
	Consistent bool
}

// Source says where a candidate latent came from.
type Source uint8

const (
	// SourceLocalized is the localized code and E_x itself.
	SourceLocalized Source = iota
	// SourceNeighbour is a measurement-consistent code near E_x.
	SourceNeighbour
	// SourcePreference is E_x under another preference.
	SourcePreference
	// SourceNoise is the localized code with Gaussian noise.
	SourceNoise
	// SourcePrevious is the latent adopted at the last decision, with or without
	// noise.
	SourcePrevious
	// The next five are of searches that propose plans without the map, or from the
	// plans scored so far: the plan of the decision before, a plan by feedback, the
	// best with noise, an iterate of a descent, and offsets along a roll-out that the
	// cross-entropy method draws.
	SourceCommitted
	SourcePrimitive
	SourcePerturbed
	SourceDescended
	SourceSearched
	// Sources is how many there are.
	Sources = int(iota)
)

// String is the source's name in reports.
func (s Source) String() string {
	return [Sources]string{"localized", "neighbour", "preference", "noise", "previous", "committed", "primitive", "perturbed", "descended", "searched"}[s]
}

// MarshalText makes a Source readable in JSON.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
