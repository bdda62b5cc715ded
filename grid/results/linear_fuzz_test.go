package results_test

import (
	"bytes"
	"context"
	"math"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/dcopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// FuzzLinear: a case that can be read has a linear power flow and a linear optimum of finite numbers at any loads, or an error.
func FuzzLinear(f *testing.F) {
	for _, name := range []string{"case9", "case14", "case30"} {
		text := require.Get(cases.Text(name))(f)
		for _, factor := range []float64{1, 1e160, 1e300, 1e308} {
			f.Add(text, factor)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, factor float64) {
		c, err := matpower.Read("x.m", bytes.NewReader(text))
		if err != nil {
			return
		}
		n, err := network.New(c)
		if err != nil || n.Buses() > 500 || !(factor >= 0) {
			return
		}
		pd, _ := n.Loads(factor)
		finite := func(values []float64) {
			for i, v := range values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("entry %d is %v", i, v)
				}
			}
		}
		if r, p, err := results.LinearFlow(n, pd, n.Pg0); err == nil && r.Converged {
			finite(p.Pg)
			finite(p.Va)
		}
		s, err := dcopf.New(n)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if r, _, err := s.Solve(ctx, pd); err == nil && r.Status == acopf.Optimal {
			finite(r.Pg)
			finite(r.Va)
		} else if ctx.Err() != nil {
			t.Fatal("it does not end")
		}
	})
}
