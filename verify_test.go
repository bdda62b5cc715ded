package gpc_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/switched"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
)

// recorded writes a trace of an episode and returns its file.
func recorded(t *testing.T, c *gpc.Case, s gpc.Setup) string {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	require.Get(evaluated(c, s, trace, false))(t)
	return trace
}

func evaluated(c *gpc.Case, s gpc.Setup, trace string, resume bool) (*closedloop.Result, error) {
	return c.Evaluate(context.Background(), s, engine.Options{Backend: "cpu"}, closedloop.Options{
		Episodes: 1, Seed: 991, TracePath: trace, Resume: resume, Preference: domain.Preference{Adaptive: true},
	})
}

// A trace of a network in a file verifies when the file is gone, since the trace embeds it;
// its case, whatever it is changed to, opens nothing and shows nothing.
func TestATraceOpensNoFile(t *testing.T) {
	catalogue := paper.Cases()
	dir := t.TempDir()
	network := filepath.Join(dir, "net.m")
	require.OK(t, os.WriteFile(network, require.Get(cases.Text("case30"))(t), 0o644))
	c := require.Get(catalogue.Find("opf:" + network))(t)
	trace := recorded(t, c, gpc.Setup{Method: "hold"})
	require.OK(t, os.Remove(network))
	v := require.Get(catalogue.Verify(t.Context(), trace, &gpc.Again{}, closedloop.VerifyOptions{}))(t)
	if !v.OK || v.Decisions != 300 || !v.Exact {
		t.Errorf("without the network's file: %+v", v)
	}
	for _, check := range v.Checks {
		if check.Field == "header.params" && check.Verdict != closedloop.Unchecked {
			t.Errorf("the network is the trace's own: %+v", check)
		}
	}
	secret := filepath.Join(dir, "secret.txt")
	require.OK(t, os.WriteFile(secret, []byte("hunter2"), 0o644))
	text := require.Get(os.ReadFile(trace))(t)
	for _, name := range []string{"opf:/dev/zero", "opf:" + secret, "opf:../" + filepath.Base(dir) + "/secret.txt", "/dev/zero"} {
		forged := filepath.Join(dir, "forged.jsonl")
		require.OK(t, os.WriteFile(forged, bytes.Replace(text, []byte(`"opf:net.m"`), []byte(`"`+name+`"`), 1), 0o644))
		if _, err := catalogue.Verify(t.Context(), forged, nil, closedloop.VerifyOptions{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A trace of a system's file whose name is that of a case of the catalogue verifies: it embeds its system. A catalogue that
// has the system itself confirms its constants.
func TestATraceOfAFileHasTheFilesSystem(t *testing.T) {
	other := gpc.Catalogue{Cases: []domain.Case{require.Get(switched.Fishing().Case())(t)}}
	file := filepath.Join(t.TempDir(), "fishing.json")
	system := require.Get(require.Get(other.Find("fishing"))(t).System())(t)
	require.OK(t, os.WriteFile(file, require.Get(system.Marshal())(t), 0o644))
	c := require.Get(other.Find(file))(t)
	trace := recorded(t, c, gpc.Setup{Method: "search-64"})
	same := gpc.Catalogue{Cases: []domain.Case{*c.Definition()}}
	for k, want := range map[*gpc.Catalogue]string{&other: closedloop.Unchecked, &same: closedloop.Confirmed} {
		v := require.Get(k.Verify(t.Context(), trace, nil, closedloop.VerifyOptions{}))(t)
		i := slices.IndexFunc(v.Checks, func(c closedloop.Check) bool { return c.Field == "header.params" })
		if !v.OK || v.Decisions == 0 || v.Checks[i].Verdict != want {
			t.Errorf("verified: %v, %d decisions, its constants %s, want %s", v.OK, v.Decisions, v.Checks[i].Verdict, want)
		}
	}
}

// A trace is decided again by the map that it names by its hash and by no other, and a run
// is continued only with the method, the map and the instruction set that began it.
func TestATraceNamesItsMap(t *testing.T) {
	catalogue := paper.Cases()
	c := require.Get(catalogue.Find("integrator-convex"))(t)
	trace := recorded(t, c, gpc.Setup{Method: "direct"})
	other := *require.Get(c.Model(""))(t)
	other.Calibration.TauGeom *= 1.25
	file := filepath.Join(t.TempDir(), "other.safetensors")
	require.OK(t, other.WriteFile(file))
	if v := require.Get(catalogue.Verify(t.Context(), trace, &gpc.Again{}, closedloop.VerifyOptions{}))(t); !v.OK || !v.Exact {
		t.Errorf("by its own map: %+v", v)
	}
	dispatch := require.Get(catalogue.Find("opf30"))(t)
	shifted := require.Get(dispatch.Shifted(map[string]float64{"load": 0.95}))(t)
	if v := require.Get(catalogue.Verify(t.Context(), recorded(t, shifted, gpc.Setup{Method: "direct"}), &gpc.Again{}, closedloop.VerifyOptions{}))(t); !v.OK || !v.Exact {
		t.Errorf("on a shifted plant: %+v", v)
	}
	hashes := regexp.MustCompile(`[0-9a-f]{64}.*[0-9a-f]{64}`)
	if _, err := catalogue.Verify(t.Context(), trace, &gpc.Again{Model: file}, closedloop.VerifyOptions{}); err == nil || !hashes.MatchString(err.Error()) {
		t.Errorf("by another map: %v", err)
	}
	before := require.Get(os.ReadFile(trace))(t)
	if _, err := evaluated(c, gpc.Setup{Method: "direct", Model: &other}, trace, true); err == nil || !strings.Contains(err.Error(), "model_sha256") {
		t.Errorf("continued with another map: %v", err)
	}
	if _, err := evaluated(c, gpc.Setup{Method: "navigator"}, trace, true); err == nil || !strings.Contains(err.Error(), `method "direct", this run's is "navigator"`) {
		t.Errorf("continued with another method: %v", err)
	}
	if len(isa.Available()) > 1 {
		t.Setenv(isa.Environment, isa.Generic.String())
		if _, err := evaluated(c, gpc.Setup{Method: "direct"}, trace, true); err == nil || !strings.Contains(err.Error(), "isa") {
			t.Errorf("continued with another instruction set: %v", err)
		}
		if v := require.Get(catalogue.Verify(t.Context(), trace, &gpc.Again{}, closedloop.VerifyOptions{}))(t); !v.OK || v.Exact {
			t.Errorf("decided again on another instruction set: %+v", v)
		}
	}
	if after := require.Get(os.ReadFile(trace))(t); !bytes.Equal(before, after) {
		t.Error("a refused trace was changed")
	}
}

// A trace alone lets its decisions be made again: the measured state, the context and the
// preference of each give the action that was applied, to the bit.
func TestATraceHoldsWhatADecisionIsMadeOf(t *testing.T) {
	catalogue := paper.Cases()
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	for _, of := range []struct{ name, method string }{{"integrator-nonconvex", "navigator"}, {"opf30-uncertain", "direct"}} {
		c := require.Get(catalogue.Find(of.name))(t)
		s := gpc.Setup{Method: of.method}
		file := require.Get(os.Open(recorded(t, c, s)))(t)
		defer file.Close()
		trace := require.Get(closedloop.NewReader(file))(t)
		record := require.Get(trace.Next())(t)
		loop := require.Get(c.Loop(e, s))(t)
		for _, l := range record.Lines {
			if d := require.Get(loop.Decide(l.X, l.C, trace.Header.Preference))(t); !slices.Equal(d.U, l.U) {
				t.Fatalf("%s, decision %d: %v, the trace has %v", of.name, l.T, d.U, l.U)
			}
		}
	}
}
