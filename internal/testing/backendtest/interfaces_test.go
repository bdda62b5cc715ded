package backendtest

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// unnamed has a method that its abilities do not name, renamed one that is no ability's.
type (
	unnamed struct{ testdomain.Pole }
	renamed struct{ testdomain.Pole }
)

func (unnamed) Failed(s, c []float64) bool { return false }

func (renamed) Prepared() {} // a problem's own: no ability of a problem has its name

func TestInterfacesCheckFindsMistakes(t *testing.T) {
	for _, c := range []struct {
		p    domain.Problem
		want []string // parts of the only error; none: there is none
	}{
		{testdomain.Pole{}, nil},
		{renamed{}, nil},
		{unnamed{}, []string{"Failed of backendtest.unnamed is never called: its Abilities are to name it in domain.ProblemAbilities"}},
	} {
		errs := checkInterfaces(domain.Case{Problem: c.p})
		if c.want == nil && len(errs) > 0 || c.want != nil && len(errs) != 1 {
			t.Errorf("%T: %v", c.p, errs)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(errs[0].Error(), part) {
				t.Errorf("%T: %v, want %q", c.p, errs[0], part)
			}
		}
	}
}
