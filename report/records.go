// Package report turns recorded runs into the paper's tables and figures, ours
// beside the paper's.
//
// The central type is Records: every evaluation, benchmark, certificate and
// trace found in a folder of results. Nothing in a table is typed: what was not
// recorded is missing from it.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// Records are the recorded runs of one device.
type Records struct {
	Device       string // folder name
	Evaluations  []closedloop.Result
	Benchmarks   []Benchmark
	Certificates []Certified
	Steerings    []closedloop.Steering
	Peers        []peerrecord.Record
	Comparisons  []Compared
	Traces       []Trace
}

// Benchmark is what `gpc bench` prints and what bench/results holds.
type Benchmark struct {
	Device  string         `json:"device"`
	Commit  string         `json:"commit"`
	Command string         `json:"command"`
	Results []bench.Result `json:"results"`
}

// Certified is the record of `gpc certify`.
type Certified struct {
	Certificate *batchnav.Certificate `json:"certificate"`
	Recovery    *batchnav.Recovery    `json:"recovery"`
	Commit      string                `json:"commit"`
	Device      string                `json:"device"`
}

// Trace is a recorded trace, whole.
type Trace struct {
	Header   closedloop.Header
	Episodes []closedloop.EpisodeRecord
}

// kinds tells records apart by a key that only one of them has.
func kind(raw map[string]json.RawMessage) string {
	switch {
	case raw["certificate"] != nil:
		return "certify"
	case raw["results"] != nil:
		return "bench"
	case raw["ratios"] != nil:
		return "peers"
	case raw["comparisons"] != nil:
		return "compare"
	case raw["front"] != nil:
		return "steer"
	case raw["method"] != nil && raw["episodes"] != nil:
		return "eval"
	}
	return ""
}

// maxRecord bounds one recorded file.
const maxRecord = 64 << 20

// Load reads every *.json and *.jsonl file of dir. A file that is not a record
// is an error that names it.
func Load(dir string) (*Records, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	r := &Records{Device: filepath.Base(dir)}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".jsonl"):
			err = r.AddTrace(path)
		case strings.HasSuffix(e.Name(), ".json"):
			err = r.add(path)
		}
		if err != nil {
			return nil, fmt.Errorf("report: %s: %w", path, err)
		}
	}
	return r, nil
}

func (r *Records) add(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > maxRecord {
		return fmt.Errorf("%d bytes, a record has at most %d", info.Size(), maxRecord)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	switch kind(raw) {
	case "certify":
		return decode(text, &r.Certificates)
	case "bench":
		return decode(text, &r.Benchmarks)
	case "peers":
		return decode(text, &r.Peers)
	case "compare":
		return decode(text, &r.Comparisons)
	case "steer":
		return decode(text, &r.Steerings)
	case "eval":
		return decode(text, &r.Evaluations)
	}
	return errors.New("not a record of eval, compare, bench, certify, steer or peers")
}

func decode[T any](text []byte, into *[]T) error {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	*into = append(*into, v)
	return nil
}

// AddTrace reads a whole trace file into the records.
func (r *Records) AddTrace(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := readTrace(f)
	if err != nil {
		return err
	}
	r.Traces = append(r.Traces, t)
	return nil
}

func readTrace(in io.Reader) (Trace, error) {
	reader, err := closedloop.NewReader(in)
	if err != nil {
		return Trace{}, err
	}
	t := Trace{Header: reader.Header}
	for {
		ep, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t.Episodes = append(t.Episodes, *ep)
	}
}

// Devices lists the folders of results that hold records.
func Devices(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if dir := filepath.Dir(path); !d.IsDir() && strings.HasSuffix(path, ".json") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	slices.Sort(dirs)
	return dirs, nil
}

// cases lists the cases that have evaluations or traces, by name.
func (r *Records) cases() []string {
	var names []string
	for _, e := range r.Evaluations {
		if !slices.Contains(names, e.Case) {
			names = append(names, e.Case)
		}
	}
	for _, t := range r.Traces {
		if !slices.Contains(names, t.Header.Case) {
			names = append(names, t.Header.Case)
		}
	}
	slices.Sort(names)
	return names
}

// of returns the evaluations of a case without noise and with the adaptive
// priority, one per method, in the order of the tables.
func (r *Records) of(name string) []closedloop.Result {
	var out []closedloop.Result
	for _, e := range r.Evaluations {
		if e.Case == name && e.Noise == 0 && e.Regime == "" {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b closedloop.Result) int { return rank(a.Method) - rank(b.Method) })
	return out
}

// noisy returns the evaluations of a case with measurement noise, by noise.
func (r *Records) noisy(name string) []closedloop.Result {
	var out []closedloop.Result
	for _, e := range r.Evaluations {
		if e.Case == name && e.Noise > 0 && e.Regime == "" {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b closedloop.Result) int {
		switch {
		case a.Noise < b.Noise:
			return -1
		case a.Noise > b.Noise:
			return 1
		}
		return rank(a.Method) - rank(b.Method)
	})
	return out
}

// order of methods in tables and figures.
var order = []string{
	"oracle", "gpc", "direct", "gpc-observer", "gpc-no-semantic", "gpc-no-rollout", "gpc-no-lie", "gpc-no-retraction", "gpc-no-projection", "gpc-no-fallback",
	"dp", "online", "mpc", "mpc8", "nmpc",
}

func rank(method string) int {
	if i := slices.Index(order, method); i >= 0 {
		return i
	}
	return len(order)
}
