package closedloop_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// sealed gives the hashes of a trace's records anew, as a forger would who knows how.
func sealed(text string) string {
	var out, record bytes.Buffer
	last := ""
	end := func() {
		last = fmt.Sprintf("%x", sha256.Sum256(record.Bytes()))
		out.Write(record.Bytes())
		record.Reset()
	}
	before := regexp.MustCompile(`"before_sha256":"[^"]*"`)
	for i, line := range strings.SplitAfter(text, "\n") {
		switch {
		case strings.Contains(line, `,"sha256":"`):
			end()
			out.WriteString(regexp.MustCompile(`"sha256":"[^"]*"`).ReplaceAllString(line, `"sha256":"`+last+`"`))
		case i == 0:
			record.WriteString(line)
			end()
		default:
			record.WriteString(before.ReplaceAllString(line, `"before_sha256":"`+last+`"`))
		}
	}
	out.Write(record.Bytes())
	return out.String()
}

// decided is lookup with the method that made the trace.
func decided(c *domain.Case, method func() (domain.Controller, error)) closedloop.VerifyOptions {
	o := lookup(c)
	o.Deep = func(*closedloop.Header) (domain.Controller, string, error) {
		m, err := method()
		return m, "", err
	}
	return o
}

// navigator is the whole of Algorithm 2 on the cart.
func navigator(c *domain.Case) func() (domain.Controller, error) {
	cart := c.Problem.(*testdomain.Cart)
	return func() (domain.Controller, error) {
		n, err := batchnav.NewNavigator(ref.New(), testdomain.Map(cart, 9, false), cart, batchnav.Options{})
		if err != nil {
			return nil, err
		}
		return n.Controller(), nil
	}
}

