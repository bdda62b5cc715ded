package series

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
)

// A table of loads is refused, or every step has a finite load for each bus, and steps are counted once.
func FuzzLoads(f *testing.F) {
	for _, text := range []string{
		"time,scale\n0,1\n1,1.1\n", "time,pd_5,qd_7\n0,100,30\n", "time,bus,pd,qd\n0,5,100,30\n0,7,100,35\n1,5,140,40\n",
		"time,pd_5,pd_05,pd_+5\n0,100,140,10\n", "time,bus,pd,scale,q\n1,5,90,3,500\n", "time,bus,pd,qd\n0,5,100,30\n1,5,140,40\n0,7,100,35\n",
		"time,pd_5\n0,\"1\n", "time,pd_5\r\n0,1e400\r\n", "\xef\xbb\xbftime,pd_5\n0,1\n", "\xef\xbb\xbf\"pd_5\"\r\n\"1\"\r\n", "\xef\xbb", "time;pd_5\n0;1\n", "pd_5\nNaN\n", "",
	} {
		f.Add([]byte(text))
	}
	n := networktest.Load(f, "case9")
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "loads.csv")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		steps, err := read(path, n)
		if err != nil {
			if err.Error() == "" {
				t.Error("it is refused without a word")
			}
			return
		}
		if len(steps.Time) != len(steps.Pd) || len(steps.Pd) != len(steps.Qd) {
			t.Fatalf("%d times, %d and %d loads", len(steps.Time), len(steps.Pd), len(steps.Qd))
		}
		for i, pd := range steps.Pd {
			if len(pd) != len(n.Pd) || len(steps.Qd[i]) != len(n.Pd) {
				t.Fatalf("step %d has %d and %d loads of %d buses", i, len(pd), len(steps.Qd[i]), len(n.Pd))
			}
			for b, v := range pd {
				if !finite(v) || !finite(steps.Qd[i][b]) {
					t.Errorf("step %d: the load of bus %d is %v, %v", i, b, v, steps.Qd[i][b])
				}
			}
		}
	})
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
