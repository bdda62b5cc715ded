package ocp

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// levels notes the level that it rounds by.
type levels struct {
	domain.Stages
	level int
}

func (s *levels) Round(level int) { s.level = level }

// Derivatives of one level of rounding are not taken for those of another.
func TestALevelStartsFromItsOwnDerivatives(t *testing.T) {
	rounded, plan := &levels{level: 1}, &point{}
	q := &program{levels: 2, level: 1, staged: rounded, linearised: plan}
	if q.setLevel(1); q.linearised != plan {
		t.Error("the same level is linearised anew")
	}
	if q.setLevel(0); rounded.level != 0 || q.linearised != nil {
		t.Error("the exact level goes on with derivatives of the rounded one")
	}
}
