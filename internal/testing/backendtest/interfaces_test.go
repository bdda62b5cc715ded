package backendtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// unnamed has a method that its abilities do not name, renamed one that is no ability's.
type (
	unnamed struct{ testdomain.Pole }
	renamed struct{ testdomain.Pole }
)

func (unnamed) Failed(s, c []float64) bool { return false }

func (renamed) Prepare() {} // a problem's own: no ability of a problem has its name

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

// TestEveryOptionalInterfaceIsChecked holds the lists to package domain.
func TestEveryOptionalInterfaceIsChecked(t *testing.T) {
	others := []string{
		"Able", "Problem", "Solver", "Horizon", "Plant", "Episode", // what the lists belong to
		"Controller", "Monitored", "Multistart", "Anticipating", "Loop", "Refining", "Estimating", "Planning", // methods'
		"Accelerator", "Program", "Queue", "Proposer", "PlanScorer", "Stepper", "Stages", // what others of them return or are given
	}
	var listed, found []string
	for _, o := range []optional{ofSolver, ofHorizon, ofPlant} {
		for _, i := range o.may {
			listed = append(listed, i.Name())
		}
	}
	for _, file := range require.Get(filepath.Glob("../../../domain/*.go"))(t) {
		ast.Inspect(require.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t), func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && s.Name.IsExported() {
				if _, ok := s.Type.(*ast.InterfaceType); ok {
					found = append(found, s.Name.Name)
				}
			}
			return true
		})
	}
	listed = append(listed, others...)
	slices.Sort(listed)
	slices.Sort(found)
	if !slices.Equal(listed, found) {
		t.Errorf("listed here %v, in package domain %v", listed, found)
	}
}
