package opf

import (
	"context"
	"errors"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A scene whose drawing was interrupted is drawn by who asks next.
func TestAnInterruptedSceneIsDrawnAgain(t *testing.T) {
	plant := Thirty().Plant
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	opt := domain.EpisodeOptions{Regime: RegimePaper, Preference: domain.Preference{Adaptive: true}, Context: ended}
	if _, err := plant.Episode(991, 0, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	opt.Context = nil
	require.Get(plant.Episode(991, 0, opt))(t)
}
