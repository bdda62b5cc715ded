package report

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gpc-engine/gpc/closedloop"
)

// trainingsFile is the list of the evaluations of learned methods, a line a training, below a
// device's folder (baselines/all.py).
var trainingsFile = filepath.Join("baselines", "evaluations.csv")

// learned is a learned method as evaluated in one case.
type learned struct{ name, regime, method string }

// trainings are how many of a learned method's trainings were evaluated, of how many.
type trainings struct{ recorded, planned int }

// addTrainings reads a list of evaluations.
func (r *Records) addTrainings(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return fmt.Errorf("it has no line of headings")
	}
	at := map[string]int{}
	for _, heading := range []string{"case", "regime", "method", "training_seeds"} {
		if at[heading] = slices.Index(lines[0], heading); at[heading] < 0 {
			return fmt.Errorf("it has no column %q", heading)
		}
	}
	for i, line := range lines[1:] {
		key := learned{line[at["case"]], line[at["regime"]], line[at["method"]]}
		t := r.trainings[key]
		planned, err := strconv.Atoi(line[at["training_seeds"]])
		if err != nil {
			return fmt.Errorf("line %d: training_seeds: %w", i+2, err)
		}
		t.recorded++
		t.planned = max(t.planned, planned)
		r.trainings[key] = t
	}
	return nil
}

// seeds says behind the name of a learned method how many of its trainings are there, the first of
// which the record is of; "" for other methods.
func (r *Records) seeds(e *closedloop.Result) string {
	t, ok := r.trainings[learned{e.Case, e.Regime, e.Method}]
	switch {
	case !ok:
		return ""
	case t.recorded == 1:
		return fmt.Sprintf(", 1 of %d seeds", t.planned)
	case t.recorded == t.planned:
		return fmt.Sprintf(", first of %d seeds", t.planned)
	}
	return fmt.Sprintf(", first of %d of %d seeds", t.recorded, t.planned)
}

// Titled is the method of an evaluation in a table.
func (r *Records) Titled(e *closedloop.Result) string { return "`" + e.Method + "`" + r.seeds(e) }
