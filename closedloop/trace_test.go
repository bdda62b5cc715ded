package closedloop

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

const (
	headerText   = `{"trace":3,"case":"c","params":{},"margin_tolerance":0,"episodes":2,"shard":[0,1],"margins":["m"]}`
	decisionText = `{"episode":0,"t":0,"x":[1],"u":[2],"s":[3],"sigma":[1],"J":[1],"margin":null,"residual":null,"latency_us":1,"fallback":0,"displacement":null}`
	endText      = `{"episode":0,"end":{"cost":1,"oracle_cost":null,"safe":true,"collision_free":true,"completed":true}}`
)

// sealedTrace writes records of lines with their hashes; the first is the header.
func sealedTrace(header string, episodes ...[]string) string {
	var text strings.Builder
	last := durable.Sum(sha256.Sum256([]byte(header + "\n")))
	text.WriteString(header + "\n")
	for _, lines := range episodes {
		record := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "BEFORE", last)
		last = durable.Sum(sha256.Sum256([]byte(record)))
		fmt.Fprintf(&text, "%s{\"episode\":%d,\"sha256\":%q}\n", record, int(lines[0][len(`{"episode":`)]-'0'), last)
	}
	return text.String()
}

// episodeText are the lines of an episode with one decision.
func episodeText(number int) (lines []string) {
	for _, line := range []string{`{"episode":0,"before_sha256":"BEFORE","scene":{}}`, decisionText, endText} {
		lines = append(lines, strings.Replace(line, `"episode":0`, fmt.Sprintf(`"episode":%d`, number), 1))
	}
	return lines
}

func readAll(text string) (episodes []*EpisodeRecord, err error) {
	_, err = ReadTrace(strings.NewReader(text), func(e *EpisodeRecord) error {
		episodes = append(episodes, e)
		return nil
	})
	return episodes, err
}

