package ocp

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// Derivatives of one level of rounding are not taken for those of another.
func TestALevelStartsFromItsOwnDerivatives(t *testing.T) {
	type stages struct {
		domain.Stages
		level int
	}
	exact, rounded, plan := &stages{level: 0}, &stages{level: 1}, &point{}
	q := &program{levels: []domain.Stages{exact, rounded}, staged: rounded, linearised: plan}
	if q.setLevel(1); q.linearised != plan {
		t.Error("the same level is linearised anew")
	}
	if q.setLevel(0); q.staged != domain.Stages(exact) || q.linearised != nil {
		t.Error("the exact level goes on with derivatives of the rounded one")
	}
}
