package opf

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// An episode judges a dispatch by every outage; the params of its trace say which, and the case that they
// make judges the same decisions by the same margins. Params of other outages are refused.
func TestSecureEpisodesAreReplayedFromTheirParams(t *testing.T) {
	const name = "opf-secure:case39.m"
	c := require.Get(SecureFromFile(name + ",emergency=1.25"))(t)
	y := c.Problem.(*System)
	_, _, u := dispatchNear(t, y, 0.89)
	gens := y.layout.gens
	scene := require.Get(json.Marshal(staged{Level: slices.Repeat([]float64{0.89}, Steps+1), Pg0: u[:gens], Vg0: u[gens:]}))(t)
	plant := c.Plant.(*Plant)
	first := require.Get(plant.Stage(1, 0, scene, domain.EpisodeOptions{}))(t)
	outcome := require.Get(first.Apply(u))(t)
	if before, after := outcome.Named[:y.layout.marginAfter], outcome.Named[y.layout.marginAfter:]; slices.Min(before) < -MarginTolerance || slices.Min(after) != outcome.Margin || outcome.Margin > -10*MarginTolerance {
		t.Fatalf("the plain optimum's margins are %v before outages, %v after, in all %v", slices.Min(before), slices.Min(after), outcome.Margin)
	}
	params := require.Get(json.Marshal(plant.Params()))(t)
	again, ok, err := Embedded(name, params)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	drawn := require.Get(json.Marshal(first.Scene()))(t)
	second := require.Get(again.Plant.Replay(params, drawn))(t)
	if other := require.Get(second.Apply(u))(t); !slices.Equal(other.Named, outcome.Named) || other.Cost != outcome.Cost {
		t.Errorf("replayed: margin %v at %v, was %v at %v", other.Margin, other.Cost, outcome.Margin, outcome.Cost)
	}
	if _, err := Secure().Plant.Replay(params, drawn); err == nil || !strings.Contains(err.Error(), "security") {
		t.Errorf("params of another emergency factor: %v", err)
	}
	if _, _, err := Embedded(name, json.RawMessage(strings.Replace(string(params), `"security"`, `"safety"`, 1))); err == nil || !strings.Contains(err.Error(), "security is missing") {
		t.Errorf("params without security: %v", err)
	}
	if _, err := c.Remake(json.RawMessage(`{"security":{"outages":["branch 1"],"emergency":1.25,"voltage_band_pu":0.05}}`)); err == nil || !strings.Contains(err.Error(), "1 outages, this case has 35") {
		t.Errorf("a plant with fewer outages: %v", err)
	}
	if d := y.Device(); d.Name != "" || d.Reason == "" {
		t.Errorf("device functions: %+v", d)
	}
}
