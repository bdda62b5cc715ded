package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A roll-out keeps of a trace where bodies were, and the smallest margin of all its decisions, and
// draws three panels; one that lacks a point is refused.
func TestARolloutKeepsWhatItsFiguresShow(t *testing.T) {
	r, tr := sliding(t)
	lines := tr.Episodes[0].Lines
	for k := range lines {
		lines[k].Margin = closedloop.Number(1 + 0.001*float64(k))
	}
	lines[len(lines)-1].Margin = 0.125
	o := require.Get(r.NewRollout(tr))(t)
	least := math.Inf(1)
	for _, m := range o.Margin {
		least = min(least, m)
	}
	if least != 0.125 {
		t.Errorf("the smallest margin is %v, want 0.125", least)
	}
	whole := require.Get(r.motion(tr, &tr.Episodes[0]))(t)
	thin := require.Get(o.motion())(t)
	for i, s := range thin.Shapes[len(thin.Shapes)-1] {
		want := whole.Shapes[(len(thin.Shapes)-1)*o.Every][i]
		if s.Role != want.Role || math.Abs(s.Path[0][0]-want.Path[0][0]) > 0.5/millimetres {
			t.Errorf("shape %d ends at %v, want %v", i, s, want)
		}
	}
	text := require.Get(json.Marshal(o))(t)
	require.OK(t, r.Add(text))
	figures := r.rolloutFigures("cart")
	var names []string
	for _, f := range figures {
		names = append(names, f.Name)
		if _, err := f.SVG(); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if got := strings.Join(names, " "); got != "cart-episode-0-trajectory cart-episode-0-distances cart-episode-0-margins" {
		t.Errorf("figures %s", got)
	}
	for what, spoil := range map[string]func(o *Rollout){
		"want one of body": func(o *Rollout) { o.Shapes[0].Role = "wheel" },
		"points, want":     func(o *Rollout) { o.Shapes[0].Path, o.Shapes[0].Track = nil, o.Shapes[2].Track[:1] },
		"0 margins":        func(o *Rollout) { o.Margin = nil },
	} {
		var wrong Rollout
		require.OK(t, json.Unmarshal(text, &wrong))
		spoil(&wrong)
		if err := r.Add(require.Get(json.Marshal(&wrong))(t)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error with %q, got %v", what, err)
		}
	}
	known := New("here", nil)
	if _, err := known.NewRollout(tr); err == nil {
		t.Error("a case without pictures has a roll-out")
	}
}
