// Package gallery collects the systems of the folders below: control problems that the
// field itself uses to compare with, each from its published definition and each written
// with domain/equations alone. Copy a folder and change the equations.
package gallery

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/gallery/cartpole"
	"github.com/gpc-engine/gpc/examples/gallery/chain"
	"github.com/gpc-engine/gpc/examples/gallery/cstr"
	"github.com/gpc-engine/gpc/examples/gallery/doublependulum"
	"github.com/gpc-engine/gpc/examples/gallery/hvac"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
)

// Cases makes the case of every system, in the order of docs/gallery.md.
func Cases() ([]domain.Case, error) {
	var cases []domain.Case
	for _, build := range []func() (domain.Case, error){
		cartpole.Case, cartpole.TrackCase, cstr.Case, doublependulum.Case, chain.Case9, chain.Case21, quadrotor.Case, hvac.Case,
	} {
		c, err := build()
		if err != nil {
			return nil, fmt.Errorf("gallery: %w", err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}
