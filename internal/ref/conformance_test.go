package ref_test

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
)

func TestReferenceConforms(t *testing.T) {
	backendtest.Run(t, func(testing.TB, int) backend.Backend { return ref.New() })
}
