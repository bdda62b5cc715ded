package switched

import (
	"testing"

	"github.com/gpc-engine/gpc/equations"
)

func TestBuild(t *testing.T) {
	for _, y := range All() {
		p, err := equations.New(y)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Program(); err != nil {
			t.Fatal(err)
		}
	}
}
