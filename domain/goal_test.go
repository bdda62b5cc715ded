package domain

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A goal that cannot be says which objective is meant, and what a bound is.
func TestGoalsThatCannotBe(t *testing.T) {
	s := Spec{Name: "house", Objectives: []Variable{{Name: "discomfort", Unit: "K²h"}, {Name: "energy", Unit: "kWh"}}}
	if g := require.Get(s.Goals([]byte(`{"energy": " <= 3e0 "}`)))(t); len(g.Bounds) != 1 || g.Bounds[0] != (Bound{Objective: 1, Most: 3}) {
		t.Errorf("%+v", g)
	}
	for text, says := range map[string]string{
		`{"energy": "<= 3 kWh"}`:               `the goal bounds energy by "<= 3 kWh", want "<= NUMBER", finite and in kWh, without a unit`,
		`{"energy": "<= nan"}`:                 `want "<= NUMBER", finite`,
		`{"energy": "<= inf"}`:                 `want "<= NUMBER", finite`,
		`{"energy": ">= 3"}`:                   `want "<= NUMBER"`,
		`{"energy": "<= 3", "energy": "<= 4"}`: "the goal names energy twice",
		`["energy", "energy"]`:                 "the goal names energy twice",
		`["comfort"]`:                          `"comfort", which is no objective of case house (it has discomfort, energy)`,
		`{"energy": 3}`:                        `want bounds as {"OBJECTIVE": "<= NUMBER"}`,
		`{}`:                                   "a goal is empty",
	} {
		if _, err := s.Goals([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
