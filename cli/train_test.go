package cli

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The loss that is said of an epoch is the mean of its samples, as in the curves, and not that of
// its last update, which may be of two samples.
func TestTheLossOfAnEpochIsItsMean(t *testing.T) {
	app, _ := cart(t)
	dir := t.TempDir()
	data, curves := filepath.Join(dir, "data"), filepath.Join(dir, "curves.csv")
	if code, _, log := run(app, "dataset", "cart", "--scenarios", "6", "--weights", "1", "--out", data); code != 0 {
		t.Fatal(log)
	}
	code, _, log := run(app, "train", "cart", "--data", data, "--latent", "2", "--hidden", "4", "--batch", "16", "--epochs", "3", "--rollout-epochs", "2", "--lr", "0.001", "--out", filepath.Join(dir, "map"), "--curves", curves)
	if code != 0 {
		t.Fatal(log)
	}
	f := require.Get(os.Open(curves))(t)
	defer f.Close()
	rows := require.Get(csv.NewReader(f).ReadAll())(t)
	said := 0
	for _, row := range rows[1:] {
		total := row[slices.Index(rows[0], row[0]+"_total")]
		want := fmt.Sprintf("%-8s epoch %3s/", row[0], row[1])
		for line := range strings.Lines(log) {
			if _, of, ok := strings.Cut(line, want); ok {
				said++
				if _, loss, _ := strings.Cut(of, "loss "); !strings.HasPrefix(loss, fmt.Sprintf("%.3e ", require.Get(strconv.ParseFloat(total, 64))(t))) {
					t.Errorf("%q, the curves have %s", strings.TrimSpace(line), total)
				}
			}
		}
	}
	if said != 5 {
		t.Errorf("%d epochs are said, want 5: %s", said, log)
	}
}
