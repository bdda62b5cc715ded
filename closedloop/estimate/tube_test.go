package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// followed is the cart with a plan that it follows from its start on, to stop before the wall.
type followed struct {
	p      *equations.Problem
	f      *estimate.Filter
	off    *domain.Backoff
	margin *estimate.Margin
	steps  int
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	d := &followed{p: require.Get(equations.New(cart()))(t)}
	d.steps = d.p.Spec().Steps
	d.f = require.Get(estimate.New(d.p, seen(), []float64{-0.5, 0}, []float64{0.1, 0.05}))(t)
	d.off = domain.NewBackoff(d.p.Spec())
	d.margin = require.Get(estimate.NewMargin(d.p, d.off, d.f, 3))(t)
	s, c := make([]float64, 2), make([]float64, 2)
	require.OK(t, d.f.Update([]float64{-0.48}, []float64{0, 0}, s, c))
	plan := make([]float64, d.steps)
	plan[0], plan[8] = 0.5, -0.5
	if !d.margin.Follow(s, c, plan, d.f) {
		t.Fatal("the plan does not keep its limits: the test shows nothing")
	}
	return d
}

// led is where the feedback of the plan leads from a state at stage t on, and the least room to the wall on the way, behind what is kept off.
func (d *followed) led(s, c []float64, t int) (room float64) {
	x, y, next, after, m := append([]float64{}, s...), append([]float64{}, c...), make([]float64, 2), make([]float64, 2), make([]float64, 1)
	room = math.Inf(1)
	for ; t < d.steps; t++ {
		at, was, k, _ := d.margin.Planned(t)
		u := []float64{was[0] + k[0]*(x[0]-at[0]) + k[1]*(x[1]-at[1])}
		d.p.Margins(x, y, u, m)
		room = math.Min(room, m[0]-d.off.At(y)[0])
		d.p.Step(x, y, u, next, after)
		copy(x, next)
		copy(y, after)
	}
	return room
}

// Of a linear plant a plan is followed behind an action exactly where its feedback keeps the limits from the next state on, with what is
// kept off them: here the estimate of the wind moves too.
func TestAPlanIsFollowedWhereItsFeedbackKeepsTheLimits(t *testing.T) {
	d := newFollowed(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var counts [2]int
	for stage := range 20 {
		at, _, _, _ := d.margin.Planned(stage)
		for range 50 {
			s := []float64{at[0] + rng.NormFloat64(), at[1] + rng.NormFloat64()}
			c := []float64{0.05 * rng.NormFloat64(), float64(stage) / float64(d.steps)}
			u, next, after := []float64{2 * rng.NormFloat64()}, make([]float64, 2), make([]float64, 2)
			d.p.Step(s, c, u, next, after)
			room := d.led(next, after, stage+1)
			if math.Abs(room) < 1e-6 { // rounding
				continue
			}
			if want, got := room > 0, d.margin.Kept(s, c, u); got != want {
				t.Fatalf("stage %d: followed %t, and the feedback leaves a room of %v", stage, got, room)
			} else if got {
				counts[1]++
			} else {
				counts[0]++
			}
		}
		d.margin.Go()
	}
	if counts[0] < 100 || counts[1] < 100 {
		t.Errorf("%d are not followed and %d are: the test shows nothing", counts[0], counts[1])
	}
}

// A plan is followed by derivatives as the C export holds them, in float.
func TestAPlanIsFollowedByDerivativesInFloat(t *testing.T) {
	d := newFollowed(t)
	for stage := range d.steps - 1 {
		some := false
		for _, v := range d.margin.Held(stage) {
			if some = some || v != 0; v != float64(float32(v)) {
				t.Errorf("stage %d has a derivative of %v", stage, v)
			}
		}
		if !some {
			t.Errorf("stage %d has no derivative", stage)
		}
	}
}

// What is kept off at the present decision is the share of the estimate's own errors: the first stage keeps off no more, later ones do, and none
// keeps off more now than it did when the plan was found.
func TestErrorsThatWereMeasuredAreNotKeptOffAgain(t *testing.T) {
	d := newFollowed(t)
	for stage := range d.steps {
		_, _, _, now := d.margin.Planned(stage)
		found := d.off.Row(float64(stage) / float64(d.steps))[0]
		switch {
		case stage == 0 && now[0] != found:
			t.Errorf("the first stage keeps off %v, and %v where it is the present one", found, now[0])
		case stage > 0 && !(now[0] > 0 && now[0] < found):
			t.Errorf("stage %d keeps off %v, and %v where it is the present one", stage, found, now[0])
		}
	}
}

// A plan that is found anew is what its feedback makes of it from the present state on, within the box.
func TestAPlanFoundAnewIsThatOfItsFeedback(t *testing.T) {
	d := newFollowed(t)
	d.margin.Go()
	at, was, k, _ := d.margin.Planned(1)
	s, c := []float64{at[0] - 0.05, at[1] + 0.02}, []float64{0, 1 / float64(d.steps)}
	u := was[0] + k[0]*(s[0]-at[0]) + k[1]*(s[1]-at[1])
	if !d.margin.Again(s, c, d.f) {
		t.Fatal("the plan does not keep its limits")
	}
	if from, got, _, _ := d.margin.Planned(0); from[0] != s[0] || from[1] != s[1] || math.Abs(got[0]-u) > 1e-12 {
		t.Errorf("the plan is found from %v with %v, want %v with %v", from, got, s, u)
	}
	d.margin.Go()
	far := []float64{-40, 0}
	d.margin.Again(far, []float64{0, 2 / float64(d.steps)}, d.f)
	if _, got, _, _ := d.margin.Planned(0); got[0] != 2 {
		t.Errorf("far behind the plan the action is %v, want the most that there is, 2", got)
	}
}
