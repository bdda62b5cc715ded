package opf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A shifted plant is another network: its limits, reactances, loads and ramps are, for
// the problem and its oracle too, and a trace of it verifies by the case as it is.
func TestShiftedNetwork(t *testing.T) {
	c := Thirty()
	shifted := require.Get(c.Shifted(map[string]float64{"load": 0.9, "line-limit": 0.8, "reactance": 1.1, "ramp": 2}))(t)
	a, b := c.Problem.(*System), shifted.Problem.(*System)
	for _, v := range []struct {
		name      string
		got, want float64
	}{
		{"rating", b.Network.Rate[3], 0.8 * a.Network.Rate[3]}, {"load", b.Network.Pd[1], 0.9 * a.Network.Pd[1]}, {"ramp", b.Ramp[2], 2 * a.Ramp[2]},
		{"reactive load", b.Network.Qd[1], 0.9 * a.Network.Qd[1]},
	} {
		if math.Abs(v.got-v.want) > 1e-12 || v.want == 0 {
			t.Errorf("%s is %g, want %g", v.name, v.got, v.want)
		}
	}
	if a.Network.Bft[0] == b.Network.Bft[0] {
		t.Error("the reactance is what it was")
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	hold, _ := shifted.Method("hold")
	opt := closedloop.Options{Method: "hold", Episodes: 1, Seed: 991, TracePath: path, Preference: domain.Preference{Adaptive: true}}
	r := require.Get(closedloop.Evaluate(context.Background(), &shifted, func() (domain.Controller, error) { return hold.New(domain.Means{}) }, opt))(t)
	if r.Shift["load"] != 0.9 {
		t.Errorf("the result's shift is %v", r.Shift)
	}
	v := require.Get(closedloop.Verify(t.Context(), path, closedloop.VerifyOptions{Case: func(h *closedloop.Header) (*domain.Case, bool, error) {
		of, err := c.Shifted(h.Shift)
		return &of, false, err
	}}))(t)
	if !v.OK {
		t.Errorf("the trace does not verify: %v", v.Mismatches[0])
	}
	for _, wrong := range []map[string]float64{{"lode": 1.1}, {"load": 0}, {"load": math.NaN()}, {"load": math.Inf(1)}} {
		if _, err := c.Shifted(wrong); err == nil || !strings.Contains(err.Error(), "lo") || !strings.Contains(err.Error(), "opf30") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if _, err := (&domain.Case{Problem: a}).Shifted(map[string]float64{"load": 1.1}); err == nil || !strings.Contains(err.Error(), "no parameters") {
		t.Errorf("a case without shifts: %v", err)
	}
}

// What a map or a dataset was made of is the file to the byte, and the options.
func TestFingerprintIsTheFiles(t *testing.T) {
	text := require.Get(cases.Text("case9"))(t)
	of := func(text []byte, opt Options) [32]byte {
		c := require.Get(FromText("opf:net.m", "", text, opt))(t)
		return domain.FingerprintOf(c.Problem)
	}
	own := of(text, Options{})
	if own != sha256.Sum256(text) {
		t.Error("the fingerprint of a file is not its SHA-256")
	}
	seen := map[[32]byte]bool{own: true}
	for _, sum := range [][32]byte{
		of(append(bytes.Clone(text), '\n'), Options{}), of(text, Options{Uncertain: true}), of(text, Options{Ramp: []float64{1, 1, 1}}), of(text, Options{Ramp: []float64{1, 1, 2}}),
	} {
		if seen[sum] {
			t.Error("two problems have one fingerprint")
		}
		seen[sum] = true
	}
}