// A trace is read with the places of its records; each thing that it cannot be is refused by its line and by what is wrong.
func TestATraceIsReadOrRefusedByItsLine(t *testing.T) {
	good := sealedTrace(headerText, episodeText(0), episodeText(1))
	episodes, err := readAll(good)
	if err != nil || len(episodes) != 2 {
		t.Fatal(err)
	}
	for i, e := range episodes {
		if e.Episode != i || e.SceneLine != 2+4*i || e.Lines[0].Line != 3+4*i || e.EndLine != 4+4*i || e.Damage != "" || len(e.Lines) != 1 || e.Lines[0].T != 0 || e.Lines[0].Episode != i || !e.End.Safe {
			t.Errorf("%+v", e)
		}
		if end := strings.Join(strings.SplitAfter(good, "\n")[:5+4*i], ""); e.EndOffset != int64(len(end)) {
			t.Errorf("episode %d ends at %d, want %d", i, e.EndOffset, len(end))
		}
		if !math.IsNaN(float64(e.Lines[0].Margin)) {
			t.Errorf("a margin that is null is %v", e.Lines[0].Margin)
		}
	}
	if free, err := readAll(sealedTrace(strings.Replace(headerText, `["m"]`, `null`, 1), episodeText(0), episodeText(1))); err != nil || !math.IsInf(float64(free[0].Lines[0].Margin), 1) {
		t.Errorf("without limits a margin is %v, %v", free[0].Lines[0].Margin, err)
	}
	header := func(old, with string) string {
		return sealedTrace(strings.Replace(headerText, old, with, 1), episodeText(0), episodeText(1))
	}
	episode := func(line int, old, with string) string {
		lines := episodeText(0)
		lines[line] = strings.Replace(lines[line], old, with, 1)
		return sealedTrace(headerText, lines, episodeText(1))
	}
	cut := strings.SplitAfter(good, "\n")
	seal := func(old, with string) string {
		return strings.Join(cut[:4], "") + strings.Replace(cut[4], old, with, 1) + strings.Join(cut[5:], "")
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"no JSON", "x\n", "is this a trace"},
		{"version 1", header(`"trace":3`, `"trace":1`), "line 1: the header has \"trace\": 1"},
		{"version 2", header(`"trace":3`, `"trace":2`), ""},
		{"version 4", header(`"trace":3`, `"trace":4`), "reads versions 2 and 3"},
		{"an unknown key", header(`"case"`, `"wind":1,"case"`), "header: "},
		{"half a header", headerText, "header: the trace ends inside"},
		{"no case", header(`"c"`, `""`), "lacks \"case\""},
		{"no params", header(`"params":{},`, ``), "lacks \"case\""},
		{"a tolerance below 0", header(`"margin_tolerance":0`, `"margin_tolerance":-1`), "margin tolerance -1"},
		{"no shards", header(`[0,1]`, `[0,0]`), "shard 0/0"}, {"a shard below 0", header(`[0,1]`, `[-1,1]`), "shard -1/1"}, {"a shard too many", header(`[0,1]`, `[1,1]`), "shard 1/1"},
		{"no episodes", header(`"episodes":2`, `"episodes":0`), "header has 0 episodes"}, {"too many", header(`"episodes":2`, `"episodes":10000001`), "header has 10000001"},
		{"as many as may be", header(`"episodes":2`, `"episodes":10000000`), "holds 2 of its 10000000"},
		{"one episode", sealedTrace(headerText, episodeText(0)), "holds 1 of its 2"}, {"none", headerText + "\n", "holds 0 of its 2"},
		{"another number", sealedTrace(headerText, episodeText(1), episodeText(0)), "line 2: episode 1, want 0"},
		{"a third", sealedTrace(headerText, episodeText(0), episodeText(1), episodeText(2)), "line 10: continues after the last of the 2"},
		{"no scene", episode(0, `,"scene":{}`, ``), "line 2: want the first line of an episode"}, {"no number", episode(0, `"episode":0,`, `"episode":null,`), "line 2: want the first line"},
		{"a number below 0", sealedTrace(headerText, []string{`{"episode":-1,"before_sha256":"BEFORE","scene":{}}`}), "line 2: episode -1"},
		{"another hash before", episode(0, `BEFORE`, `xy`), "line 2: before_sha256 is \"xy\""},
		{"of another episode", episode(1, `"episode":0`, `"episode":1`), "line 3: does not belong to episode 0"}, {"of none", episode(1, `"episode":0,`, ``), "line 3: does not belong to episode 0"},
		{"no time", episode(1, `"t":0,`, ``), "line 3: want decision t = 0"}, {"another time", episode(1, `"t":0`, `"t":1`), "line 3: want decision t = 0 of episode 0"},
		{"unknown in a decision", episode(1, `"x"`, `"y"`), "line 3: "},
		{"no seal", seal(`"sha256"`, `"before_sha256"`), "line 5: "}, {"an empty seal", seal(`"sha256":"`, `"sha256":"","x":"`), "line 5: "}, {"a seal of nothing", seal(cut[4], "{\"episode\":0,\"sha256\":\"\"}\n"), "line 5: want the seal of episode 0"},
		{"a seal of another", seal(`"episode":0`, `"episode":1`), "line 5: want the seal of episode 0"}, {"a seal of none", seal(`"episode":0,`, ``), "line 5: want the seal of episode 0"},
		{"another seal", seal(`"sha256":"`, `"sha256":"0`), "line 2: sha256 is"},
		{"cut in a seal", strings.Join(cut[:4], "") + cut[4][:9], "line 5: the trace ends inside an episode (no newline)"}, {"cut before a seal", strings.Join(cut[:4], ""), "line 5: the trace ends inside an episode"},
		{"cut in a decision", strings.Join(cut[:2], "") + cut[2][:9], "line 3: the trace ends inside an episode (no newline)"}, {"cut before a decision", strings.Join(cut[:2], ""), "line 3: the trace ends inside"},
	} {
		if _, err := readAll(c.text); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	// A hash that was changed stands before those that follow from it.
	if got, err := NewReader(strings.NewReader(seal(`"sha256":"`, `"sha256":"0`))); err != nil {
		t.Error(err)
	} else if first := require.Get(got.Next())(t); !strings.Contains(first.Damage, "its lines have") {
		t.Errorf("%q", first.Damage)
	} else if second := require.Get(got.Next())(t); !strings.Contains(second.Damage, "before_sha256") {
		t.Errorf("%q", second.Damage)
	}
	stop := errors.New("stop")
	if _, err := ReadTrace(strings.NewReader(good), func(*EpisodeRecord) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a reader that stops: %v", err)
	}
	for _, at := range []int{0, 20, len(cut[0]) + 5} {
		broken := io.MultiReader(strings.NewReader(good[:at]), iotest.ErrReader(stop))
		if _, err := ReadTrace(broken, func(*EpisodeRecord) error { return nil }); !errors.Is(err, stop) {
			t.Errorf("broken at %d: %v", at, err)
		}
	}
}

// endless gives a byte for ever.
type endless byte

