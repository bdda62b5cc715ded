package opf_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/opf"
)

// An episode of a change begins where the one before stands: what the change does not say stays as it is, and the next decision
// leads where it would have led.
func TestAChangeBeginsWhereTheEpisodeStands(t *testing.T) {
	for _, c := range []domain.Case{opf.Thirty(), opf.ThirtyUncertain()} {
		spec, plant := c.Problem.Spec(), domain.AbilitiesOfPlant(c.Plant)
		how := domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}
		ep := require.Get(c.Plant.Episode(11, 2, how))(t)
		s, x, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
		decide := func(of domain.Episode) domain.Outcome {
			of.Observe(s, x)
			c.Problem.Fallback(s, x, u)
			c.Problem.Project(s, x, u)
			return require.Get(of.Apply(u))(t)
		}
		for range 4 {
			decide(ep)
		}
		ep.Observe(s, x)
		bus := 6
		chart := domain.AbilitiesOfProblem(c.Problem)
		c.Problem.Fallback(s, x, u)
		at, ok := chart.Operate(s, x, u)
		if !ok {
			t.Fatal("no power flow")
		}
		same := fmt.Sprintf(`{"load":{"bus":%d,"p_mw":%v}}`, bus, at.Pd[bus]*chart.Chart().BaseMVA)
		change := require.Get(domain.AbilitiesOfEpisode(ep).Change(json.RawMessage(same)))(t)
		on := require.Get(plant.Stage(11, 2, require.Get(json.Marshal(change.Scene))(t), how))(t)
		a, b := make([]float64, len(s)), make([]float64, len(s))
		ep.State(a)
		on.State(b)
		for i := range a {
			if math.Abs(a[i]-b[i]) > 1e-8 {
				t.Fatalf("%s: state %d is %v, it was %v", spec.Name, i, b[i], a[i])
			}
		}
		want, got := decide(ep), decide(on)
		if math.Abs(want.Cost-got.Cost) > 1e-5 || math.Abs(want.Margin-got.Margin) > 1e-7 {
			t.Errorf("%s: the next decision costs %v with margin %v, want %v and %v", spec.Name, got.Cost, got.Margin, want.Cost, want.Margin)
		}

		opened := require.Get(domain.AbilitiesOfEpisode(ep).Change(json.RawMessage(`{"branch":{"at":5,"open":true}}`)))(t)
		of := require.Get(c.Remake(require.Get(json.Marshal(opened.Params))(t)))(t)
		if !domain.AbilitiesOfProblem(of.Problem).Chart().Branches[5].Open || domain.AbilitiesOfProblem(of.Problem).Chart().Branches[4].Open {
			t.Errorf("%s: opened are %+v", spec.Name, domain.AbilitiesOfProblem(of.Problem).Chart().Branches[:6])
		}
		again := require.Get(domain.AbilitiesOfPlant(of.Plant).Stage(11, 2, require.Get(json.Marshal(opened.Scene))(t), how))(t)
		if _, err := domain.AbilitiesOfEpisode(again).Change(json.RawMessage(`{"branch":{"at":5,"open":true}}`)); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("opened twice: %v", err)
		}
		closed := require.Get(domain.AbilitiesOfEpisode(again).Change(json.RawMessage(`{"branch":{"at":5,"open":false}}`)))(t)
		before := require.Get(json.Marshal(c.Plant.Params()))(t)
		var own struct {
			Case string `json:"case_m"`
		}
		require.OK(t, json.Unmarshal(before, &own))
		if text := closed.Params.(map[string]string)["case_m"]; text != own.Case {
			t.Errorf("%s: closed again the file has %d bytes, it had %d", spec.Name, len(text), len(own.Case))
		}
	}
}
