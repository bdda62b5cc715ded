package batchnav

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// An error of a solve, and an end of the context, are an exact front's; the end of its time leaves what was solved by then. Every solve has what is left
// of that time. A point that the initial front does not have feasible is no beginning.
func TestAnExactFrontEnds(t *testing.T) {
	cart := testdomain.NewCart(cartSteps)
	obs := Observation{S: []float64{-0.6, 0.3}, C: []float64{0}}
	opt := FrontOptions{Weights: [][]float64{{0.9, 0.1}, {0.6, 0.4}, {0.3, 0.7}}, LookAhead: 5}
	rest := func() *solver {
		return &solver{answer: func(_ []float64, steps int) []float64 { return make([]float64, steps) }}
	}
	if _, err := ExactFront(t.Context(), cart, unable{rest()}, obs, opt, nil); err == nil || !strings.Contains(err.Error(), "no such plan") {
		t.Errorf("an error of the solver: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := ExactFront(ended, cart, rest(), obs, opt, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("behind the end: %v", err)
	}
	for _, refused := range []FrontOptions{{Weights: opt.Weights, LookAhead: -1}, {Weights: opt.Weights, Remaining: -1}} {
		if _, err := ExactFront(t.Context(), cart, rest(), obs, refused, nil); err == nil || !strings.Contains(err.Error(), "want 0 to") {
			t.Errorf("%+v: %v", refused, err)
		}
	}
	most := opt
	most.Weights = slices.Repeat(opt.Weights[:1], MostPoints)
	most.TimeLimit = 1
	for _, c := range []struct {
		opt        FrontOptions
		limited    bool
		calls      int
		points     int
		incomplete bool
	}{
		{opt, false, 6, 3, false}, {FrontOptions{Weights: opt.Weights, LookAhead: 5, TimeLimit: time.Hour}, true, 6, 3, false},
		{FrontOptions{Weights: opt.Weights, LookAhead: 5, TimeLimit: 1}, true, 1, 1, true}, {most, true, 1, 1, true},
	} {
		s := rest()
		f, err := ExactFront(t.Context(), cart, s, obs, c.opt, nil)
		if err != nil || len(f.Points) != c.points || f.Incomplete != c.incomplete || s.calls != c.calls || (s.limit > 0) != c.limited || s.limit > c.opt.TimeLimit {
			t.Errorf("within %v: %v, %+v, %d solves of %v", c.opt.TimeLimit, err, f, s.calls, s.limit)
		}
	}
	initial := &Front{LookAhead: 5, Points: make([]FrontPoint, 3)}
	for i, feasible := range []bool{false, true, false} {
		initial.Points[i] = FrontPoint{Feasible: feasible, plan: slices.Repeat([]float64{float64(i)}, 5)}
	}
	s := rest()
	require.Get(ExactFront(t.Context(), cart, s, obs, opt, initial))(t)
	begun := 0
	for _, plan := range s.begun {
		if len(plan) > 0 && plan[0] != 0 {
			if begun++; plan[0] != 1 {
				t.Errorf("begun at %v", plan)
			}
		}
	}
	if begun != 1 || s.calls != 7 {
		t.Errorf("begun %d times at an initial plan, %d solves", begun, s.calls)
	}
}
