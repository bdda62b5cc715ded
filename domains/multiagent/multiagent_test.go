package multiagent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domaintest"
)

func TestContract(t *testing.T) {
	for _, c := range []domain.Case{Static(), Moving()} {
		t.Run(c.Problem.Spec().Name, func(t *testing.T) { domaintest.Run(t, c) })
	}
}

func TestTraceHeaderHoldsTheContract(t *testing.T) {
	text, err := json.Marshal(Static().Plant.Params())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"dt":0.2`, `"d_safe":0.18`, `"goal_radius":0.35`, `"workspace":[-10,10,-10,10]`, `"v_min":-0.5`, `"v_max":1.2`,
		`"a_min":-2`, `"a_max":2`, `"omega_max":2`, `"du_max":[1,1]`, `"lambda":[2,12,0.08,260,5,0.1]`, `"eta_g":0.65`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("params %s lack %s", text, key)
		}
	}
}
