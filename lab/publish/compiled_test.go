package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// cartCompiled is a record of a map, as compile writes it.
const cartCompiled = `{"case":"cart","commit":"abc","device":"cpu","rounds":[{"scenarios":150,"samples":600},{"scenarios":300,"samples":1800},{"scenarios":9,"samples":9999}],"best":1,
	"choice":[{"method":"direct","mean_pct":0.4},{"method":"navigator","mean_pct":null}],
	"test":{"method":"direct","episodes":1000,"unsafe":2,"no_way":1,"mean_pct":0.5,"p90_pct":1,"max_pct":null,"unsolved":3,"rescued_pct":0.25,"p50_us":2,"p99_us":48},
	"target":{"mean_pct":0.5},"met":true,"seconds":120,"load":{"cpus":2,"load_start":1.5,"load_end":2,"others":0.1,"stolen":0}}`

// wants fails where a text lacks one of some parts, or has it more than once.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if n := strings.Count(text, part); n != 1 {
			t.Errorf("%d times, want once\n%s\nin\n%s", n, part, text)
		}
	}
}

// markdownOf is the Markdown of the report of some records.
func markdownOf(t *testing.T, r *report.Records) string {
	t.Helper()
	dir := t.TempDir()
	require.Get(r.Write(t.Context(), dir))(t)
	return string(require.Get(os.ReadFile(filepath.Join(dir, "report.md")))(t))
}

// TestCompilations: a row says what the test of a map found, a record of no round is refused.
func TestCompilations(t *testing.T) {
	r := report.New("device", nil)
	require.OK(t, r.Add([]byte(cartCompiled)))
	want := "| `cart` | `direct` | 2 of 1000 | 1 | 0.5 | 1 | – | 3 | 0.25 | 2 / 48 | 0.5 | yes | 450, 1800 | 2 | `direct` 0.4, `navigator` – |"
	wants(t, (devices{r, r}).compiled(), want, "Commit abc, cpu. The machine's load was at most 2.00")
	wants(t, markdownOf(t, r), want)
	for _, bad := range [][2]string{{`"best":1`, `"best":3`}, {`"best":1`, `"best":-1`}, {`"cart"`, `""`}} {
		if err := report.New("device", nil).Add([]byte(strings.Replace(cartCompiled, bad[0], bad[1], 1))); err == nil {
			t.Errorf("%s is taken", bad[1])
		}
	}
}

// TestRounds: each has what it added, why, and what it reached; one that no more starts confirmed
// has a dash, and so have the seconds of a busy machine.
func TestRounds(t *testing.T) {
	r := report.New("device", nil)
	d := devices{r}
	wants(t, d.rounds("cart"), noRecord)
	text := strings.Replace(cartCompiled, `{"scenarios":300,"samples":1800}`, `{"kind":"data","why":"the worst","scenarios":300,"focused":90,"samples":1800,"epochs":60,"training":{"mean_pct":0.25},"held_out":{"mean_pct":0.5,"p90_pct":1,"max_pct":9},
		"confirmed":{"mean_pct":0.75,"p90_pct":2,"max_pct":24},"seconds":{"solve":10,"train":20,"evaluate":3}}`, 1)
	require.OK(t, r.Add([]byte(text)))
	wants(t, d.rounds("cart"), "| data | the worst | 300 (90) | 1800 | 60 | 0.25 | 0.5 | 1 | 9 | 0.75, 2, 24 | 33 |", "Commit abc, cpu.")
	report.Set[compile.Report](r, nil)
	require.OK(t, r.Add([]byte(strings.NewReplacer(`"others":0.1`, `"others":0.5`, `"confirmed"`, `"none"`).Replace(text))))
	wants(t, d.rounds("cart"), "| 9 | – | – |")
}

// TestTimesBesideOtherWork: times of a busy machine are left out, and it is said of which map;
// what others did while the times were taken counts before what they did in the whole run.
func TestTimesBesideOtherWork(t *testing.T) {
	const others = `"others":0.1`
	for name, c := range map[string]struct {
		record, row string
		says        bool
	}{
		"a busy run":          {strings.Replace(cartCompiled, others, `"others":1.25`, 1), "| 0.25 | – | 0.5 | yes | 450, 1800 | – |", true},
		"a guest beside":      {strings.Replace(cartCompiled, `"stolen":0`, `"stolen":1.15`, 1), "| 0.25 | – | 0.5 | yes | 450, 1800 | – |", true},
		"quiet for the times": {strings.Replace(cartCompiled, others, `"others":1.25},"times_load":{"cpus":2,"others":0`, 1), "| 0.25 | 2 / 48 | 0.5 | yes | 450, 1800 | – |", false},
		"busy for the times":  {strings.Replace(cartCompiled, others+`,"stolen":0}`, others+`,"stolen":0},"times_load":{"cpus":2,"others":1.25,"stolen":0}`, 1), "| 0.25 | – | 0.5 | yes | 450, 1800 | 2 |", true},
		"a load unknown":      {strings.Replace(cartCompiled, `"load":{`, `"unknown":{`, 1), "| 0.25 | 2 / 48 | 0.5 | yes | 450, 1800 | 2 |", false},
	} {
		r := report.New("device", nil)
		require.OK(t, r.Add([]byte(c.record)))
		text := (devices{r}).compiled()
		if !strings.Contains(text, c.row) || strings.Contains(text, "left out: `cart` (others had 1.25 CPUs)") != c.says {
			t.Errorf("%s: want %s and %t that its times are left out:\n%s", name, c.row, c.says, text)
		}
	}
}

