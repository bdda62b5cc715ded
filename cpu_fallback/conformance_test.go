package cpufallback_test

import (
	"testing"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The backend's own suite of every instruction set against package ref.
func TestConformance(t *testing.T) {
	for _, level := range isa.Available() {
		t.Run(level.String(), func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB, threads int) backend.Backend {
				b := require.Get(cpufallback.New(cpufallback.Options{Threads: threads, ISA: level.String()}))(t)
				return b
			})
		})
	}
}
