package integrator

import (
	"context"
	"errors"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// unbuilt is a seed of which nothing else here has a library: libraries are shared.
const unbuilt = 0x756e6275696c74

// An oracle whose library was interrupted builds it for who asks next.
func TestAnInterruptedOracleIsAskedAgain(t *testing.T) {
	y := systems(t)[0]
	plant := &Plant{system: y, oracle: newOracleOf(y, 40, unbuilt)}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	ask := func(ctx context.Context) error {
		ep := require.Get(plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}, Context: ctx}))(t)
		_, _, err := ep.Oracle()
		return err
	}
	if err := ask(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	var part string
	most, reports := 0, 0
	require.OK(t, ask(domain.WithProgress(t.Context(), func(name string, done, total int) {
		part, most = name, total
		if reports++; done > total {
			t.Errorf("%d of %d", done, total)
		}
	})))
	if part != "library of optima" || most < 40 || reports == 0 {
		t.Errorf("while the library is built %q is shown %d times, of %d", part, reports, most)
	}
}
