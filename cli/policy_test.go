package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/policy"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// feedback writes an actor that answers as the cart's exact map.
func feedback(t *testing.T, of string) string {
	t.Helper()
	cart := testdomain.NewCart(8)
	a := policy.Actor{
		Provenance: policy.Provenance{
			Case: of, ProblemSHA256: durable.Sum(domain.FingerprintOf(cart)), Algorithm: "td3", Library: "by hand", Preference: domain.Preference{Adaptive: true},
		},
		Mean: make([]float32, 3), Scale: []float32{1, 1, 1}, Bound: 100,
		Network:    *testdomain.Linear([][]float64{{testdomain.Feedback[0], testdomain.Feedback[1], 0}}),
		Activation: policy.ReLU, Output: policy.Clip,
	}
	file := filepath.Join(t.TempDir(), of+".safetensors")
	f := require.Get(os.Create(file))(t)
	require.OK(t, a.Write(f))
	require.OK(t, f.Close())
	return file
}

// A policy that answers as a map does has its episodes, alone and behind the safeguard, as one
// of a pair too, and its trace is decided again from the file that it names.
func TestAPolicyIsAMethodOfAnyCase(t *testing.T) {
	app, mapFile := cart(t)
	actor := feedback(t, "cart")
	evaluate := func(args ...string) (r closedloop.Result) {
		t.Helper()
		code, out, log := run(app, append([]string{"eval", "cart", "--episodes", "3", "--json"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d, %s", args, code, log)
		}
		require.OK(t, json.Unmarshal([]byte(out), &r))
		return r
	}
	direct := evaluate("--method", "direct", "--model", mapFile)
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	for _, r := range []closedloop.Result{evaluate("--method", "td3", "--model", actor, "--trace", trace), evaluate("--method", "td3+safeguard", "--model", actor)} {
		if math.Abs(float64(r.CostMean-direct.CostMean)) > 1e-5*float64(direct.CostMean) || r.Safe != 1 {
			t.Errorf("%s: cost %v, direct's is %v; safe %v", r.Method, r.CostMean, direct.CostMean, r.Safe)
		}
	}
	if code, out, log := run(app, "verify", trace, "--deep", "--model", actor); code != 0 {
		t.Errorf("verify: exit code %d, %s, %s", code, out, log)
	}
	code, out, log := run(app, "eval", "pair", "cart", "--methods", "direct,td3="+actor+",td3+safeguard:2="+actor, "--model", mapFile, "--episodes", "3", "--json")
	var p closedloop.Pairing
	if require.OK(t, json.Unmarshal([]byte(out), &p)); code != 0 || len(p.Pairs) != 3 || p.Pairs[1].Safe != 3 || p.Pairs[2].Episodes != 2 {
		t.Errorf("pair: exit code %d, %s, %s", code, out, log)
	}
	for want, args := range map[string][]string{
		`for case "trolley", want "cart"`:                                   {"--method", "td3", "--model", feedback(t, "trolley")},
		"needs the file of its weights":                                     {"--method", "td3"},
		"the kind of the file":                                              {"--method", "cpo", "--model", mapFile},
		"the method runs actors of ppo":                                     {"--method", "ppo", "--model", actor},
		"the preference adaptive, and asked for a decision under 0.25,0.75": {"--method", "td3", "--model", actor, "--preference", "0.25,0.75"},
	} {
		if code, out, log := run(app, append([]string{"eval", "cart", "--episodes", "1"}, args...)...); code != 2 || !strings.Contains(log, want) {
			t.Errorf("%v: exit code %d, %s, %s; want 2 and %q", args, code, out, log, want)
		}
	}
	code, out, log = run(app, "eval", "pair", "cart", "--methods", "td3="+actor, "--episodes", "1", "--preference", "0.25,0.75")
	if code != 2 || !strings.Contains(log, "under 0.25,0.75") {
		t.Errorf("pair under another preference: exit code %d, %s, %s", code, out, log)
	}
	if code, out, _ := run(app, "methods", "cart", "--all"); code != 0 || !strings.Contains(out, "--model FILE") {
		t.Errorf("methods: exit code %d, %s", code, out)
	}
}
