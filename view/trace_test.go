package view_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/view"
)

// recorded is a trace of some episodes.
func recorded(t *testing.T, name string, episodes int) string {
	t.Helper()
	k := paper.Cases()
	own := require.Get(k.Find(name))(t)
	def := *own.Definition()
	def.Plant = blind{def.Plant}
	c := require.Get(gpc.NewCase(def))(t)
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	require.Get(c.Evaluate(t.Context(), gpc.Setup{Method: "direct", Model: require.Get(own.Model(""))(t)}, engine.Options{Backend: "cpu", Threads: 1}, closedloop.Options{
		Episodes: episodes, Seed: 991, Preference: domain.Preference{Adaptive: true}, TracePath: file,
	}))(t)
	return file
}

func TestATraceIsShown(t *testing.T) {
	k := paper.Cases()
	file := recorded(t, "integrator-convex", 2)
	p := open(t, require.Get(view.OpenTrace(t.Context(), &k, file))(t))
	d := get[view.Description](p, "case")
	if d.Kind != "trace" || d.Steers || d.Method != "direct" || len(d.Episodes) != 2 || len(d.Warnings) != 0 || len(d.Objectives) != 2 || !d.Episodes[0].Safe {
		t.Fatalf("described as %+v", d)
	}
	in := require.Get(os.Open(file))(t)
	defer in.Close()
	r := require.Get(closedloop.NewReader(in))(t)
	for episode := range 2 {
		e := require.Get(r.Next())(t)
		s := p.post("reset", fmt.Sprintf(`{"episode":%d}`, episode))
		if s.Last != len(e.Lines) || s.K != 0 {
			t.Fatalf("episode %d of %d decisions is shown as %+v", episode, len(e.Lines), s)
		}
		for i := range e.Lines {
			f := get[view.Frame](p, fmt.Sprintf("frame?k=%d", i+1))
			l := &e.Lines[i]
			if !slices.Equal(f.S, []float64(l.S)) || !slices.Equal(f.U, []float64(l.U)) || f.Margin != float64(l.Margin) || f.LatencyUs != float64(l.Latency) || len(f.Shapes) != 3 {
				t.Fatalf("decision %d is shown as %+v, the trace has %+v", i, f, l)
			}
			if at := f.Shapes[2].Path[0]; at != [2]float64{l.S[0], l.S[1]} {
				t.Fatalf("decision %d leads to %v and is drawn at %v", i, l.S[:2], at)
			}
		}
	}
	p.refused("POST", "/view/reset", `{"episode":2}`, 400, "episode")
	p.refused("POST", "/view/preference", `{"w":[1,0]}`, 409, "")
	p.refused("GET", "/view/exact", "", 409, "")
	if s := p.post("reset", `{"episode":null}`); s.Last == 0 {
		t.Errorf("the next episode is shown as %+v", s)
	}
	// It plays to its end and stands there; then it plays from the beginning.
	p.post("rate", `{"hz":1000}`)
	next := p.stream()
	next("frame")
	p.post("pause", `{"paused":false}`)
	var stopped view.State
	require.Until(t, "it has played to the end", func() bool {
		stopped = get[view.State](p, "state")
		return !stopped.Playing
	})
	if stopped.K != stopped.Last || stopped.Fault != "" {
		t.Errorf("it has stopped at %+v", stopped)
	}
	// Frames come faster than they are sent; the one at which it stands is sent all the same.
	p.post("seek", `{"k":0}`)
	shown := -1
	for {
		var f view.Frame
		if require.OK(t, json.Unmarshal([]byte(next("frame")), &f)); f.K == 0 {
			break
		}
		shown = f.K
	}
	if shown != stopped.Last {
		t.Errorf("it stands at decision %d and shows %d", stopped.Last, shown)
	}
	p.post("seek", fmt.Sprintf(`{"k":%d}`, stopped.Last))
	if s := p.post("step", `{"by":1}`); s.K != s.Last {
		t.Errorf("a step behind the end leads to %+v", s)
	}
	if s := p.post("step", `{"by":-1}`); s.K != s.Last-1 {
		t.Errorf("a step back leads to %+v", s)
	}
	if s := p.post("seek", `{"k":0}`); s.K != 0 {
		t.Errorf("seek leads to %+v", s)
	}
	if s := p.post("step", `{"by":-1}`); s.K != 0 {
		t.Errorf("a step before the beginning leads to %+v", s)
	}
}

