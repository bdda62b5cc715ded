package publish

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/scaling"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// The page says what was measured with its load, and whether the machine had other work.
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
	if strings.Contains(page, "had other work") {
		t.Errorf("a quiet machine's record is doubted:\n%s", page)
	}
	noisy := testrecords.Scaling(1.5)
	for _, load := range []*closedloop.Load{nil, {CPUs: 2, Others: 0.3}, {CPUs: 2, Stolen: 0.3}} {
		noisy.Load = load
		report.Set(r, []scaling.Scaling{*noisy})
		if page := d.scaling(); !strings.Contains(page, "had other work") {
			t.Errorf("a record under %v is believed:\n%s", load, page)
		}
	}
}
