package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/gif"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// arenaText is a trace of one robot that drives past a moving obstacle.
func arenaText() string {
	var b strings.Builder
	fmt.Fprintln(&b, `{"trace":1,"case":"arena","method":"some","seed":1,"params":{"dt":0.2,"goal_radius":0.35,"workspace":[-10,10,-10,10]}}`)
	fmt.Fprintln(&b, `{"episode":0,"scene":{"agents":[{"p":[0,0],"theta":0,"v":0,"r":0.3,"goal":[5,0]}],"obstacles":[{"c":[9,3],"v":[1,0],"r":0.5}]}}`)
	for t := range 20 {
		fmt.Fprintf(&b, `{"episode":0,"t":%d,"x":[0,0,0,0],"u":[0,0],"s":[%g,0,0,1],"sigma":[1],"J":[1],"margin":%g,"residual":null,"latency_us":1,"fallback":0}`+"\n", t, 0.2*float64(t+1), 3-0.1*float64(t))
	}
	fmt.Fprintln(&b, `{"episode":0,"end":{"cost":1,"oracle_cost":null,"safe":true,"collision_free":true,"completed":true}}`)
	return b.String()
}

// A recorded roll-out of robots gives its picture, its two traces over time and
// its animation, one frame per decision.
func TestARollOutIsDrawn(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(in, "arena.jsonl"), []byte(arenaText()), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write(out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"arena-trajectory.svg", "arena-distances.svg", "arena-margins.svg"} {
		if text, err := os.ReadFile(filepath.Join(out, "figures", name)); err != nil || !bytes.Contains(text, []byte("<svg")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "figures", "arena-some.gif"))
	if err != nil {
		t.Fatal(err)
	}
	animation, err := gif.DecodeAll(bytes.NewReader(text))
	if err != nil || len(animation.Image) != 20 {
		t.Fatalf("%d frames, error %v, want 20", len(animation.Image), err)
	}
}

// The obstacle of the drawing moves as the trace contract says: mirrored at the
// edge inset by its radius.
func TestDrawnObstaclesAreMirrored(t *testing.T) {
	a := arena{Dt: 0.2, Workspace: [4]float64{-10, 10, -10, 10}}
	var s arenaScene
	if err := json.Unmarshal([]byte(`{"obstacles":[{"c":[9.4,0],"v":[1,-0.5],"r":0.5}]}`), &s); err != nil {
		t.Fatal(err)
	}
	a.move(&s)
	if o := s.Obstacles[0]; fmt.Sprintf("%.6f %.6f", o.C, o.V) != "[9.400000 -0.100000] [-1.000000 -0.500000]" {
		t.Errorf("obstacle %+v", o)
	}
}
