package report

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// publishedLimit is PUBLISHED_LIMIT of lab/baselines/all.py, bytes.
const publishedLimit = 2_000_000

// The rows of first seeds can be run without a training: their actors are committed, and no other.
func TestCommittedActorsAreThoseOfTheRows(t *testing.T) {
	rows := map[string]string{} // of a first seed, by the actor's hash
	evaluated := map[string]bool{}
	for _, list := range require.Get(filepath.Glob(filepath.Join("../..", "lab", "results", "*", trainingsFile)))(t) {
		f := require.Get(os.Open(list))(t)
		lines := require.Get(csv.NewReader(f).ReadAll())(t)
		f.Close()
		for _, line := range lines[1:] {
			row := map[string]string{}
			for i, heading := range lines[0] {
				row[heading] = line[i]
			}
			evaluated[row["model_sha256"]] = true
			if row["training_seed"] == "1" {
				rows[row["model_sha256"]] = list + ": " + row["case"] + " " + row["method"]
			}
		}
	}
	size := 0
	for _, file := range require.Get(filepath.Glob(filepath.Join("..", "baselines", "actors", "*.safetensors")))(t) {
		data := require.Get(os.ReadFile(file))(t)
		size += len(data)
		sum := sha256.Sum256(data)
		if own := hex.EncodeToString(sum[:]); evaluated[own] {
			delete(rows, own)
		} else {
			t.Errorf("%s: no recorded evaluation is of it", file)
		}
	}
	for _, row := range rows {
		t.Errorf("%s, seed 1: its actor is not in lab/baselines/actors: lab/run baselines-actors", row)
	}
	if size > publishedLimit {
		t.Errorf("the actors have %d bytes, want at most %d", size, publishedLimit)
	}
}

// A row of a learned method says how many of its trainings end below the return of the untrained policy; where limits are part
// of what is learned, and fewer are broken for it, that is no loss.
func TestTrainingsThatEndWorseThanTheyBeganAreTold(t *testing.T) {
	r := require.Get(Load(t.Context(), filepath.Join("../..", "lab", "results", "epyc-2-cores"), known()))(t)
	told := map[string]string{}
	for _, e := range Of[closedloop.Result](r) {
		if title := r.Titled(&e); strings.Contains(title, "seeds") {
			_, told[e.Case+" "+e.Method], _ = strings.Cut(title, "; ")
		}
	}
	if len(told) < 20 {
		t.Fatalf("%d rows of learned methods", len(told))
	}
	below := map[string]string{
		"multiagent-static ppo": "3 of 3", "multiagent-static ppo+safeguard": "3 of 3", "multiagent-static ppo-shielded": "3 of 3", "multiagent-moving ppo-shielded": "2 of 3",
		"opf30 td3": "1 of 3", "opf30 td3+safeguard": "1 of 3", "opf30-uncertain td3": "1 of 3", "opf30-uncertain td3+safeguard": "1 of 3",
	}
	for row, says := range told {
		want := ""
		if below[row] != "" {
			want = below[row] + " end below the untrained return"
		}
		if says != want {
			t.Errorf("%s: %q, want %q", row, says, want)
		}
	}
}

// A curve without its columns or points is refused, one that is not there is none.
func TestCurvesOfTrainings(t *testing.T) {
	at := func(method, text string) (bool, bool, error) {
		path := filepath.Join(t.TempDir(), "case-"+method+"-1.csv")
		require.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return endsBelow(path)
	}
	const head = "return_mean,cost_mean\n"
	for _, v := range []struct {
		method, text string
		below        bool
	}{
		{"ppo", head + "-10,5\n-8,5\n", false}, {"ppo", head + "-10,5\n-12,1\n", true}, {"cpo", head + "-10,5\n-12,1\n", false}, {"cpo", head + "-10,5\n-12,6\n", true},
	} {
		if below, found, err := at(v.method, v.text); below != v.below || !found || err != nil {
			t.Errorf("%s, %q: below %v, found %v, %v", v.method, v.text, below, found, err)
		}
	}
	for _, text := range []string{"", head, "return_mean\n1\n2\n", head + "x,1\n2,3\n"} {
		if _, _, err := at("ppo", text); err == nil {
			t.Errorf("%q is taken for a curve", text)
		}
	}
	if _, found, err := endsBelow(filepath.Join(t.TempDir(), "none.csv")); found || err != nil {
		t.Errorf("a curve that is not there: %v, %v", found, err)
	}
}
