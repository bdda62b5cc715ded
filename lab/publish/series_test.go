package publish

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// A method of the paper's without a record has no row: it is named below the table, with the paper's figures.
func TestWhatIsNotRecordedIsListed(t *testing.T) {
	own := testrecords.Run("opf30", "navigator", report.PaperRegime, 1, 2)
	text := page(t, own)
	_, below, _ := strings.Cut(text, "\nWithout a record: ")
	below, _, _ = strings.Cut(below, "\n")
	if strings.Contains(text, "| paper | 0 | td3 |") || !strings.Contains(below, "`td3` (") || !strings.Contains(below, "; 106.6 %; 0.17 ms)") || strings.Contains(below, "`navigator`") {
		t.Errorf("td3 is named by %s", below)
	}
	if got := testrecords.Row(t, text, "| paper | 0 | navigator |"); !strings.Contains(got, "| 12.3 |") {
		t.Errorf("the row of gpc is %s", got)
	}
	all := report.New("here", known())
	report.Set(all, []closedloop.Result{own})
	rows := devices{all}.paperRows()
	for _, want := range []string{"| opf30 | `mpc` | – | – | – / 360.99 | – / 100 | – / 0.28 |", "| opf30 | `navigator` | 2 | 2 |", "| opf30 | `runopf` | – | – | – / 360.03 |"} {
		if !strings.Contains(rows, want) {
			t.Errorf("the table beside the paper lacks %s:\n%s", want, rows)
		}
	}
}

// The row of a learned method says how many of its trainings are there.
func TestRowsOfLearnedMethodsSayTheirSeeds(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "baselines", "evaluations.csv")
	require.OK(t, os.Mkdir(filepath.Dir(list), 0o777))
	const headings = "method,case,regime,training_seed,training_seeds\n"
	require.OK(t, os.WriteFile(list, []byte(headings+"td3,opf30,paper,1,3\ncpo,opf30,paper,1,3\ncpo,opf30,paper,3,3\nppo,opf30,paper,1,2\nppo,opf30,paper,2,2\n"), 0o666))
	r := require.Get(report.Load(t.Context(), dir, known()))(t)
	report.Set(r, []closedloop.Result{testrecords.Run("opf30", "navigator", report.PaperRegime, 1, 2), testrecords.Run("opf30", "td3", report.PaperRegime, 1, 2), testrecords.Run("opf30", "cpo", report.PaperRegime, 1, 2)})
	rows := devices{r}.paperRows()
	for _, want := range []string{"| opf30 | `navigator` | 2 |", "| opf30 | `td3`, 1 of 3 seeds | 2 |", "| opf30 | `cpo`, first of 2 of 3 seeds | 2 |"} {
		if !strings.Contains(rows, want) {
			t.Errorf("the table beside the paper lacks %s:\n%s", want, rows)
		}
	}
	if whole := testrecords.Run("opf30", "ppo", report.PaperRegime, 1, 2); r.Titled(&whole) != "`ppo`, first of 2 seeds" {
		t.Errorf("of two trainings of two a row says %q", r.Titled(&whole))
	}
	for text, want := range map[string]string{
		"": "no line of headings", "case,regime,method\n": `no column "training_seeds"`, headings + "td3,opf30,paper,1,three\n": "line 2: training_seeds", headings + "td3\n": "wrong number of fields",
	} {
		require.OK(t, os.WriteFile(list, []byte(text), 0o666))
		if _, err := report.Load(t.Context(), dir, known()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), list) {
			t.Errorf("%q: want an error with %q and the file, got %v", text, want, err)
		}
	}
}

// What is apart by more than a factor of two, or of another sign, is a difference; zero and zero
// are none.
func TestDifferencesAreOfAFactorOfTwo(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		want bool
	}{{1, 2, false}, {1, 2.01, true}, {2.01, 1, true}, {-1, 1, true}, {-1, -1.5, false}, {0, 0, false}, {0, 1, true}} {
		if got := differ(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
	r := testrecords.Run("opf30", "navigator", report.PaperRegime, 1, 1)
	r.GapPct, r.Latency.P50, r.Feasible, r.CostMean, r.Outcomes = 0.31, 11_900, 1, 361*300, nil
	all := report.New("here", known())
	report.Put(all, r)
	if strings.Contains(devices{all}.differences(), "navigator") {
		t.Errorf("as the paper's, and a difference: %s", devices{all}.differences())
	}
	report.Of[closedloop.Result](all)[0].Latency.P50 = 1190
	if got := (devices{all}).differences(); !strings.Contains(got, "| opf30 | `navigator` | decision, ms | 1.19 | 12.3 | 0.097 | [Times of a decision](#times-of-a-decision) |") {
		t.Errorf("a tenth of the paper's time is no difference: %s", got)
	}
}

// What an older record does not say is not taken for none, but where no decision broke any limit; of
// a policy that is never safe the excess over all episodes stands for that over safe ones.
func TestOlderRecordsDoNotSayWhatTheyHaveNot(t *testing.T) {
	p := known()["integrator-convex"].Paper["online"]
	e := closedloop.Result{Case: "integrator-convex", Method: "online", Episodes: 2, Decisions: 40, Violations: 3}
	if b := figureBeside("obstacle", &e, p); b.text() != "–" || differ(b.ours, b.paper) {
		t.Errorf("violations of a kind that is not recorded: %s", b.text())
	}
	e.Limits = []closedloop.LimitStatistics{{Limit: "obstacle", DecisionRate: 0.075}, {Limit: "slew"}}
	if b := figureBeside("obstacle", &e, p); b.text() != "7.5" || b.given() != "0" || !differ(b.ours, b.paper) {
		t.Errorf("%s / %s", b.text(), b.given())
	}
	if e.Limits, e.Violations = nil, 0; figureBeside("slew", &e, p).text() != "0" {
		t.Error("without a violation there is one of slew")
	}
	e.Failures, e.RegretPct = 0, closedloop.Number(math.NaN())
	e.Outcomes = &closedloop.Outcomes{Episode: []int{0, 1}, Safe: []bool{false, false}, Cost: closedloop.Vector{8, 10}, Oracle: closedloop.Vector{10, 10}}
	if b := figureBeside("regret", &e, p); math.Abs(b.ours+10) > 1e-9 || !strings.HasSuffix(b.text(), "(all)") || b.given() != "7.9 ± 0.35" {
		t.Errorf("%s / %s", b.text(), b.given())
	}
	if b := figureBeside("regret", nil, p); b.text() != "–" {
		t.Errorf("a method without a record has %s", b.text())
	}
}

// Every difference of the committed records has its paragraph.
func TestDifferencesAreExplained(t *testing.T) {
	text := string(require.Get(os.ReadFile(filepath.Join("../..", paperPage)))(t))
	var all devices = recorded(t)
	links := regexp.MustCompile(`\[([^]]+)\]\(#[^)]+\)`).FindAllStringSubmatch(all.differences(), -1)
	if len(links) == 0 {
		t.Fatal("no differences")
	}
	for _, l := range links {
		_, after, found := strings.Cut(text, "\n### "+l[1]+"\n")
		if words, _, _ := strings.Cut(after, "\n#"); !found || len(strings.TrimSpace(words)) < 80 {
			t.Errorf("%s has no paragraph headed %q", paperPage, l[1])
		}
		if want := "[" + l[1] + "](#" + anchor(l[1]) + ")"; l[0] != want {
			t.Errorf("the link is %s, want %s", l[0], want)
		}
	}
}
