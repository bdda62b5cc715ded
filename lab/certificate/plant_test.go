package certificate

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// oneScene is the smallest plant: every episode is the cart from (0.5, 0).
type oneScene struct{ cart *testdomain.Cart }

func (p oneScene) Params() any { return nil }
func (p oneScene) Replay(params, scene json.RawMessage) (domain.Episode, error) {
	return nil, errors.New("not recorded")
}

func (p oneScene) Episode(uint64, int, domain.EpisodeOptions) (domain.Episode, error) {
	return &run{cart: p.cart, s: []float64{0.5, 0}, c: []float64{0}}, nil
}

type run struct {
	cart *testdomain.Cart
	s, c []float64
	t    int
}

func (e *run) Scene() any             { return nil }
func (e *run) Steps() int             { return e.cart.Spec().Steps }
func (e *run) Done() bool             { return e.t >= e.Steps() }
func (e *run) State(s []float64)      { copy(s, e.s) }
func (e *run) Observe(s, c []float64) { copy(s, e.s); copy(c, e.c) }
func (e *run) Oracle() (float64, [][]float64, error) {
	return math.NaN(), nil, nil
}

func (e *run) Apply(u []float64) (domain.Outcome, error) {
	out := domain.Outcome{S: make([]float64, 2), Named: make([]float64, 2)}
	e.cart.Margins(e.s, e.c, u, out.Named)
	out.Margin = math.Min(out.Named[0], out.Named[1])
	next := make([]float64, 1)
	e.cart.Step(e.s, e.c, u, out.S, next)
	copy(e.s, out.S)
	e.t++
	return out, nil
}
