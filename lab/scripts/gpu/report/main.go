// Command report makes records of what lab/scripts/gpu/run.sh wrote: files that
// lab/results/DEVICE holds, from the rows of benchmarks, the launches beside their
// limits, the suites and the times of other programs.
//
//	report RUN RESULTS
//
// RUN is run.sh's folder, RESULTS the folder of the device's records. A row that a later
// call into RUN measured again takes the place of the earlier one. Folders of the machine are left out of
// commands, and of its state only the device, its driver and the number of cores are kept.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/lab/report"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: report RUN RESULTS")
		os.Exit(2)
	}
	written, err := convert(os.Args[1], os.Args[2])
	for _, path := range written {
		fmt.Println(path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// convert writes the records of a run and gives their paths.
func convert(run, results string) (written []string, err error) {
	if err := os.MkdirAll(results, 0o755); err != nil {
		return nil, err
	}
	save := func(name string, v any) error {
		path := filepath.Join(results, name+".json")
		written = append(written, path)
		return durable.WriteJSON(path, v, "  ")
	}
	device := ""
	for _, file := range []string{"rows.jsonl", "launches.jsonl"} {
		records, err := benchmarks(filepath.Join(run, file))
		if err != nil {
			return written, err
		}
		for name, record := range records {
			device = record.Device
			if err := save(name, record); err != nil {
				return written, err
			}
		}
	}
	c, err := conformance(filepath.Join(run, "steps.jsonl"))
	if err != nil {
		return written, err
	}
	if c.Device = device; len(c.Suites) > 0 {
		if err := save("conformance", c); err != nil {
			return written, err
		}
	}
	err = lines(filepath.Join(run, "others.jsonl"), func(o struct {
		Step   string                     `json:"step"`
		Record map[string]json.RawMessage `json:"record"`
	}) error {
		if o.Record["ratios"] == nil { // what the report has no kind for stays in the archive
			return nil
		}
		return save(o.Step, o.Record)
	})
	if err != nil {
		return written, err
	}
	// What was run again by itself lies beside the others.
	if text, err := os.ReadFile(filepath.Join(run, "peers-step.json")); err == nil {
		var record map[string]json.RawMessage
		if err := json.Unmarshal(text, &record); err != nil {
			return written, fmt.Errorf("peers-step.json: %w", err)
		}
		if err := save("peers-step", record); err != nil {
			return written, err
		}
	}
	state, err := os.ReadFile(filepath.Join(run, "state.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return written, nil
	}
	if err != nil {
		return written, err
	}
	path := filepath.Join(results, "state.txt")
	return append(written, path), durable.WriteFile(path, deviceState(state), 0o644)
}

// deviceState keeps of a machine's state the number of its cores and the line of every device with its driver.
func deviceState(text []byte) []byte {
	var kept []string
	for part := range strings.SplitSeq(string(text), "\n== ") {
		if strings.HasPrefix(part, "nproc\n") || strings.HasPrefix(part, "nvidia-smi --query-gpu") {
			part, _, _ = strings.Cut(part, "\n\n")
			kept = append(kept, "== "+strings.TrimSpace(part)+"\n")
		}
	}
	return []byte(strings.Join(kept, "\n"))
}

// lines reads a file of JSON, one value a line; one that is not there has none.
func lines[T any](path string, each func(T) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 64<<20)
	for n := 1; scanner.Scan(); n++ {
		var v T
		if err := json.Unmarshal(scanner.Bytes(), &v); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		if err := each(v); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
	}
	return scanner.Err()
}

// benchmarks joins the rows of a command to one record, by the name of its file.
func benchmarks(path string) (map[string]bench.Record, error) {
	all := map[string]bench.Record{}
	return all, lines(path, func(one bench.Record) error {
		name := fileName(one.Command)
		one.Command = folders.ReplaceAllString(one.Command, "$1")
		for i := range one.Results {
			if one.Results[i].Launch != nil {
				one.Results[i].Latencies = nil // the median, the least and p99 of 20 say as much
			}
		}
		b, ok := all[name]
		if !ok || b.Command != one.Command || b.Commit != one.Commit {
			b = one
			b.Results = nil
		}
		for _, r := range one.Results {
			again := slices.IndexFunc(b.Results, func(o bench.Result) bool { return same(o, r) })
			if again >= 0 {
				b.Results[again] = r
			} else {
				b.Results = append(b.Results, r)
			}
		}
		all[name] = b
		return nil
	})
}

// same tells that two rows are of the same thing.
func same(a, b bench.Result) bool {
	if (a.Launch == nil) != (b.Launch == nil) || a.Launch != nil && (a.Launch.Of != b.Launch.Of || a.Launch.Place != b.Launch.Place) {
		return false
	}
	return a.Op == b.Op && a.Case == b.Case && a.Batch == b.Batch && a.Precision == b.Precision && a.Size == b.Size
}

var (
	folders = regexp.MustCompile(`(^| )/\S*/`)
	silent  = regexp.MustCompile(`--(backend|time|lines|model) \S+`)
	between = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// fileName is what a command measures, as a name: its path, and where its output goes,
// are left out.
func fileName(command string) string {
	_, what, _ := strings.Cut(command, " bench ")
	return "gpu-" + strings.Trim(between.ReplaceAllString(silent.ReplaceAllString(what, ""), "-"), "-")
}

// conformance takes the last run of each suite.
func conformance(path string) (c report.Conformance, err error) {
	err = lines(path, func(s struct {
		report.Suite
		Commit string `json:"commit"`
	}) error {
		if !strings.HasPrefix(s.Name, "suite-") {
			return nil
		}
		c.Commit = s.Commit
		c.Suites = slices.DeleteFunc(c.Suites, func(o report.Suite) bool { return o.Name == s.Name })
		c.Suites = append(c.Suites, s.Suite)
		return nil
	})
	return c, err
}
