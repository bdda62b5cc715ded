package closedloop_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

func TestReadState(t *testing.T) {
	spec := testdomain.NewCart(steps).Spec()
	for _, text := range []string{`{"s":[1,-0.5],"c":[0.25]}`, ` {"v":-0.5,"q":1,"progress":0.25} `} {
		s, c, err := closedloop.ReadState(strings.NewReader(text), spec)
		if err != nil || s[0] != 1 || s[1] != -0.5 || c[0] != 0.25 {
			t.Errorf("%s: s %v, c %v, %v", text, s, c, err)
		}
	}
	for text, says := range map[string]string{
		``:                                 "JSON",
		`null`:                             "object",
		`[]`:                               "object",
		`{"s":[1,2]}`:                      `"c"`,
		`{"s":[1],"c":[0]}`:                "entries",
		`{"s":[1,null],"c":[0]}`:           "finite",
		`{"s":[1,1e999],"c":[0]}`:          "finite",
		`{"s":[1,"2"],"c":[0]}`:            "finite",
		`{"s":[1,2],"c":[0],"w":1}`:        `"w"`,
		`{"s":[1,2],"c":{}}`:               `"c"`,
		`{"q":1,"v":2}`:                    `"progress"`,
		`{"y":[1,2],"c":[0]}`:              "is not estimated",
		`{"q":1,"v":2,"progress":0,"w":1}`: `"w"`,
		`{"s":[1,2],"c":[0]} {}`:           "more than one",
		`{"s":[1,2],"c":[0]`:               "JSON",
		`{"s":[1,2],"s":[1,2],"c":[0]}`:    `"s" appears twice`,
	} {
		if _, _, err := closedloop.ReadState(strings.NewReader(text), spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one that mentions %s", text, err, says)
		}
	}
}

func FuzzReadState(f *testing.F) {
	for _, seed := range []string{`{"s":[1,-0.5],"c":[0.25]}`, `{"q":1,"v":0,"progress":0}`, `{"s":null}`, `{"s":[],"c":[[]]}`, "\xff"} {
		f.Add(seed)
	}
	spec := testdomain.NewCart(steps).Spec()
	f.Fuzz(func(t *testing.T, text string) {
		s, c, err := closedloop.ReadState(strings.NewReader(text), spec)
		if err != nil {
			return
		}
		if len(s) != spec.MeasuredSize() || len(c) != spec.ContextSize() {
			t.Fatalf("accepted %q with %d and %d values", text, len(s), len(c))
		}
		for _, v := range append(s, c...) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("accepted %q with %v", text, v)
			}
		}
	})
}

func FuzzTrace(f *testing.F) {
	c := cartCase(f)
	header := `{"trace":3,"case":"cart","method":"m","seed":1,"params":` + string(marshal(f, c.Plant.Params())) + `,"episodes":1,"shard":[0,1]}` + "\n"
	scene := `{"episode":0,"before_sha256":"","scene":{"p":[],"s":[0,0],"c":[0],"preference":{"adaptive":true}}}` + "\n"
	decision := `{"episode":0,"t":0,"x":[0,0],"c":[0],"u":[0.5],"s":[0,0],"sigma":[1,0],"J":[0,0],"margin":1,"residual":null,"latency_us":1,"fallback":0}` + "\n"
	f.Add(header + scene + decision + `{"episode":0,"end":{"cost":0,"oracle_cost":null,"safe":true}}` + "\n" + `{"episode":0,"sha256":"0"}` + "\n")
	f.Add(header + scene + decision)
	f.Add(header + decision)
	f.Add(strings.Replace(header, `:3`, `:2`, 1) + scene + decision)
	f.Add(`{"trace":4}` + "\n")
	f.Add("\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := cartCase(t)
		v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(text), lookup(c))
		if err == nil && v.OK && v.Decisions == 0 && v.Episodes > 0 && v.Safe > 0 {
			t.Fatalf("an episode without decisions was called safe: %q", text)
		}
	})
}

// FuzzScene: whatever a scene of a generic plant holds, it is refused or stepped without a
// panic.
func FuzzScene(f *testing.F) {
	plant := cartCase(f).Plant
	params := marshal(f, plant.Params())
	for _, scene := range []string{
		`{"p":[0.1,0.2],"s":[0.1,0.2],"c":[0],"preference":{"adaptive":true}}`, `{"s":[1e308,-1e308],"c":[1e308],"preference":{"w":[0.5,0.5]}}`,
		`{"s":[0],"c":[]}`, `{"s":null,"c":null,"preference":null}`, `null`, `[]`,
	} {
		f.Add([]byte(scene))
	}
	f.Fuzz(func(t *testing.T, scene []byte) {
		ep, err := plant.Replay(params, scene)
		if err != nil {
			return
		}
		s, c := make([]float64, 2), make([]float64, 1)
		for !ep.Done() {
			ep.Observe(s, c)
			if _, err := ep.Apply([]float64{0.5}); err != nil {
				t.Fatalf("%s: %v", scene, err)
			}
		}
	})
}
