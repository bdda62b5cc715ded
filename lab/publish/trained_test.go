package publish

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// trainedCart is a record of a seed: means of the map and of the plain network, then of both by direct.
func trainedCart(t *testing.T, name string, seed uint64, means ...closedloop.Number) []byte {
	score := func(method string, i int) compile.Score {
		return compile.Score{Method: method, Episodes: 1000, Unsafe: i, Mean: means[i], Max: 10 * means[i]}
	}
	return require.Get(json.Marshal(compile.Report{
		Case: name, Seed: seed, Clock: "cpu", Commit: "abc", Device: "AMD", Rounds: make([]compile.Round, 1), Choice: make([]compile.Score, 1),
		Test: score("polish-ahead", 0), Plain: &compile.Plain{Score: score("polish-ahead", 1), Map: score("direct", 2), Direct: score("direct", 3)},
	}))(t)
}

// TestTrainings: every seed has a row, in their order, and the seeds of a case how far apart they are; none of them is among the maps that are
// used, and there is no such row of one seed, nor a ratio to a mean that is not above zero or not known.
func TestTrainings(t *testing.T) {
	r := report.New("device", nil)
	d := devices{r}
	wants(t, d.trainings(), noRecord)
	report.Set(r, []peerrecord.Record{peersOfTwo()})
	require.OK(t, r.Add([]byte(cartCompiled)))
	for _, text := range [][]byte{
		trainedCart(t, "cart", 2, 0.5, 0.02, 3, closedloop.Number(math.NaN())), trainedCart(t, "cart", 1, 0.1, -0.01, 1.5, 4), trainedCart(t, "walker", 1, 1, 2, 3, 4),
	} {
		require.OK(t, r.Add(text))
	}
	rows := []string{
		"| `cart` | 1 | `polish-ahead` | 0 of 1000 | 0.1 (1) | 1 of 1000 | -0.01 (-0.1) | 2 of 1000 | 1.5 (15) | 3 of 1000 | 4 (40) |",
		"| `cart` | 2 | `polish-ahead` | 0 of 1000 | 0.5 (5) | 1 of 1000 | 0.02 (0.2) | 2 of 1000 | 3 (30) | 3 of 1000 | – (–) |",
		"| `cart` | largest / least |  |  | 5 |  | – |  | 2 |  | – |",
		"| `walker` | 1 |",
	}
	text := d.trainings()
	if wants(t, text, append(rows, "\nWithout a record: `crane`.", "Commit abc, AMD.")...); !strings.Contains(text, strings.Join(rows[:3], "\n")) || strings.Contains(text, "| `walker` | largest") {
		t.Errorf("the order of the rows, or the spread of one seed:\n%s", text)
	}
	wants(t, markdownOf(t, r), rows...)
	if maps := d.compiled(); strings.Count(maps, "| `cart` |") != 1 || strings.Contains(maps, "walker") || len(report.Of[compile.Report](r)) != 1 {
		t.Errorf("trainings among the maps that are used:\n%s", maps)
	}
	for _, bad := range [][2]string{{`"best":0`, `"best":3`}, {`"case":"cart"`, `"case":""`}} {
		if err := report.New("device", nil).Add([]byte(strings.Replace(string(trainedCart(t, "cart", 1, 1, 1, 1, 1)), bad[0], bad[1], 1))); err == nil {
			t.Errorf("%s is taken", bad[1])
		}
	}
	if err := report.New("device", nil).Add([]byte(strings.Replace(cartCompiled, `"best":1`, `"best":1,"plain":null`, 1))); err == nil {
		t.Error("a plain network of null is taken")
	}
}
