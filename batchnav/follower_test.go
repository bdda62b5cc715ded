package batchnav

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// follower answers as it is told, and counts.
type follower struct {
	keeps, renews  bool
	rest           []float64 // behind the first action; what is renewed
	after          bool      // it keeps once renewed
	asked, renewed int
}

func (f *follower) told() *domain.Follower {
	return &domain.Follower{
		Keeps: func(_, _, u []float64) ([]float64, bool) {
			f.asked++
			return append(slices.Clone(u), f.rest...), f.keeps || f.after && f.renewed > 0
		},
		Renew: func(_, _ []float64) ([]float64, bool) {
			f.renewed++
			return f.rest, f.renews
		},
	}
}

// What a follower keeps is executed without a roll-out, and the plan is accepted; what it does not keep is rolled out, and of what it has renewed
// the plan is the incumbent.
func TestGuardAsksItsFollower(t *testing.T) {
	start, c := []float64{-2, 0}, []float64{0}
	slow := make([]float64, cartSteps) // without a push the cart stays slow
	const limit = 0.5
	for _, test := range []struct {
		name           string
		f              *follower
		asked, renewed int
		replaced       domain.Fallback
		rolls          bool
	}{
		{"keeps", &follower{keeps: true, rest: slow[1:]}, 1, 0, 0, false},
		{"renewed, and keeps then", &follower{after: true, renews: true, rest: slow}, 2, 1, 0, false},
		{"renewed in vain", &follower{renews: true, rest: slow}, 2, 1, domain.FallbackIncumbent, true},
		{"not renewed", &follower{rest: slow}, 1, 1, domain.FallbackConservative, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newSpeeding(limit)
			n := guarded(t, p, domain.Guard{}, nil)
			n.batch.opt.NoFallback = true
			n.batch.guard.noRescue = true
			n.Follow(test.f.told())
			w := &n.batch.loops[0].guard
			w.vain, w.wait = 2, 3
			d, err := n.Decide(start, c, adaptively)
			if err != nil {
				t.Fatal(err)
			}
			if test.f.asked != test.asked || test.f.renewed != test.renewed {
				t.Errorf("asked %d times and renewed %d times, want %d and %d", test.f.asked, test.f.renewed, test.asked, test.renewed)
			}
			if !test.rolls && (w.vain != 0 || w.wait != 0) {
				t.Errorf("behind a plan that keeps its limits a rescue waits %d decisions, after %d", w.wait, w.vain)
			}
			if rolls := d.Fallback&domain.FallbackGuard != 0; rolls != test.rolls {
				t.Errorf("the roll-out of what was decided failed: %t, want %t", rolls, test.rolls)
			}
			if d.Fallback&test.replaced != test.replaced || test.replaced == 0 && d.Fallback.Replaced() {
				t.Errorf("bits %b, want %b among them", d.Fallback, test.replaced)
			}
			if !test.rolls && (p.steps.Load() > 0 || !slices.Equal(d.Ahead, append([]float64{d.U[0]}, test.f.rest...))) {
				t.Errorf("%d steps were taken, and the plan is %v", p.steps.Load(), d.Ahead)
			}
		})
	}
}

// An action that breaks a limit at once is rolled out, whatever a follower says.
func TestNoFollowerIsAskedBeyondALimit(t *testing.T) {
	f := &follower{keeps: true, rest: make([]float64, cartSteps-1)}
	n := guarded(t, finite{testdomain.NewCart(cartSteps)}, domain.Guard{}, nil)
	n.Follow(f.told())
	if d := require.Get(n.Decide([]float64{2.1, 0.5}, []float64{0}, adaptively))(t); f.asked != 0 || d.Fallback&domain.FallbackGuard == 0 {
		t.Errorf("asked %d times: %v", f.asked, d.Fallback)
	}
}
