package multiagent

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
)

func TestContract(t *testing.T) {
	double, err := Moving().Remake(json.RawMessage(`{"dynamics":"double integrator","limits":{"v_min":-1.2,"v_max":1.2,"a_min":-2,"a_max":2,"omega_max":2,"du_max":[1,1]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range double.Methods {
		if m.Needs == domain.NeedsMap {
			t.Errorf("double integrators have the method %s, of a map of unicycles", m.Name)
		}
	}
	for _, c := range []domain.Case{Static(), Moving(), double} {
		t.Run(c.Problem.Spec().Description, func(t *testing.T) { domaintest.Run(t, c) })
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

// An ablation is the whole with one constant of the map's navigation at zero, or the decoder as
// it was before its refinement.
func TestAblationsLeaveOnePartOut(t *testing.T) {
	c := Moving()
	whole := c.MapProblem().Spec().Navigation
	still, loose := whole, whole
	still.LieGain, loose.RetractionMix = 0, 0
	for name, want := range map[string]struct {
		navigation *domain.Navigation
		noRollout  bool
	}{
		"planner": {}, "navigator": {}, "planner-no-lie": {&still, false}, "navigator-no-lie": {&still, false}, "navigator-no-retraction": {&loose, false},
		"planner-no-rollout": {nil, true}, "navigator-no-rollout": {nil, true},
	} {
		m, ok := c.Method(name)
		if !ok || m.NoRollout != want.noRollout || m.Needs != domain.NeedsMap || !reflect.DeepEqual(m.Navigation, want.navigation) {
			t.Errorf("%s: there is one: %t, %+v with %+v", name, ok, m, m.Navigation)
		}
	}
	if whole.LieGain == 0 || whole.RetractionMix == 0 {
		t.Errorf("there is nothing to leave out of %+v", whole)
	}
}
