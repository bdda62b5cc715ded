package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
)

// Benchmarked is a run of a program that prints measurements, as bench/record keeps it: of go
// test -bench, or of one that prints JSON.
type Benchmarked struct {
	Device     string      `json:"device"`
	Commit     string      `json:"commit"`
	Command    string      `json:"command"` // that printed them
	Benchmarks []Benchmark `json:"benchmarks"`
	// Load is the machine's meanwhile; the program's own processes are not among the others.
	Load *closedloop.Load `json:"load,omitempty"`
}

// Benchmark is one measurement by its name: for go test BenchmarkX/Y without the number of
// processors, with its metrics by their units.
type Benchmark struct {
	Name    string             `json:"name"`
	Metrics map[string]float64 `json:"metrics"`
}

// check says what of a run cannot be.
func (b *Benchmarked) check() error {
	if len(b.Benchmarks) == 0 {
		return errors.New("benchmarks is empty")
	}
	return nil
}

// ParseBenchmarks reads what a program printed: the lines of go test -bench, other lines among
// them, or a JSON array of objects with a name, whose other numbers are the metrics.
func ParseBenchmarks(text string) ([]Benchmark, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		return parseRows(text)
	}
	var all []Benchmark
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		b := Benchmark{Name: unnumbered(fields[0]), Metrics: map[string]float64{}}
		for i := 2; i < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is no number", b.Name, fields[i])
			}
			b.Metrics[fields[i+1]] = v
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return nil, errors.New("no benchmark was printed")
	}
	return all, nil
}

// unnumbered is a benchmark's name without -N, the processors that it ran on.
func unnumbered(name string) string {
	if at := strings.LastIndexByte(name, '-'); at >= 0 {
		if _, err := strconv.Atoi(name[at+1:]); err == nil {
			return name[:at]
		}
	}
	return name
}

// parseRows reads a JSON array of objects.
func parseRows(text string) ([]Benchmark, error) {
	var rows []map[string]any
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, err
	}
	all := make([]Benchmark, len(rows))
	for i, row := range rows {
		name, _ := row["name"].(string)
		if name == "" {
			return nil, fmt.Errorf("row %d has no name", i)
		}
		all[i] = Benchmark{name, map[string]float64{}}
		for key, v := range row {
			if number, ok := v.(float64); ok {
				all[i].Metrics[key] = number
			}
		}
	}
	return all, nil
}

// printed is the last run with a benchmark that is wanted on the first device that has one; nil:
// none is recorded.
func (d devices) printed(wanted func(m Benchmark) bool) *Benchmarked {
	for _, r := range d {
		for _, b := range slices.Backward(benchmarked.of(r)) {
			if slices.ContainsFunc(b.Benchmarks, wanted) {
				return &b
			}
		}
	}
	return nil
}

// below are the benchmarks that a benchmark of go test runs.
func below(name string) func(m Benchmark) bool {
	return func(m Benchmark) bool { return strings.HasPrefix(m.Name, name+"/") }
}

// least is the smallest of a benchmark's runs by one metric, NaN for none.
func (b *Benchmarked) least(name, metric string) float64 {
	least := math.NaN()
	for _, m := range b.Benchmarks {
		if v, ok := m.Metrics[metric]; ok && m.Name == name && !(least <= v) {
			least = v
		}
	}
	return least
}

// origin says where the figures of a table are from; with times what else the machine did.
func (b *Benchmarked) origin(times bool) string {
	if !times {
		return report.Origin(b.Command, b.Commit, b.Device)
	}
	return report.Origin(b.Command, b.Commit, b.Device, b.Load)
}

// grid is a table of benchmarks: its columns and rows by what their names have, and by what the
// table calls them.
type grid struct {
	corner        string
	columns, rows [][2]string
	cell          func(b *Benchmarked, column, row string) string
}

// text lays the benchmarks of a name out, each by its own cell.
func (g *grid) text(b *Benchmarked, times bool) string {
	s := report.Section{Provenance: b.origin(times), Rows: [][]string{{g.corner}}}
	for _, c := range g.columns {
		s.Rows[0] = append(s.Rows[0], c[1])
	}
	for _, r := range g.rows {
		row := []string{r[1]}
		for _, c := range g.columns {
			row = append(row, g.cell(b, c[0], r[0]))
		}
		s.Rows = append(s.Rows, row)
	}
	return report.Tables(s)
}

// gridOf is the grid of the benchmarks of a name, where they are recorded.
func (d devices) gridOf(name string, times bool, g grid) string {
	if b := d.printed(below(name)); b != nil {
		return g.text(b, times)
	}
	return noRecord
}
