package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// TestCompilations: a row says what the test of a map found, a record of no round is refused.
func TestCompilations(t *testing.T) {
	r := New("device", nil)
	text := `{"case":"cart","commit":"abc","device":"cpu","rounds":[{"scenarios":150,"samples":600},{"scenarios":300,"samples":1800},{"scenarios":9,"samples":9999}],"best":1,"choice":[],
		"test":{"method":"direct","episodes":1000,"unsafe":2,"no_way":1,"mean_pct":0.5,"p90_pct":1,"max_pct":null,"unsolved":3,"rescued_pct":0.25,"p50_us":2,"p99_us":48},"target":{"mean_pct":0.5},"seconds":120}`
	if err := r.addRecord([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := "| `cart` | 0.5 | 450, 1800 | 2 | `direct` | 2 of 1000 | 1 | 0.5 | 1 | – | 3 | 0.25 | 2 / 48 |"
	if s := r.compilationSections(); len(s) != 1 || strings.Count(tables(s...), want) != 1 {
		t.Errorf("the sections are %v, want once\n%s", s, want)
	}
	for _, bad := range []string{strings.Replace(text, `"best":1`, `"best":3`, 1), strings.Replace(text, `"best":1`, `"best":-1`, 1), strings.Replace(text, `"cart"`, `""`, 1)} {
		if err := New("device", nil).addRecord([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestCompilationIsARecord: what compile writes is known by its keys.
func TestCompilationIsARecord(t *testing.T) {
	text := must.Get(json.Marshal(compile.Report{Case: "cart", Rounds: make([]compile.Round, 1), Choice: make([]compile.Score, 1)}))(t)
	r := New("device", nil)
	if err := r.addRecord(text); err != nil || len(r.Compilations) != 1 {
		t.Errorf("%d compilations and %v from %s", len(r.Compilations), err, text)
	}
}

// TestSolversBesideOurs: a cell has the three ratios of a peer, theirs are in the order of the columns.
func TestSolversBesideOurs(t *testing.T) {
	r := New("device", nil)
	ratio := func(op, peer string, ours, theirs float64, unsolved int) peerrecord.Ratio {
		return peerrecord.Ratio{Op: op, Case: "cart, 40 steps", Peer: peer, Ratio: theirs / ours, OursUS: ours, PeerUS: theirs, Decisions: 10, Unsolved: unsolved}
	}
	p := peerrecord.Record{Commit: "abc", Device: "cpu", Note: "CPU times.", Checks: []peerrecord.Check{{Case: "cart", Decisions: 10, Worst: 2e-9, Above: 3e-6}}}
	for _, peer := range []struct {
		name     string
		us       float64
		unsolved int
	}{{"CasADi + slow", 4000, 0}, {"CasADi + quick", 2000, 0}, {"CasADi + fails", 500, 3}} {
		p.Ratios = append(p.Ratios, ratio("warm p50", peer.name, 1000, peer.us, peer.unsolved), ratio("warm p99", peer.name, 1500, 2*peer.us, peer.unsolved), ratio("cold p50", peer.name, 8000, peer.us, peer.unsolved))
	}
	r.Peers = []peerrecord.Record{{}, p}
	d := devices{r}
	if got, want := d.solvers(), "| `cart` | 10 | 1 / 1.5 / 8 | 4 / 5.33 / 0.5 | 2 / 2.67 / 0.25 | 0.5 / 0.667 / 0.0625 | 0 | 0 / 0 / 3 | 2e-09 | 3e-06 |"; !strings.Contains(got, want) {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}
