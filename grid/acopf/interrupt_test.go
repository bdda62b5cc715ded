package acopf

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A solve that is interrupted between two iterations says so, has no result, and leaves
// nothing behind that the next solve would notice.
func TestASolveIsInterruptedBetweenIterations(t *testing.T) {
	net := require.Get(network.New(require.Get(cases.Read("case30"))(t)))(t)
	s := require.Get(New(net, Options{Threads: 1}))(t)
	whole, again := make([]Result, 1), make([]Result, 1)
	require.OK(t, s.Solve(context.Background(), make([]Problem, 1), whole))
	for _, after := range []int{0, 1, 3, 6} {
		part := make([]Result, 1)
		if err := s.Solve(require.EndAfter(after), make([]Problem, 1), part); !errors.Is(err, context.Canceled) || part[0].Status != NotSolved {
			t.Errorf("after %d questions: %v, status %v", after, err, part[0].Status)
		}
		require.OK(t, s.Solve(context.Background(), make([]Problem, 1), again))
		if !reflect.DeepEqual(whole, again) {
			t.Errorf("after %d questions the next solve differs", after)
		}
	}
}

// So does one that is interrupted while some lanes have limits of branches in their matrix.
func TestAnInterruptionLeavesNoLimitsInTheMatrix(t *testing.T) {
	net := require.Get(network.New(require.Get(cases.Read("case30"))(t)))(t)
	s := require.Get(New(net, Options{Threads: 1}))(t)
	problems := make([]Problem, 2*s.Lanes())
	for k := range problems {
		problems[k].Pd, problems[k].Qd = slices.Clone(net.Pd), slices.Clone(net.Qd)
		for b := range net.Pd {
			problems[k].Pd[b] *= 1 + 0.6*float64((7*k+5*b)%11)/10
			problems[k].Qd[b] *= 1 + 0.6*float64((5*k+3*b)%13)/12
		}
		problems[k].Out.Branches = []int{(3 * k) % 12}
	}
	whole, replay := make([]Result, len(problems)), make([]Result, len(problems))
	require.OK(t, s.Solve(context.Background(), problems, whole))
	for questions := 40; questions < 160; questions += 13 {
		if err := s.Solve(require.EndAfter(questions), problems, make([]Result, len(problems))); err == nil {
			break
		}
		require.OK(t, s.Solve(context.Background(), problems, replay))
		if !reflect.DeepEqual(whole, replay) {
			t.Fatalf("after %d questions the next solve differs", questions)
		}
	}
}
