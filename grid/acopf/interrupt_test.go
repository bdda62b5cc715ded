package acopf

import (
	"context"
	"errors"
	"reflect"
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
