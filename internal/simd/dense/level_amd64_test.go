//go:build !purego

package dense

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

func set(t *testing.T, l isa.Level) {
	was := level
	level = l
	t.Cleanup(func() { level = was })
}