// A forger who changes a field and seals the trace again is found by what the field says,
// or the field is listed as the recorder's word and found by deciding again.
func TestNoForgeryIsConfirmed(t *testing.T) {
	const shallow, deep = "", "deep"
	noise := func(o *closedloop.Options) { o.Noise = 0.01 }
	bias := func(o *closedloop.Options) { o.Bias = 0.01 }
	for name, f := range map[string]struct {
		run       func(o *closedloop.Options)
		old, with string
		field     string
		by        string // deep: only deciding again can tell
	}{
		"seed":                {nil, `"seed":7`, `"seed":8`, "scene.p[0]", shallow},
		"preference":          {nil, `"preference":{"adaptive":true},"guard"`, `"preference":{"adaptive":false,"w":[0.5,0.5]},"guard"`, "scene.preference.adaptive", shallow},
		"regime":              {nil, `"regime":""`, `"regime":"storm"`, "scene", shallow},
		"margin tolerance":    {nil, `"margin_tolerance":0.000001,"margins"`, `"margin_tolerance":10,"margins"`, "header.margin_tolerance", shallow},
		"margins":             {nil, `"margins":["clearance"`, `"margins":["floor"`, "header.margins", shallow},
		"params":              {nil, `"steps":12`, `"steps":11`, "", shallow},
		"problem":             {nil, `"problem_sha256":"`, `"problem_sha256":"0`, "header.problem_sha256", shallow},
		"episodes":            {nil, `"episodes":6`, `"episodes":7`, "header.episodes", shallow},
		"shard":               {nil, `"shard":[0,1]`, `"shard":[1,2]`, "", shallow},
		"noise":               {noise, `"noise":0.01`, `"noise":0.02`, "x[0]", shallow},
		"noise denied":        {noise, `"noise":0.01`, `"noise":0`, "x[0]", shallow},
		"bias":                {bias, `"bias":0.01`, `"bias":0.02`, "x[0]", shallow},
		"scene":               {nil, `"scene":{"p":[`, `"scene":{"p":[1e-3,`, "scene.p", shallow},
		"context":             {nil, `"c":[0],"u"`, `"c":[0.5],"u"`, "c[0]", shallow},
		"context denied":      {nil, `"c":[0],"u"`, `"u"`, "c", shallow},
		"x under noise":       {noise, `"x":[`, `"x":[1`, "x[0]", shallow},
		"oracle cost":         {nil, `"oracle_cost":`, `"oracle_cost":1`, "end.oracle_cost", shallow},
		"oracle denied":       {nil, `"oracle_cost":`, `"oracle_failure":"no solution","oracle_cost":`, "end.oracle_failure", shallow},
		"cause":               {nil, `"completed":true`, `"completed":true,"cause":"wind"`, "end.cause", shallow},
		"failure":             {nil, `"completed":true`, `"completed":true,"failure":"wind"`, "end.failure", shallow},
		"excluded":            {nil, `"completed":true`, `"completed":true,"excluded":3`, "end.excluded", shallow},
		"reached":             {nil, `"completed":true`, `"completed":true,"reached":true`, "end.reached", shallow},
		"at end":              {nil, `"completed":true`, `"completed":true,"at_end":true`, "end.at_end", shallow},
		"margins of the end":  {nil, `,"margins":[0`, `,"margins":[1`, "end.margins[0]", shallow},
		"violations":          {nil, `,"violations":[0`, `,"violations":[1`, "end.violations", shallow},
		"soft limits":         {nil, `"margins":["clearance"`, `"soft":[{"limit":"floor","unit":"m"}],"margins":["clearance"`, "header.soft", shallow},
		"excess":              {nil, `,"violations":[0`, `,"excess":[1],"violations":[0`, "end.excess", shallow},
		"exceeding":           {nil, `,"violations":[0`, `,"exceeding":[1],"violations":[0`, "end.exceeding", shallow},
		"safe":                {nil, `"safe":true`, `"safe":false`, "end.safe", shallow},
		"collision free":      {nil, `"collision_free":true`, `"collision_free":false`, "end.collision_free", shallow},
		"completed":           {nil, `"completed":true`, `"completed":false`, "end.completed", shallow},
		"no margins at all":   {nil, `,"margins":[0`, `,"starts":[0`, "end.margins", shallow},
		"residual":            {nil, `"residual":`, `"residual":1`, "residual", deep},
		"fallback":            {nil, `"fallback":0`, `"fallback":64`, "fallback", deep},
		"displacement":        {nil, `"displacement":`, `"displacement":1`, "displacement", deep},
		"priority":            {nil, `"priority":[0`, `"priority":[1`, "priority[0]", deep},
		"starts":              {nil, `"completed":true`, `"completed":true,"starts":[1]`, "end.starts", deep},
		"another method's u":  {nil, "", "", "u[0]", deep},
		"a guard's unset bit": {nil, `"fallback":0`, `"fallback":262144`, "fallback", shallow},
	} {
		t.Run(name, func(t *testing.T) {
			c, o := cartCase(t), options(t.TempDir())
			if f.run != nil {
				f.run(&o)
			}
			method := navigator(c)
			if f.old == "" {
				method = direct(c)
			}
			evaluate(t, c, method, o)
			original := string(require.Get(os.ReadFile(o.TracePath))(t))
			if sealed(original) != original {
				t.Fatal("the test's seals are not the writer's")
			}
			forged := sealed(strings.Replace(original, f.old, f.with, 1))
			if f.old != "" && forged == original {
				t.Fatalf("nothing to forge: %.600s", original)
			}
			check := func(opt closedloop.VerifyOptions) (*closedloop.Verification, error) {
				return closedloop.VerifyReader(t.Context(), strings.NewReader(forged), opt)
			}
			v, err := check(lookup(c))
			if f.by == deep {
				key, _, _ := strings.Cut(f.field, "[")
				at := slices.IndexFunc(v.Checks, func(c closedloop.Check) bool { return c.Field == key })
				if err != nil || !v.OK || v.Checks[at].Verdict != closedloop.Unchecked {
					t.Fatalf("without the method: %v, %+v", err, v)
				}
				v, err = check(decided(c, navigator(c)))
			}
			if err != nil && f.field == "" {
				return
			}
			if err != nil || v.OK || !slices.ContainsFunc(v.Mismatches, func(m closedloop.Mismatch) bool { return m.Field == f.field }) {
				t.Errorf("%v, differing %+v", err, v)
			}
		})
	}
}

// A trace that nobody changed is confirmed, by deciding again too, with noise, with a
// method that fails and with one that reports its solves.
func TestDecidingAgainConfirms(t *testing.T) {
	c := cartCase(t)
	fails := controller(func(t int, s []float64) (float64, bool, error) {
		if t == 3 && s[0] > 0 {
			return 0, false, fmt.Errorf("at %v", s[0])
		}
		return 0.1, true, nil
	})
	for name, f := range map[string]struct {
		method      func() (domain.Controller, error)
		noise, bias float64
	}{"navigator": {navigator(c), 0, 0}, "noise": {navigator(c), 0.01, 0.02}, "failing": {fails, 0.01, 0}} {
		o := options(t.TempDir())
		o.Noise, o.Bias = f.noise, f.bias
		evaluate(t, c, f.method, o)
		v := require.Get(closedloop.Verify(t.Context(), o.TracePath, decided(c, f.method)))(t)
		if !v.OK || !v.Deep || !v.Exact {
			t.Errorf("%s: %+v", name, v)
		}
		// On another instruction set the comparison has a tolerance, and says so.
		other := decided(c, f.method)
		other.ISA = "another"
		if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, other))(t); !v.OK || v.Exact {
			t.Errorf("%s: on another instruction set: %+v", name, v)
		}
	}
}