func (b endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// A line, an episode and a trace are as long as they may be, and no longer.
func TestTracesAreBounded(t *testing.T) {
	if MaxLineBytes != 67108864 || MaxEpisodeBytes != 536870912 || MaxTraceBytes != 68719476736 || MaxVectorLength != 65536 || MaxEpisodeSteps != 1048576 {
		t.Error("the bounds are not the documented 64 MiB, 512 MiB, 64 GiB, 65536 and 1048576")
	}
	line := func(size, before, offset int64) error {
		r := &Reader{source: bufio.NewReaderSize(io.MultiReader(io.LimitReader(endless('x'), size-1), strings.NewReader("\n")), 1<<16), record: nothing{}, bytes: before, offset: offset}
		text, err := r.next()
		if err == nil && (int64(len(text)) != size-1 || r.bytes != before+size || r.offset != offset+size || r.line != 1 || !r.complete) {
			t.Errorf("a line of %d bytes is read as %d", size, len(text))
		}
		return err
	}
	for _, c := range []struct {
		size, before, offset int64
		want                 string
	}{
		{MaxLineBytes, 0, 0, ""}, {MaxLineBytes + 1, 0, 0, "longer than"}, {10, MaxEpisodeBytes - 10, 0, ""}, {10, MaxEpisodeBytes - 9, 0, "the episode has more than"},
		{10, 0, MaxTraceBytes - 10, ""}, {10, 0, MaxTraceBytes - 9, "the trace has more than"},
	} {
		if err := line(c.size, c.before, c.offset); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for n, ok := range map[int]bool{MaxVectorLength: true, MaxVectorLength + 1: false} {
		var v Vector
		err := json.Unmarshal([]byte("["+strings.Repeat("0,", n-1)+"0]"), &v)
		if (err == nil) != ok || ok && len(v) != n {
			t.Errorf("a list of %d: %v", n, err)
		}
	}
}

// nothing is a hash that is not read.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Sum(b []byte) []byte         { return b }
func (nothing) Reset()                      {}
func (nothing) Size() int                   { return 0 }
func (nothing) BlockSize() int              { return 1 }

// A list is null where there is none, and has null where an entry is no finite number, which is read as NaN.
func TestVectorsAsJSON(t *testing.T) {
	for _, c := range []struct {
		v          Vector
		text, back string
	}{{nil, "null", "[]"}, {Vector{}, "[]", "[]"}, {Vector{1, math.NaN(), math.Inf(-1)}, "[1,null,null]", "[1 NaN NaN]"}} {
		text := string(require.Get(json.Marshal(c.v))(t))
		back := Vector{5}
		if err := json.Unmarshal([]byte(text), &back); err != nil || text != c.text || fmt.Sprint(back) != c.back || (back == nil) != (c.v == nil) {
			t.Errorf("%v: %s, read as %v, %v", c.v, text, back, err)
		}
	}
	var v Vector
	if err := json.Unmarshal([]byte(`["x"]`), &v); err == nil {
		t.Errorf("a word is read as %v", v)
	}
}

// A shard has every n-th episode, beginning with its own number.
func TestAShardCountsItsEpisodes(t *testing.T) {
	for episodes := 1; episodes < 12; episodes++ {
		for n := 1; n < 5; n++ {
			total := 0
			for i := range n {
				h, want := Header{Episodes: episodes, Shard: [2]int{i, n}}, 0
				for e := i; e < episodes; e += n {
					want++
				}
				if total += want; i < episodes && h.count() != want {
					t.Errorf("shard %d/%d of %d episodes has %d, want %d", i, n, episodes, h.count(), want)
				}
			}
		}
	}
}

// A run goes on in a trace of the same header but for the threads of its device; what differs is named, with both values.
func TestARunIsTheSameButForItsThreads(t *testing.T) {
	one := Header{Trace: 3, Case: "c", Params: json.RawMessage(`{"a":1,"b":2}`), Device: "cpu, 8 threads", Episodes: 3}
	other := one
	other.Device, other.Params = "cpu, 16 threads", json.RawMessage(`{"b":2, "a":1.0}`)
	if d := one.sameRun(&other); d != "" {
		t.Error(d)
	}
	other.Device, other.Noise, other.Bias = "cpu, 8 threads here", 0.5, 0.25
	if d := one.sameRun(&other); d != `its header has bias absent, this run's is 0.25; device "cpu", this run's is "cpu, 8 threads here"; noise 0, this run's is 0.5` {
		t.Error(d)
	}
	other = one
	other.Params = json.RawMessage(`{`)
	if one.sameRun(&other) != "its header cannot be compared" || other.sameRun(&one) != "its header cannot be compared" {
		t.Errorf("params that are no JSON: %q", one.sameRun(&other))
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{{"", "", true}, {"1", "", false}, {"", "1", false}, {"[1,2]", "[1, 2]", true}, {"[1,2]", "[2,1]", false}, {"x", "x", false}, {"1", "x", false}, {"x", "1", false}} {
		raw := func(text string) json.RawMessage {
			if text == "" {
				return nil
			}
			return json.RawMessage(text)
		}
		if got := sameJSON(raw(c.a), raw(c.b)); got != c.same {
			t.Errorf("%q and %q are the same: %v", c.a, c.b, got)
		}
	}
}

// A header says the number of decisions where it is not the problem's own, and an episode says what it has of state and action.
func TestSizesAndStepsOfAPlant(t *testing.T) {
	for steps, want := range map[int]int{0: 0, 20: 0, 7: 7} {
		if got := stepsOf(&Simulation{Problem: bar{}, Steps: steps}); got != want {
			t.Errorf("%d steps of 20 are %d in a header", steps, got)
		}
	}
	if stepsOf(struct{ domain.Plant }{&Simulation{Problem: bar{}, Steps: 7}}) != 0 {
		t.Error("the steps of another plant are known")
	}
	part := &judged{abilities: domain.EpisodeAbilities{Sizes: func() (int, int) { return 4, 3 }}}
	if s, u := sizes(bar{}.Spec(), part); s != 4 || u != 3 {
		t.Errorf("sizes %d and %d", s, u)
	}
	if s, u := sizes(measuredBar(false).Problem.Spec(), &judged{}); s != 1 || u != 1 {
		t.Errorf("sizes %d and %d", s, u)
	}
}

// unwritable are the params of a plant that no JSON holds.
type unwritable struct{ domain.Plant }

func (unwritable) Params() any { return math.NaN() }

// A header has what the run was asked for, and is refused where the plant cannot be described.
func TestAHeaderIsOfItsRun(t *testing.T) {
	c := &domain.Case{Problem: bar{}, Shift: map[string]float64{"g": 2}, Other: &domain.OtherPlant{ProblemSHA256: "x"}}
	opt := Options{Method: "m", Episodes: 9, Seed: 8, ShardIndex: 2, ShardCount: 3, Noise: 0.5, Bias: 0.25, Regime: "storm", Preference: domain.Preference{W: []float64{1}}, Commit: "co", Device: "d",
		Backend: "b", ISA: "i", ModelSHA256: "h", Candidates: 7, Computing: &Computing{1, 2}, Scenes: &Scenes{SHA256: "s"}}
	plant := &Simulation{Problem: bar{}, Steps: 7}
	h := require.Get(newHeader(c, plant, &opt))(t)
	text := string(require.Get(json.Marshal(h))(t))
	for _, want := range []string{`"trace":3`, `"case":"bar"`, `"method":"m"`, `"seed":8`, `"steps":7`, `"commit":"co"`, `"device":"d"`, `"backend":"b"`, `"isa":"i"`, `"model_sha256":"h"`, `"candidates":7`, `"noise":0.5`,
		`"bias":0.25`, `"shift":{"g":2}`, `"plant":{`, `"computing_us":{"p50":1,"p99":2}`, `"regime":"storm"`, `"scenes_sha256":"s"`, `"guard":{`, `"episodes":9`, `"shard":[2,3]`, `"margins":["m"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	c.Guard.Off, opt.Scenes = true, nil
	if h := require.Get(newHeader(c, plant, &opt))(t); h.Guard != nil || h.ScenesSHA256 != "" || h.Steered {
		t.Errorf("%+v", h)
	}
	if _, err := newHeader(c, unwritable{}, &opt); err == nil || !strings.Contains(err.Error(), "plant parameters") {
		t.Errorf("a plant without a description: %v", err)
	}
}

// What an evaluation is asked for is within its bounds, each of which it reaches.
func TestOptionsAreWithinTheirBounds(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	scenes := &Scenes{Files: make([]NamedScene, 2)}
	for i, c := range []struct {
		want   string
		change func(o *Options)
	}{
		{"", func(*Options) {}}, {"Episodes", func(o *Options) { o.Episodes = 0 }}, {"", func(o *Options) { o.Episodes = 1 }}, {"", func(o *Options) { o.Episodes = 10_000_000 }}, {"Episodes", func(o *Options) { o.Episodes = 10_000_001 }},
		{"shard -1/1", func(o *Options) { o.ShardIndex = -1 }}, {"shard 1/1", func(o *Options) { o.ShardIndex = 1 }}, {"", func(o *Options) { o.ShardIndex, o.ShardCount = 1, 2 }}, {"shard 0/-1", func(o *Options) { o.ShardCount = -1 }},
		{"Noise", func(o *Options) { o.Noise = -1 }}, {"Noise", func(o *Options) { o.Noise = nan }}, {"Noise", func(o *Options) { o.Noise = inf }}, {"", func(o *Options) { o.Noise = 1 }},
		{"Bias", func(o *Options) { o.Bias = -1 }}, {"Bias", func(o *Options) { o.Bias = nan }}, {"Bias", func(o *Options) { o.Bias = inf }}, {"", func(o *Options) { o.Bias = 1 }},
		{"observations every", func(o *Options) { o.Interval = -1 }}, {"", func(o *Options) { o.Interval = 1 }},
		{"", func(o *Options) { o.Scenes = scenes }}, {"2 given scenes", func(o *Options) { o.Scenes, o.Episodes = scenes, 3 }}, {"2 given scenes", func(o *Options) { o.Scenes, o.Regime = scenes, "storm" }},
		{"Resume", func(o *Options) { o.Resume = true }}, {"", func(o *Options) { o.Resume, o.TracePath = true, "t" }},
		{"computing time", func(o *Options) { o.Computing = &Computing{2, 1} }}, {"", func(o *Options) { o.Computing = &Computing{1, 2} }}, {"preference", func(o *Options) { o.Preference = domain.Preference{} }},
	} {
		o := Options{Episodes: 2, Preference: domain.Preference{Adaptive: true}}
		c.change(&o)
		if err := o.Validate(bar{}.Spec()); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && o.ShardCount < 1 {
			t.Errorf("request %d: %v, want %q", i, err, c.want)
		}
	}
}

// Outcomes come out ascending by number, each with its own values.
func TestOutcomesAreSorted(t *testing.T) {
	var o Outcomes
	for _, e := range []int{4, 1, 3} {
		o.add(&EpisodeRecord{Episode: e, End: End{Safe: e == 3, Cost: Number(10 * e), OracleCost: Number(e)}})
	}
	got := o.sorted()
	if want := (&Outcomes{[]int{1, 3, 4}, []bool{false, true, false}, Vector{10, 30, 40}, Vector{1, 3, 4}}); fmt.Sprint(got) != fmt.Sprint(want) || got.Validate() != nil {
		t.Errorf("%v, want %v", got, want)
	}
	for i := range 3 {
		short := *got
		[]func(){func() { short.Safe = short.Safe[1:] }, func() { short.Cost = short.Cost[1:] }, func() { short.Oracle = slices.Concat(short.Oracle, Vector{1}) }}[i]()
		if short.Validate() == nil {
			t.Errorf("%v is taken", short)
		}
	}
}

// Shards of other cases and files that are no traces are refused by name, and of many missing shards a hundred are named.
func TestJoinNamesWhatItRefuses(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "t.jsonl")
		require.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	header := strings.Replace(headerText, `[0,1]`, `[3,104]`, 1)
	header = strings.Replace(header, `"episodes":2`, `"episodes":104`, 1)
	one := write(sealedTrace(header))
	spec := &domain.Spec{Name: "c"}
	_, err := Join(context.Background(), spec, []string{one})
	if err == nil || !strings.Contains(err.Error(), "missing 0/104, 1/104, 2/104, 4/104,") || !strings.HasSuffix(err.Error(), "100/104, and 3 more") {
		t.Errorf("%v", err)
	}
	header = strings.Replace(header, `[3,104]`, `[3,101]`, 1)
	if _, err := Join(context.Background(), spec, []string{write(sealedTrace(header))}); err == nil || !strings.HasSuffix(err.Error(), "99/101, 100/101") {
		t.Errorf("%v", err)
	}
	if _, err := Join(context.Background(), &domain.Spec{Name: "d"}, []string{one}); err == nil || !strings.Contains(err.Error(), "holds case c, want d") {
		t.Errorf("%v", err)
	}
	bad := write("x\n")
	if _, err := Join(context.Background(), spec, []string{bad}); err == nil || !strings.Contains(err.Error(), bad+": trace line 1") {
		t.Errorf("%v", err)
	}
	if _, err := ReadEpisodes(context.Background(), bad+"none", nil); err == nil || !strings.HasPrefix(err.Error(), "trace: ") {
		t.Errorf("%v", err)
	}
	if _, err := Compare(context.Background(), []string{bad, bad}); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("%v", err)
	}
}
