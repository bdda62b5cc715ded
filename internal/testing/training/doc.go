// Package training is the slow, obvious float64 implementation of training: the losses of both phases with their
// gradients, Adam, and the spectral bound. It is the specification, as package ref is of decisions: package
// backendtest holds every backend's trainer to it.
//
// The central type is Backend, the reference backend with a Trainer:
//
//	manifold_loss.go  losses of manifold training and their gradient
//	rollout_loss.go   losses of rollout-aware decoder training and their gradient
//	adam.go           Adam and the spectral bound
package training

import "github.com/gpc-engine/gpc/internal/ref"

// Backend is the reference backend, which also trains.
type Backend struct{ *ref.Backend }

// New returns it.
func New() Backend { return Backend{ref.New()} }
