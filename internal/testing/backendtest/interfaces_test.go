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

// almostStaged has stages of another contract, almostDual lacks a function.
type (
	almostStaged struct{ testdomain.Pole }
	almostFailed struct{ testdomain.Pole }
	almostDual   struct{ domain.Problem }
	renamed      struct{ testdomain.Pole }
)

func (almostStaged) NewStages() domain.Stages { return nil }

func (almostFailed) Failed(s []float64) bool { return false }

func (almostDual) StepDual(s, c, u, sNext, cNext []complex128) {}

func (renamed) Prepare() {} // a problem's own: no optional interface of a problem has it

func TestInterfacesCheckFindsMistakes(t *testing.T) {
	for _, c := range []struct {
		p    domain.Problem
		want []string // parts of the only error; none: there is none
	}{
		{testdomain.Pole{}, nil},
		{renamed{}, nil},
		{almostStaged{}, []string{"NewStages of backendtest.almostStaged is never called", "domain.Staged", "its NewStages is func() domain.Stages instead of func() (domain.Stages, error)"}},
		{almostFailed{}, []string{"Failed of", "domain.Failing", "its Failed is func([]float64) bool instead of func([]float64, []float64) bool"}},
		{almostDual{testdomain.Pole{}}, []string{"StepDual of", "domain.Dual", "it has no MarginsDual, it has no ObjectivesDual"}},
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
		"Problem", "Solver", "Horizon", "Plant", "Episode", // what the lists belong to
		"Controller", "Monitored", "Multistart", "Anticipating", "Loop", "Refining", "Estimating", "Planning", // methods'
		"Accelerator", "Program", "Queue", "Proposer", "PlanScorer", "Stepper", "Stages", // what others of them return or are given
	}
	var listed, found []string
	for _, o := range []optional{ofProblem, ofSolver, ofHorizon, ofPlant, ofEpisode} {
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
