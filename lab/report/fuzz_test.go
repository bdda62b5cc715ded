package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// drawAll makes all that a report has of the records, the animations aside. What cannot be
// drawn is an error, not a panic.
func drawAll(r *Records) {
	var p sheet
	for _, c := range r.chapters() {
		for _, s := range c.sections {
			p.section(&s)
			for _, f := range s.figures {
				f.SVG()
			}
		}
	}
}

// FuzzRecord: whatever a file of results holds, it is refused or drawn.
func FuzzRecord(f *testing.F) {
	cases := known()
	seen := map[string]bool{}
	files := require.Get(filepath.Glob("../results/*/*.json"))(f)
	more := require.Get(filepath.Glob("../results/*/*/*.json"))(f)
	for _, file := range append(files, more...) {
		text := require.Get(os.ReadFile(file))(f)
		r := New("", cases)
		require.OK(f, r.Add(text))
		if kind := kindOf(r); !seen[kind] && len(text) < 1<<15 {
			seen[kind] = true
			f.Add(text)
		}
	}
	for _, text := range malformedRecords {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := New("", cases)
		if r.Add(text) == nil {
			drawAll(r)
		}
	})
}

// kindOf is the type of the one record.
func kindOf(r *Records) string {
	for of := range r.lists {
		return of.String()
	}
	return ""
}

// malformedRecords are JSON, and of a kind, and not what its command writes.
var malformedRecords = []string{
	`{"case":"arena","front":[{"w":[1],"j":[],"oracle_j":[1,2]}],"j_range":null}`,
	`{"case":"arena","method":"navigator","front":[{"w":null,"j":[1,2],"oracle_j":[]}]}`,
	`{"case":"arena","method":"navigator","front":[{"w":[1,0,0],"j":[1,2,3],"oracle_j":[1,2,3],"compared":1},{"w":[1,0,0],"j":[1],"oracle_j":[1,2,3],"compared":1}]}`,
	`{"case":"arena","method":"navigator","front":[{"w":[1,0],"j":[1,2],"oracle_j":[1,2],"compared":1},{"j":[1e308,-1e308],"oracle_j":[1e308,1e308],"compared":1}]}`,
	`{"front":null}`, `{"method":null,"episodes":null}`, `{"pairs":null}`, `{"pairs":[null]}`, `{"comparisons":[]}`, `{"comparisons":null}`, `{"comparisons":[null]}`,
	`{"certificate":null,"recovery":{"median":[1,2],"p95":[],"max":null,"predicted":[1]}}`, `{"results":[null]}`, `{"suites":[null]}`, `{"results":[{"launch":{"grid":null},"calls":1}]}`, `{"curves":[null]}`, `{"curves":[{"axis":"batch","points":[{"x":1,"median_us":1e300,"median_ci95_us":[1e-300,1e300]},{"x":9,"median_us":1e-300,"median_ci95_us":[1,1]}]}]}`, `{"ratios":[null]}`, `{"attacks":[null]}`, `{"attacks":[{"tried":1,"survived":2}]}`,
	`{"canary_differing":null,"load":null,"broken":[""]}`, `{"late_causes":null,"releases":-1,"load":null}`, `{"benchmarks":[]}`, `{"benchmarks":[{"name":"BenchmarkMonitor/","metrics":null}]}`, `{"benchmarks":[{"name":"BenchmarkMonitor/integrator-convex/direct","metrics":{}}]}`, `{"recipes":null,"rows":[null,{"batch_ms":1e308}]}`, `{"peer":null,"rows":[null,{"op":"runopp","cost":null},{"peer_failed":" ","ratio":1e308}]}`,
	`{"case":"integrator-convex","method":"navigator","episodes":1,"regret_pct":1e308,"latency_us":{"p50":1e-300}}`,
	`{"case":"integrator-convex","pairs":[{"method":"navigator","regret_pct":-1,"latency_us":{"p50":-1}},{"method":"nmpc","regret_pct":1e300,"latency_us":{"p50":1e300}}]}`,
}

// FuzzTrace: a trace whose records are sealed is refused or drawn.
func FuzzTrace(f *testing.F) {
	cases := known()
	f.Add(arenaText())
	for _, text := range malformedTraces() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := New("", cases)
		if r.addTrace(strings.NewReader(resealed(text))) == nil {
			drawAll(r)
		}
	})
}

// resealed gives a text, sealed or not, its seals anew.
func resealed(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, `,"sha256":`) {
			before, rest, ok := strings.Cut(line, `,"before_sha256":"`)
			if _, scene, has := strings.Cut(rest, `"`); ok && has {
				line = before + scene
			}
			lines = append(lines, line)
		}
	}
	return sealed(strings.Join(lines, ""))
}

// malformedTraces are sealed, and read, and not what an evaluation writes.
func malformedTraces() []string {
	arena := strings.Replace(resealed(arenaText()), `"method":"some"`, `"method":"navigator"`, 1)
	plane := strings.Replace(arena, `"params":{`, `"params":{"ellipse":{"a":1,"b":1},`, 1)
	plane = strings.Replace(strings.Replace(plane, `"goal_radius":0.35,`, "", 1), `"scene":{`, `"scene":{"q0":[0,0],"p":[1,1],`, 1)
	states := strings.Replace(arena, `"goal_radius":0.35,`, "", 1)
	var all []string
	for _, text := range []string{arena, plane, states} {
		for _, change := range [][2]string{
			{`"s":[1`, `"s":[],"x":[1`}, {`"s":[0.2,0,0,1]`, `"s":[]`}, {`"s":[0.2,0,0,1]`, `"s":null`}, {`"s":[0.4,0,0,1]`, `"s":[0.4]`},
			{`"sigma":[1]`, `"sigma":[]`}, {`"sigma":[1]`, `"sigma":null`}, {`"sigma":[1]`, `"sigma":[1,2,3]`}, {`"s":[0.2,0`, `"s":[1e308,-1e308`},
			{`"margin":3`, `"margin":null`}, {`"dt":0.2`, `"dt":1e300`}, {`"workspace":[-10,10`, `"workspace":[-1e308,1e308`}, {`"p":[0,0]`, `"p":[1e300,0]`},
		} {
			if changed := strings.Replace(text, change[0], change[1], 1); changed != text {
				all = append(all, resealed(changed))
			}
		}
		var lines []string
		for line := range strings.Lines(text) {
			if !strings.Contains(line, `"t":`) {
				lines = append(lines, line)
			}
		}
		all = append(all, resealed(strings.Join(lines, "")))
	}
	return all
}

// A record that is no record, or a trace that nothing can be drawn of, is an error or
// something drawn, and never the end of the program.
func TestMalformedRecordsAreNoPanic(t *testing.T) {
	cases := known()
	for _, text := range malformedRecords {
		func() {
			defer func() {
				if what := recover(); what != nil {
					t.Errorf("%s: %v", text, what)
				}
			}()
			r := New("", cases)
			if r.Add([]byte(text)) == nil {
				drawAll(r)
			}
		}()
	}
	for _, text := range malformedTraces() {
		func() {
			defer func() {
				if what := recover(); what != nil {
					t.Errorf("%.2000s: %v", text, what)
				}
			}()
			r := New("", cases)
			if r.addTrace(strings.NewReader(text)) == nil {
				drawAll(r)
				r.animation(&r.Traces[0])
			}
		}()
	}
}