// TestWhatIsNotRecorded: the systems that solvers are timed on have a row each, with a record
// or without; a target that is missed has its reason.
func TestWhatIsNotRecorded(t *testing.T) {
	r := report.New("device", nil)
	report.Set(r, []peerrecord.Record{peersOfTwo()})
	missed := strings.NewReplacer(`"cart"`, `"walker"`, `"met":true`, `"met":false,"advice":"more starts"`).Replace(cartCompiled)
	for _, text := range []string{cartCompiled, missed} {
		require.OK(t, r.Add([]byte(text)))
	}
	text := (devices{r}).compiled()
	wants(t, text, "\nWithout a record: `crane`.", "| `cart` | `direct` | 2 of 1000 |", "| `walker` | `direct` | 2 of 1000 |", "What would help `walker`: more starts.")
	if cart, walker := strings.Index(text, "| `cart`"), strings.Index(text, "| `walker`"); !(cart < walker) {
		t.Errorf("the order of the systems is not that of the solvers' record:\n%s", text)
	}
}

// TestMethodsBesideMaps: pairings of cases that the program does not have stand in the gallery's
// table, and not among those of its own cases.
func TestMethodsBesideMaps(t *testing.T) {
	r := report.New("device", known())
	report.Set(r, []peerrecord.Record{peersOfTwo()})
	pairing := func(name string, others float64) closedloop.Pairing {
		return closedloop.Pairing{Case: name, Seed: 7, Commit: "abc", Device: "cpu", Load: &closedloop.Load{Others: others}, Pairs: []closedloop.Paired{
			{Method: "direct", Episodes: 20, Safe: 20, Decisions: 800, Fallback: 50, Guard: &closedloop.GuardCounts{}, RegretPct: 0.5, RegretCI95: 0.1, Latency: closedloop.Latency{Quantiles: closedloop.Quantiles{P50: 3, P99: 40}}},
			{Method: "nmpc", Episodes: 20, Safe: 19, RegretPct: 0.1, RegretCI95: 0.2, DifferencePct: -0.4, DifferenceCI95: 0.1, Compared: 19, Latency: closedloop.Latency{Quantiles: closedloop.Quantiles{P50: 400, P99: 2000}}},
		}}
	}
	report.Set(r, []closedloop.Pairing{pairing("integrator-convex", 0), pairing("cart", 0)})
	d := devices{r}
	text := d.besideCompiled()
	wants(t, text,
		"| `cart` | `direct` | 20/20 | 0.50000 ± 0.10000 | – | – | 0.0000 | – | – | 6.2 | 0.003 / 0.040 of all |",
		"| `cart` | `nmpc` | 19/20 | 0.10000 ± 0.20000 | – | – | 0.0000 | -0.40000 ± 0.10000 | 19 | – | 0.400 / 2.000 of all |",
		"\nWithout a record: `crane`.", "Seed 7, commit abc, cpu.")
	if strings.Contains(text, "integrator-convex") {
		t.Errorf("the gallery's table has a case of the paper's:\n%s", text)
	}
	if own := d.quality(); !strings.Contains(own, "| integrator-convex |") || strings.Contains(own, "cart") {
		t.Errorf("the table of the search is\n%s", own)
	}
	whole := markdownOf(t, r)
	wants(t, whole, "### integrator-convex: quality", "### Methods beside compiled maps")
	if strings.Contains(whole, "### The latent step on compiled maps") {
		t.Errorf("parts are shown without a record:\n%s", whole)
	}
	parts := pairing("cart", 0)
	parts.Pairs[1].Method = "navigator-no-lie"
	report.Set(r, []closedloop.Pairing{pairing("cart", 0), parts})
	if text := d.besideCompiled(); strings.Contains(text, "navigator-no-lie") {
		t.Errorf("the table of whole methods has one without a part:\n%s", text)
	}
	wants(t, d.latentSteps(), "| `cart` | `direct` | 20/20 |", "| `cart` | `navigator-no-lie` | 19/20 |", "\nWithout a record: `crane`.")
	wants(t, markdownOf(t, r), "### Methods beside compiled maps", "### The latent step on compiled maps")
	report.Set(r, []closedloop.Pairing{})
	require.OK(t, r.Add(require.Get(finite.Marshal(pairing("cart", 1)))(t)))
	wants(t, d.besideCompiled(), "| `cart` | `nmpc` | 19/20 | 0.10000 ± 0.20000 | – | – | 0.0000 | -0.40000 ± 0.10000 | 19 | – | – |")
}
