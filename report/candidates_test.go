package report

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
)

// A comparison of numbers of candidates says what each run with the map is worth
// without it, and is drawn.
func TestWhatTheMapContributes(t *testing.T) {
	out, page := reported(t, `{"comparisons":[
		{"case":"arena","method":"gpc-no-latent","seed":9,"commit":"c","episodes":5,"safe":5,"compared":4,"difference_pct":0,"difference_sem_pct":0,"margin_mean":0.3},
		{"case":"arena","method":"gpc-no-latent-1024","difference_pct":1,"difference_sem_pct":0.5,"margin_mean":0.25,"episodes":5,"safe":4},
		{"case":"arena","method":"gpc-256","difference_pct":0.5,"difference_sem_pct":0.25,"margin_mean":0.2,"episodes":5,"safe":5,"latency_us":{"p50":2000,"p99":9000}},
		{"case":"arena","method":"gpc-latent-search-256","difference_pct":2,"difference_sem_pct":0.25,"margin_mean":0.2,"episodes":5,"safe":5,"latency_us":{"p50":2000,"p99":9000}},
		{"case":"arena","method":"gpc","difference_pct":-0.5,"difference_sem_pct":0.25,"margin_mean":0.3,"episodes":5,"safe":5,"latency_us":{"p50":2000,"p99":9000}}]}`)
	for _, want := range []string{
		"| 256 | – | – | – | 0.50 ± 0.25 | 5/5 | 0.200 | 2048 | 8.0 | 2.00 / 9.00 |",
		"| 256 (gpc-latent-search) | – | – | – | 2.00 ± 0.25 | 5/5 | 0.200 | <1024 | <4.0 | 2.00 / 9.00 |",
		"| 4096 | 0.00 ± 0.00 | 5/5 | 0.300 | -0.50 ± 0.25 | 5/5 | 0.300 | >4096 | >1.0 | 2.00 / 9.00 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %s", want)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "figures", "arena-candidates.svg")); err != nil {
		t.Error(err)
	}
}

func TestWorth(t *testing.T) {
	without := []budgeted{{closedloop.Comparison{DifferencePct: 4}, 100, ""}, {closedloop.Comparison{DifferencePct: 2}, 400, ""}}
	for _, c := range []struct {
		cost, n float64
		bound   string
	}{{5, 100, "<"}, {4, 100, "<"}, {3, 200, ""}, {2, 400, ""}, {1, 400, ">"}} {
		if n, bound := worth(c.cost, without); math.Abs(n-c.n) > 1e-9 || bound != c.bound {
			t.Errorf("a cost of %v is worth %s%v, want %s%v", c.cost, bound, n, c.bound, c.n)
		}
	}
}
