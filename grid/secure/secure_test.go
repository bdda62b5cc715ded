package secure

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

func TestTry(t *testing.T) {
	file := os.Getenv("TRY")
	if file == "" {
		t.Skip()
	}
	fh, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := matpower.Read(file, fh)
	if err != nil {
		t.Fatal(err)
	}
	n := networktest.Of(t, c)
	opt := DefaultOptions()
	if os.Getenv("BRANCHES") != "" {
		opt.Outages = Branches(n)
	}
	if os.Getenv("TRACE") != "" {
		opt.Trace = func(i Iterate) {
			t.Logf("%3d K=%d f=%.4f g=%.1e h=%.1e grad=%.1e mu=%.1e w=%.1e step=%.2f shift=%.0e", i.Iteration, i.Outages, i.Objective, i.KKT.Mismatch, i.KKT.Violation, i.KKT.Gradient, i.Barrier, i.Corner, i.Step, i.Shift)
		}
	}
	if e := os.Getenv("EM"); e != "" {
		opt.Emergency, _ = strconv.ParseFloat(e, 64)
	}
	opt.Dispatchable = network.DispatchablePlain
	s, err := New(n, opt)
	if err != nil {
		t.Fatal(err)
	}
	var pr Problem
	scale := 1.0
	if os.Getenv("SCALE") != "" {
		scale, _ = strconv.ParseFloat(os.Getenv("SCALE"), 64)
	}
	pr.Pd, pr.Qd = n.Loads(scale)
	r, err := s.Solve(context.Background(), pr)
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	for _, c := range r.Before {
		if c.Severity() > 0 {
			before++
			t.Logf("%s: %v %s", c.name(n), c.Severity(), c.Reason)
		}
	}
	t.Logf("%v %s: plain %.4f secure %.4f, %d outages, %d broken before, remembered %d, %d rounds %d iterations", r.Status, r.Reason, r.Plain, r.Objective, len(r.Before), before, len(r.Remembered), r.Rounds, r.Iterations)
}
