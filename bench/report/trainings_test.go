package report

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// publishedLimit is PUBLISHED_LIMIT of baselines/all.py, bytes.
const publishedLimit = 2_000_000

// The rows of first seeds can be run without a training: their actors are committed, and no other.
func TestCommittedActorsAreThoseOfTheRows(t *testing.T) {
	rows := map[string]string{} // of a first seed, by the actor's hash
	evaluated := map[string]bool{}
	for _, list := range require.Get(filepath.Glob(filepath.Join("../..", "bench", "results", "*", trainingsFile)))(t) {
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
	for _, file := range require.Get(filepath.Glob(filepath.Join("../..", "baselines", "actors", "*.safetensors")))(t) {
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
		t.Errorf("%s, seed 1: its actor is not in baselines/actors: make baselines-actors", row)
	}
	if size > publishedLimit {
		t.Errorf("the actors have %d bytes, want at most %d", size, publishedLimit)
	}
}
