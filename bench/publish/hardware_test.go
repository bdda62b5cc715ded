package publish

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/testrecords"
)

// The page says what was measured with its load, and marks what was not.
func TestScalingPage(t *testing.T) {
	r := report.New("", nil)
	report.Put(r, *testrecords.Scaling(1.5))
	d := devices{r}
	page := d.scaling()
	for _, says := range []string{"| batch | 1 to 1024 | 3 to 98304 | 1.50 [1.50, 1.50] | 1.50 [1.50, 1.50] | 1.00 [1.00, 1.00] |", "load was at most 3.50", "c0ffee", "codes: something of some size.", "| 1 | 4 | 16 |"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page lacks %q:\n%s", says, page)
		}
	}
	beyond := d.extrapolated()
	// 3·1024^1.5·2^1.5 µs; 1.024 GFLOP at 30 % of 67 TFLOP/s are 50.9 µs, with 49 fixed.
	for _, says := range []string{"not measured", "| batch | 1024 | 98304 | 278046 | [278046, 278046] |", "| one H200 | extrapolated | 0.0745 to 0.0999 |", "| avx2, 2 threads | measured | 98.3 |", "Nothing was run on a GPU"} {
		if !strings.Contains(beyond, says) {
			t.Errorf("the page lacks %q:\n%s", says, beyond)
		}
	}
	if strings.Contains(page+beyond, "had other work") || !strings.Contains(beyond, "| 984 to 1.32e+03 |") {
		t.Errorf("a quiet machine's record is doubted:\n%s", beyond)
	}
	noisy := testrecords.Scaling(1.5)
	for _, load := range []*closedloop.Load{nil, {CPUs: 2, Others: 0.3}, {CPUs: 2, Stolen: 0.3}} {
		noisy.Load = load
		report.Set(r, []bench.Scaling{*noisy})
		if !strings.Contains(d.scaling(), "had other work") || !strings.Contains(d.extrapolated(), "had other work") || !strings.Contains(d.extrapolated(), "| – | 30 to 60 %") {
			t.Errorf("a record under %v is believed:\n%s", load, d.extrapolated())
		}
	}
	if n := strings.Count(beyond, "| measured |"); n != 1 {
		t.Errorf("%d rows are said to be measured", n)
	}
}
