package heating

import (
	"testing"

	"github.com/gpc-engine/gpc/domain/domaintest"
)

func TestContract(t *testing.T) {
	c, err := Case()
	if err != nil {
		t.Fatal(err)
	}
	domaintest.Run(t, c)
}