// A network is drawn from the trace alone.
func TestATraceOfANetwork(t *testing.T) {
	k := paper.Cases()
	p := open(t, require.Get(view.OpenTrace(t.Context(), &k, recorded(t, "opf30", 1)))(t))
	d := get[view.Description](p, "case")
	if len(d.Grid.Positions) != 30 || len(d.Grid.Branches) != 41 || len(d.Grid.Units) != 6 {
		t.Fatalf("the map has %d positions, %d branches, %d units", len(d.Grid.Positions), len(d.Grid.Branches), len(d.Grid.Units))
	}
	f := get[view.Frame](p, "frame?k=300")
	sum := func(v []float64) (s float64) {
		for _, x := range v {
			s += x
		}
		return s
	}
	if losses := sum(f.Grid.Pg) - sum(f.Grid.Pd); !(losses > 0 && losses < 0.1*sum(f.Grid.Pd)) {
		t.Errorf("the units give %v pu, the loads take %v", sum(f.Grid.Pg), sum(f.Grid.Pd))
	}
	for i, v := range f.Grid.V {
		if math.Abs(v-f.S[i]) > 1e-9 {
			t.Errorf("bus %d is drawn at %v pu and recorded at %v", i, v, f.S[i])
		}
	}
}

// Whatever is wrong with a trace is an error of the input or a warning, and what is whole is
// shown.
func TestHostileTraces(t *testing.T) {
	k := paper.Cases()
	file := recorded(t, "integrator-convex", 2)
	text := string(require.Get(os.ReadFile(file))(t))
	lines := strings.SplitAfter(text, "\n")
	again := func(name, text string) (*view.Trace, error) {
		path := filepath.Join(t.TempDir(), name)
		require.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return view.OpenTrace(t.Context(), &k, path)
	}
	for name, text := range map[string]string{
		"empty": "", "binary": "\x00\xff\x00\n", "header-only": lines[0], "no-json": "trace\n" + text,
		"other-case":  strings.Replace(text, `"case":"integrator-convex"`, `"case":"opf:../../etc/passwd"`, 1),
		"short-first": strings.Join(lines[:10], ""),
		"wide":        lines[0] + lines[1] + strings.Replace(lines[2], `"u":[`, `"u":[1,2,3,`, 1) + strings.Join(lines[3:], ""),
		"wide-sigma":  lines[0] + lines[1] + strings.Replace(lines[2], `"J":[`, `"J":[1,2,3,`, 1) + strings.Join(lines[3:], ""),
		"deep":        strings.Repeat("[", 1<<20),
	} {
		_, err := again(name, text)
		if !errors.As(err, new(gpc.InputError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := view.OpenTrace(t.Context(), &k, t.TempDir()); err == nil {
		t.Error("a folder is a trace")
	}
	for name, c := range map[string]struct {
		text  string
		says  string
		drawn bool
	}{
		"cut":     {text[:len(text)-100], "ends inside an episode", true},
		"changed": {strings.Replace(text, `"margin":`, `"margin":1`, 1), "was changed after it was recorded", true},
		"scene":   {strings.Replace(text, `"scene":{`, `"scene":{"s0":null,"`, 1), "cannot be replayed", false},
	} {
		tr, err := again(name, c.text)
		if name == "scene" {
			tr, err = again(name, lines[0]+lines[1][:strings.Index(lines[1], `"scene":`)]+`"scene":{"s0":[1e308]}}`+"\n"+strings.Join(lines[2:], ""))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := tr.Describe()
		if !strings.Contains(strings.Join(d.Warnings, "\n"), c.says) {
			t.Errorf("%s: the warnings are %q, want one that says %q", name, d.Warnings, c.says)
		}
		if f := tr.Frame(5); f.U == nil || (len(f.Shapes) > 0) != c.drawn {
			t.Errorf("%s: frame 5 is %+v", name, f)
		}
	}
}
