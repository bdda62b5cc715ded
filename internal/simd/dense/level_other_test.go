//go:build !amd64 || purego

package dense

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

func set(*testing.T, isa.Level) {}