// An episode less, at the end too, a bit flipped in a time that nothing can confirm, and a
// record from another trace break the chain.
func TestTheChainHoldsEveryByte(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	evaluate(t, c, direct(c), o)
	lines := strings.SplitAfter(string(require.Get(os.ReadFile(o.TracePath))(t)), "\n")
	per := steps + 3
	flipped := slices.Clone(lines)
	flipped[2] = strings.Replace(flipped[2], `"latency_us":`, `"latency_us":1`, 1)
	for name, text := range map[string]string{
		"last episode dropped": strings.Join(lines[:1+5*per], ""),
		"latency":              strings.Join(flipped, ""),
		"another header":       strings.Replace(lines[0], `"commit":"c"`, `"commit":"d"`, 1) + strings.Join(lines[1:], ""),
	} {
		if v := require.Get(closedloop.VerifyReader(t.Context(), strings.NewReader(text), lookup(c)))(t); v.OK {
			t.Errorf("%s: confirmed", name)
		}
		path := t.TempDir() + "/t.jsonl"
		require.OK(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := closedloop.ReadEpisodes(t.Context(), path, func(*closedloop.EpisodeRecord) error { return nil }); err == nil {
			t.Errorf("%s: read as if it were whole", name)
		}
	}
	more := strings.Join(lines, "") + strings.Join(lines[1+5*per:], "")
	if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(more), lookup(c)); err == nil || !strings.Contains(err.Error(), "continues after the last") {
		t.Errorf("an episode too many: %v", err)
	}
	stopped := io.MultiReader(strings.NewReader(strings.Join(lines, "")), iotest.ErrReader(context.Canceled))
	if _, err := closedloop.VerifyReader(t.Context(), stopped, lookup(c)); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupt behind the last episode: %v", err)
	}
	unknown := strings.Replace(strings.Join(lines, ""), `"u":[`, `"wind":1,"u":[`, 1)
	if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(unknown), lookup(c)); err == nil || !strings.Contains(err.Error(), "wind") {
		t.Errorf("an unknown field: %v", err)
	}
	old := `{"trace":1,"case":"cart","method":"m","seed":1,"params":{}}` + "\n"
	if _, err := closedloop.VerifyReader(t.Context(), strings.NewReader(old), lookup(c)); err == nil || !strings.Contains(err.Error(), "record it again") {
		t.Errorf("a trace of an earlier program: %v", err)
	}
}

// A trace of the version before, which did not hold contexts, is read, and verification lists
// them as unchecked; a file of it is not continued with them.
func TestATraceWithoutContextsSaysSo(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	evaluate(t, c, direct(c), o)
	text := string(require.Get(os.ReadFile(o.TracePath))(t))
	text = regexp.MustCompile(`"c":\[[^\]]*\],"u"`).ReplaceAllString(strings.Replace(text, `{"trace":3`, `{"trace":2`, 1), `"u"`)
	require.OK(t, os.WriteFile(o.TracePath, []byte(sealed(text)), 0o644))
	v := require.Get(closedloop.Verify(t.Context(), o.TracePath, decided(c, direct(c))))(t)
	at := slices.IndexFunc(v.Checks, func(c closedloop.Check) bool { return c.Field == "c" })
	if got := v.Checks[at]; !v.OK || got.Verdict != closedloop.Unchecked || got.Values != 0 || got.Unchecked != v.Decisions {
		t.Errorf("%+v of %d decisions, differing %+v", got, v.Decisions, v.Mismatches)
	}
	o.Resume = true
	if _, err := closedloop.Evaluate(t.Context(), c, direct(c), o); err == nil || !strings.Contains(err.Error(), "trace 2, this run's is 3") {
		t.Errorf("continued with contexts: %v", err)
	}
}

// Every field that a trace can hold has its entry in what verification says it did.
func TestEveryFieldIsListed(t *testing.T) {
	c, o := cartCase(t), options(t.TempDir())
	evaluate(t, c, direct(c), o)
	v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t)
	listed := map[string]int{}
	for _, check := range v.Checks {
		if check.Basis == "" || !slices.Contains([]string{closedloop.Confirmed, closedloop.Recomputed, closedloop.Unchecked}, check.Verdict) {
			t.Errorf("%+v", check)
		}
		listed[check.Field]++
	}
	want := []string{"scene", "before_sha256", "sha256"}
	for prefix, of := range map[string]any{"header.": closedloop.Header{}, "": closedloop.Line{}, "end.": closedloop.End{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "-" && !f.Anonymous {
				want = append(want, prefix+key)
			}
		}
	}
	for _, key := range want {
		if listed[key] != 1 {
			t.Errorf("%s is listed %d times", key, listed[key])
		}
	}
	if len(listed) != len(want) {
		t.Errorf("%d fields are listed, a trace has %d", len(listed), len(want))
	}
	text := string(require.Get(json.Marshal(v))(t))
	if !strings.Contains(text, `"trace_sha256":"`+v.SHA256) || len(v.SHA256) != 64 {
		t.Errorf("the hash of the trace: %.300s", text)
	}
}
