package multiagent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// A trace holds the robots of its scene and no padding, is confirmed by its
// re-simulation, and is not once a number in it has been changed.
func TestTraceIsConfirmedAndAlterationsAreFound(t *testing.T) {
	c := Static()
	path := filepath.Join(t.TempDir(), "static.jsonl")
	result, err := closedloop.Evaluate(context.Background(), &c, func() (domain.Controller, error) {
		m, _ := c.Method("reference")
		return m.New(domain.Means{})
	}, closedloop.Options{Method: "reference", Episodes: 3, Seed: 5, TracePath: path, Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		t.Fatal(err)
	}
	if result.GoalReached == nil || len(result.MarginsMean) != world.MarginKinds || len(result.Unsafe) != 3-int(float64(result.Safe)*3+0.5) {
		t.Errorf("result %+v", result)
	}
	// The oracle is the reference itself: no gap.
	if result.RegretN > 0 && result.GapPct != 0 {
		t.Errorf("the reference's gap to itself is %v %%", result.GapPct)
	}
	lookup := closedloop.VerifyOptions{Case: func(*closedloop.Header) (*domain.Case, bool, error) { return &c, false, nil }}
	v, err := closedloop.Verify(t.Context(), path, lookup)
	if err != nil || !v.OK {
		t.Fatalf("verification %+v, error %v", v, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(text, []byte("\n"))
	robots := bytes.Count(lines[1], []byte(`"theta"`))
	if n := strings.Count(textBetween(string(lines[2]), `"u":[`, `]`), ",") + 1; n != 2*robots {
		t.Errorf("u has %d numbers for %d robots", n, robots)
	}
	for _, change := range [][2]string{{`"margin":0.`, `"margin":0.1`}, {`"safe":true`, `"safe":false`}, {`"reached":true`, `"reached":false`}, {`"margins":[`, `"margins":[9`}, {`"u":[`, `"u":[-0.00001`}} {
		altered := strings.Replace(string(text), change[0], change[1], 1)
		if altered == string(text) {
			continue // nothing of the kind in these episodes
		}
		v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(altered), lookup)
		if err == nil && v.OK {
			t.Errorf("changing %s to %s is confirmed", change[0], change[1])
		}
	}
}

// The trace of a crowd names its robots, and is confirmed on a case that is made for as many.
func TestTraceOfACrowd(t *testing.T) {
	c := Moving()
	params, err := c.ForRobots(14)
	if err != nil {
		t.Fatal(err)
	}
	crowd, _, err := closedloop.Remade(&c, params)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "crowd.jsonl")
	if _, err := closedloop.Evaluate(context.Background(), &crowd, func() (domain.Controller, error) {
		m, _ := crowd.Method("distributed-1")
		return m.New(domain.Means{Candidates: 64})
	}, closedloop.Options{Method: "distributed-1", Episodes: 1, Seed: 5, TracePath: path, Preference: domain.Preference{Adaptive: true}}); err != nil {
		t.Fatal(err)
	}
	v, err := closedloop.Verify(t.Context(), path, closedloop.VerifyOptions{Case: func(h *closedloop.Header) (*domain.Case, bool, error) {
		on, embedded, err := h.On(&c)
		return &on, embedded, err
	}})
	if err != nil || !v.OK {
		t.Errorf("verification %+v, error %v", v, err)
	}
	for _, n := range []int{0, 12, 5000} {
		if _, err := c.ForRobots(n); err == nil {
			t.Errorf("%d robots are a crowd", n)
		}
	}
}

// The trace of robots that enter and leave is confirmed, its contexts say who waits outside, and it is not confirmed where one enters at
// another time.
func TestTraceOfRobotsThatEnterAndLeave(t *testing.T) {
	c := Static()
	path := filepath.Join(t.TempDir(), "enter.jsonl")
	scene := `{"agents":[{"p":[0,0],"theta":0,"v":0,"r":0.3,"goal":[0,0],"leaves":4},` +
		`{"p":[0.2,0],"theta":0,"v":0,"r":0.3,"goal":[6,0],"enters":1,"leaves_at_goal":true}],"obstacles":[]}`
	scenes := &closedloop.Scenes{Files: []closedloop.NamedScene{{Name: "enter.json", SceneFile: closedloop.SceneFile{Version: 1, Case: "multiagent-static", Scene: []byte(scene)}}}, SHA256: strings.Repeat("0", 64)}
	result, err := closedloop.Evaluate(context.Background(), &c, func() (domain.Controller, error) {
		m, _ := c.Method("distributed-1")
		return m.New(domain.Means{Candidates: 256})
	}, closedloop.Options{Method: "distributed-1", Episodes: 1, Scenes: scenes, TracePath: path, Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		t.Fatal(err)
	}
	if result.Safe != 1 {
		t.Errorf("unsafe: %+v", result.Unsafe)
	}
	lookup := closedloop.VerifyOptions{Case: func(h *closedloop.Header) (*domain.Case, bool, error) {
		on, embedded, err := h.On(&c)
		return &on, embedded, err
	}}
	if v, err := closedloop.Verify(t.Context(), path, lookup); err != nil || !v.OK {
		t.Fatalf("verification %+v, error %v", v, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), ",0.3,-0.3,0,"); n < 15 || n > 20 { // radii: the second waits
		t.Errorf("it waits in %d decisions", n)
	}
	waits := strings.Index(string(text), ",0.3,-0.3,0,")
	u := waits + strings.Index(string(text[waits:]), `"u":[0,0,0,0]`)
	altered := string(text[:u]) + `"u":[0,0,0.1,0]` + string(text[u+len(`"u":[0,0,0,0]`):])
	if v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(altered), lookup); err == nil && v.OK {
		t.Error("that it enters earlier is confirmed")
	}
}

// textBetween is the text between two marks.
func textBetween(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}
