package gallery

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testcart"
)

// TestManyActionsOnTheDevice projects where a warp has a row, and where its lanes do not reach both sides of every action at once.
func TestManyActionsOnTheDevice(t *testing.T) {
	var cases []domain.Case
	var problems []domain.Problem
	for _, actions := range []int{7, 9, 18} {
		c := require.Get(testcart.Wide(actions).Case())(t)
		cases, problems = append(cases, c), append(problems, c.Problem)
	}
	b := deviceOf(t, problems...)
	for _, c := range cases {
		at, actions := rowsOf(t, c, 12), c.Problem.Spec().ActionSize()
		moved, off, errs := projectedOnDevice(t, b, c.Problem, at)
		for _, err := range errs[:min(len(errs), 4)] {
			t.Error(err)
		}
		if moved < 3 {
			t.Errorf("%d of %d actions were projected", moved, len(at.S))
		}
		t.Logf("%d actions: %d of %d projected, to within %.1e of half a box", actions, moved, len(at.S), off)
	}
}
