package report

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/interrupt"
)

// maxRecord bounds one recorded file.
const maxRecord = 64 << 20

// Load reads every *.json, *.jsonl and *.jsonl.gz file in dir and the folders below it, and the list of the
// trainings there. A file that is not a record is an error that names it.
func Load(ctx context.Context, dir string, cases map[string]Case) (*Records, error) {
	r := New(filepath.Base(dir), cases)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("report: %w", err)
		case isTrace(path):
			return r.AddTrace(ctx, path)
		case strings.HasSuffix(path, ".json"):
			if err := r.addFile(path); err != nil {
				return fmt.Errorf("report: %s: %w", path, err)
			}
		case path == filepath.Join(dir, trainingsFile):
			if err := r.addTrainings(path); err != nil {
				return fmt.Errorf("report: %s: %w", path, err)
			}
		}
		return nil
	})
	if err == nil {
		err = r.mixed()
	}
	return r, err
}

// mixed says which evaluations of a case are not of one problem, or not of one map though their
// methods have the case's: in a table they would stand side by side as if they were. Records
// that do not say so pass.
func (r *Records) mixed() error {
	type of struct{ sum, method string }
	problems, maps := map[string]of{}, map[string]of{}
	same := func(what string, known map[string]of, e *closedloop.Result, sum string) error {
		first, ok := known[e.Case]
		switch {
		case sum == "":
		case !ok:
			known[e.Case] = of{sum, e.Method}
		case first.sum != sum:
			return fmt.Errorf("report: %s: records of %s are of two %s: that of %s has %s, that of %s %s", r.Device, e.Case, what, first.method, first.sum, e.Method, sum)
		}
		return nil
	}
	for _, e := range Of[closedloop.Result](r) {
		if len(e.Shift) > 0 || e.ScenesSHA256 != "" {
			continue // of a plant of their own
		}
		if err := same("problems", problems, &e, e.ProblemSHA256); err != nil {
			return err
		}
		if m := r.Method(e.Case, e.Method); m.Needs&domain.NeedsMap != 0 {
			if err := same("maps", maps, &e, e.ModelSHA256); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Records) addFile(path string) error {
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
	return r.Add(text)
}

// namedMethod is a method that a record names.
var namedMethod = regexp.MustCompile(`("method": ?")([^"]*)(")`)

// present is the present name of a method of a case; one that is not known has the navigator's.
func (r *Records) present(name, method string) string {
	if _, known := r.Cases[name]; !known {
		for _, m := range batchnav.Named() {
			if m.Called(method) {
				return m.Name
			}
		}
	}
	return r.Method(name, method).Name
}

// renamed is a record of a case with its methods' present names.
func (r *Records) renamed(name string, text []byte) []byte {
	return namedMethod.ReplaceAllFunc(text, func(found []byte) []byte {
		part := namedMethod.FindSubmatch(found)
		return slices.Concat(part[1], []byte(r.present(name, string(part[2]))), part[3])
	})
}

// Add reads one record, JSON of one of the kinds.
func (r *Records) Add(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	var name string
	if err := json.Unmarshal(raw["case"], &name); err == nil {
		text = r.renamed(name, text)
	}
	for _, k := range kinds {
		if k.is(raw) {
			return k.add(r, text)
		}
	}
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return fmt.Errorf("not a record of any of %s", strings.Join(names, ", "))
}

// addEvaluation reads an evaluation; an error that its program did not write is none.
func (r *Records) addEvaluation(text []byte) error {
	none := closedloop.Number(math.NaN())
	e := closedloop.Result{GapSEM: none, RegretSEM: none, MarginSEM: none}
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	if e.Series != nil {
		if err := checkSeries(e.Series); err != nil {
			return err
		}
	}
	if Disturbed(e.Load) {
		e.Untimed()
	}
	Put(r, e)
	return nil
}

// isTrace says whether a file is a trace, as it was written or compressed.
func isTrace(path string) bool {
	return strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".jsonl")
}

// AddTrace reads a whole trace file into the records.
func (r *Records) AddTrace(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer f.Close()
	in := interrupt.Reader(ctx, f)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("report: %s: %w", path, err)
		}
	}
	if err := r.addTrace(in); err != nil {
		return fmt.Errorf("report: %s: %w", path, err)
	}
	return nil
}

func (r *Records) addTrace(in io.Reader) error {
	var t Trace
	h, err := closedloop.ReadTrace(in, func(e *closedloop.EpisodeRecord) error {
		t.Episodes = append(t.Episodes, *e)
		return nil
	})
	if err != nil {
		return err
	}
	t.Header = *h
	t.Header.Method = r.present(h.Case, h.Method)
	if err := t.check(); err != nil {
		return err
	}
	r.Traces = append(r.Traces, t)
	return nil
}

// check says what of a trace cannot be drawn: episodes of no decision, and lists that are
// empty or of several lengths.
func (t *Trace) check() error {
	priorities := 0
	for _, e := range t.Episodes {
		if len(e.Lines) == 0 {
			return fmt.Errorf("line %d: episode %d has no decision", e.SceneLine, e.Episode)
		}
		states := len(e.Lines[0].S) // their number may differ from scene to scene
		priorities = cmp.Or(priorities, len(e.Lines[0].Sigma))
		for _, l := range e.Lines {
			if len(l.S) != states || len(l.Sigma) != priorities || states == 0 || priorities == 0 {
				return fmt.Errorf("line %d has %d values of s and %d of sigma, want %d and %d, and some of each", l.Line, len(l.S), len(l.Sigma), states, priorities)
			}
		}
	}
	return nil
}

// LoadAll reads the records of every device below a folder of results, in the order of their names. A folder without any
// is an error.
func LoadAll(ctx context.Context, results string, cases map[string]Case) (all []*Records, err error) {
	dirs, err := Devices(results)
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("report: %s: no recorded runs (*.json) and no traces (*.jsonl) in it", results)
	}
	for _, dir := range dirs {
		r, err := Load(ctx, dir, cases)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Devices lists the folders of results that hold records or traces, without those below another.
func Devices(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if dir := filepath.Dir(path); !d.IsDir() && (strings.HasSuffix(path, ".json") || isTrace(path)) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return nil
	})
	dirs = slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return slices.Contains(dirs, filepath.Dir(dir)) })
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	slices.Sort(dirs)
	return dirs, nil
}
