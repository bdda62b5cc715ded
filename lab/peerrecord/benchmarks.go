package peerrecord

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/internal/machine"
)

// Benchmarked is a run of a program that prints measurements, as lab/record keeps it: of go
// test -bench, or of one that prints JSON.
type Benchmarked struct {
	Device     string      `json:"device"`
	Commit     string      `json:"commit"`
	Command    string      `json:"command"` // that printed them
	Benchmarks []Benchmark `json:"benchmarks"`
	// Load is the machine's meanwhile; the program's own processes are not among the others.
	Load *machine.Load `json:"load,omitempty"`
}

// Benchmark is one measurement by its name: for go test BenchmarkX/Y without the number of
// processors, with its metrics by their units.
type Benchmark struct {
	Name    string             `json:"name"`
	Metrics map[string]float64 `json:"metrics"`
}

// Check says what of a run cannot be.
func (b *Benchmarked) Check() error {
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
