package ref_test

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/backendtest"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

func TestReferenceConforms(t *testing.T) {
	backendtest.Run(t, func(testing.TB, int) backend.Backend { return training.New() })
}
