package report

import (
	"strings"
	"testing"
)

// A record of eval compare is shown as it is.
func TestAComparisonOfTraces(t *testing.T) {
	_, page := reported(t, `{"comparisons":[
		{"case":"arena","method":"planner","seed":9,"commit":"c","episodes":5,"safe":5,"compared":4,"difference_pct":0,"difference_sem_pct":0,"margin_mean":0.3,"latency_us":{"p50":2000,"p99":9000}},
		{"case":"arena","method":"raw","difference_pct":1,"difference_sem_pct":0.5,"margin_mean":0.25,"episodes":5,"safe":4,"latency_us":{"p50":500,"p99":1000}}]}`)
	if want := "| raw | 4/5 | 1.00 ± 0.50 | 0.250 | 0.50 / 1.00 |"; !strings.Contains(page, want) {
		t.Errorf("the report lacks %s", want)
	}
}
