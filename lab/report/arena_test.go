package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// arenaText is a trace of one robot that drives past a moving obstacle.
func arenaText() string {
	var b strings.Builder
	fmt.Fprintln(&b, `{"trace":2,"case":"arena","method":"some","seed":1,"params":{"dt":0.2,"goal_radius":0.35,"workspace":[-10,10,-10,10]},"episodes":1,"shard":[0,1]}`)
	fmt.Fprintln(&b, `{"episode":0,"scene":{"agents":[{"p":[0,0],"theta":0,"v":0,"r":0.3,"goal":[5,0]}],"obstacles":[{"c":[9,3],"v":[1,0],"r":0.5}]}}`)
	for t := range 20 {
		fmt.Fprintf(&b, `{"episode":0,"t":%d,"x":[0,0,0,0],"u":[0,0],"s":[%g,0,0,1],"sigma":[1],"J":[1],"margin":%g,"residual":null,"latency_us":1,"fallback":0}`+"\n", t, 0.2*float64(t+1), 3-0.1*float64(t))
	}
	fmt.Fprintln(&b, `{"episode":0,"end":{"cost":1,"oracle_cost":null,"safe":true,"collision_free":true,"completed":true}}`)
	return sealed(b.String())
}

// A trace of a case that is not known gives time lines and an animation of them.
func TestATraceAloneIsShown(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	require.OK(t, os.WriteFile(filepath.Join(in, "arena.jsonl"), []byte(arenaText()), 0o644))
	if dirs := require.Get(Devices(in))(t); len(dirs) != 1 || dirs[0] != in {
		t.Fatalf("a folder of traces gives %v", dirs)
	}
	r := require.Get(Load(t.Context(), in, known()))(t)
	require.Get(r.Write(t.Context(), out))(t)
	for _, name := range []string{"arena-states-1.svg", "arena-actions-1.svg", "arena-margins.svg"} {
		if text, err := os.ReadFile(filepath.Join(out, "figures", name)); err != nil || !bytes.Contains(text, []byte("<svg")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text := require.Get(os.ReadFile(filepath.Join(out, "figures", "arena-some-motion.svg")))(t)
	if frames := bytes.Count(text, []byte(";")); !bytes.Contains(text, []byte("<animate ")) || frames < 15 {
		t.Fatalf("%d frames, want one for most of 20 decisions", frames)
	}
}

// A case whose evaluations have goals gets their table: safety, arrival, gap and
// every kind of margin, nothing about regret.
func TestGoalsHaveTheirOwnTable(t *testing.T) {
	_, page := reported(t, `{"case":"arena","method":"planner","seed":7,"commit":"c","device":"d","episodes":3,"safe":0.5,"unsafe":[{"episode":2,"cause":"robot 1 was late"}],"collision_free":1,"gap_pct":-1.25,"gap_sem_pct":0.5,"regret_n":2,
		"margin_mean":0.31,"margin_sem":0.02,"margins_mean":{"pair":0.7,"wall":0.4},"reached":0.75,"at_end":0.25,"latency_us":{"p50":2000,"p95":1,"p99":9000},"ci95":{"safe":[0.1,0.9],"collision_free":[0.4,1]}}`)
	for _, want := range []string{
		"| method | episodes | safe | 95 % interval | safe % (paper) | collision-free | collision-free % (paper) | reached | at end | gap % | n | median | p90 | gap % (paper) | cost less `planner`'s, % [95 %] | median | n | scene margin | ± s.e.m. | margin (paper) | pair | wall | decision p50 / p99 (first), ms |",
		"| 7 | 2 | robot 1 was late |",
		"| planner | 3 | 0.5000 | [0.1000, 0.9000] | – | 1.0000 | – | 0.7500 | 0.2500 | -1.250 ± 6.353 | 2 | – | – | – | – | – | – | 0.310 | 0.020 | – | 0.700 | 0.400 | 2.0000 / 9.0000 of all |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %s", want)
		}
	}
}
