// Package report turns recorded runs into the paper's tables and figures, ours
// beside the paper's.
//
// The central type is Records: every evaluation, benchmark, certificate and
// trace found in a folder of results. Nothing in a table is typed: what was not
// recorded is missing from it.
package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/interrupt"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// Records are the recorded runs of one device.
type Records struct {
	Device       string // folder name
	Evaluations  []closedloop.Result
	Benchmarks   []bench.Record
	Scalings     []bench.Scaling
	Certificates []batchnav.Certified
	Steerings    []closedloop.Steering
	Peers        []peerrecord.Record
	Conformances []Conformance
	Comparisons  []Compared
	Pairings     []closedloop.Pairing
	Compilations []compile.Report
	Tortures     []Torture
	Traces       []Trace

	cases     map[string]Case
	trainings map[learned]trainings
}

// Case is what tables need to know of a case: its methods in their order, and the
// paper's figures by method.
type Case struct {
	Methods []domain.Method
	Paper   map[string]domain.PaperRow
	// Definition replays and draws its traces; without it they are shown as time lines of
	// values without names.
	Definition domain.Case
}

// New returns empty records of a device that are told of under these cases.
func New(device string, cases map[string]Case) *Records {
	return &Records{Device: device, cases: cases, trainings: map[learned]trainings{}}
}

// Trace is a recorded trace, whole.
type Trace struct {
	Header   closedloop.Header
	Episodes []closedloop.EpisodeRecord
}

// maxRecord bounds one recorded file.
const maxRecord = 64 << 20

// Load reads every *.json and *.jsonl file in dir and the folders below it, and the list of the
// trainings there. A file that is not a record is an error that names it.
func Load(ctx context.Context, dir string, cases map[string]Case) (*Records, error) {
	r := New(filepath.Base(dir), cases)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("report: %w", err)
		case strings.HasSuffix(path, ".jsonl"):
			return r.AddTrace(ctx, path)
		case strings.HasSuffix(path, ".json"):
			if err := r.add(path); err != nil {
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
	for i := range r.Evaluations {
		e := &r.Evaluations[i]
		if len(e.Shift) > 0 || e.ScenesSHA256 != "" {
			continue // of a plant of their own
		}
		if err := same("problems", problems, e, e.ProblemSHA256); err != nil {
			return err
		}
		if m := r.method(e.Case, e.Method); m.Needs&domain.NeedsMap != 0 {
			if err := same("maps", maps, e, e.ModelSHA256); err != nil {
				return err
			}
		}
	}
	return nil
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
	return r.addRecord(text)
}

// addRecord reads one record.
func (r *Records) addRecord(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
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

// decode reads a record and, where there is one, holds it to a check.
func decode[T any](text []byte, into *[]T, check func(*T) error) error {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if check != nil {
		if err := check(&v); err != nil {
			return err
		}
	}
	*into = append(*into, v)
	return nil
}

// AddTrace reads a whole trace file into the records.
func (r *Records) AddTrace(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer f.Close()
	if err := r.addTrace(interrupt.Reader(ctx, f)); err != nil {
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
		if priorities == 0 {
			priorities = len(e.Lines[0].Sigma)
		}
		for _, l := range e.Lines {
			if len(l.S) != states || len(l.Sigma) != priorities || states == 0 || priorities == 0 {
				return fmt.Errorf("line %d has %d values of s and %d of sigma, want %d and %d, and some of each", l.Line, len(l.S), len(l.Sigma), states, priorities)
			}
		}
	}
	return nil
}

// checkSteering says what of a front is of another size than its first point.
func checkSteering(s *closedloop.Steering) error {
	for i, p := range s.Front {
		if n := len(s.Front[0].J); len(p.J) != n || len(p.OracleJ) != n || n == 0 {
			return fmt.Errorf("front[%d] has %d values of j and %d of oracle_j, want %d", i, len(p.J), len(p.OracleJ), max(1, n))
		}
	}
	return nil
}

// checkCertified says what of a recovery is shorter than its median.
func checkCertified(c *batchnav.Certified) error {
	if r := c.Recovery; r != nil {
		n := len(r.Median)
		if len(r.P95) < n || len(r.Max) < n || len(r.Predicted) < n {
			return fmt.Errorf("recovery has %d values of median, %d of p95, %d of max and %d of predicted, want as many of each", n, len(r.P95), len(r.Max), len(r.Predicted))
		}
	}
	if c.Certificate == nil {
		return errors.New("certificate is missing")
	}
	return nil
}

// Devices lists the folders of results that hold records or traces, without those below another.
func Devices(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if dir := filepath.Dir(path); !d.IsDir() && (strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".jsonl")) && !slices.Contains(dirs, dir) {
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

// named lists the cases that have evaluations or traces, by name.
func (r *Records) named() []string {
	var names []string
	for _, e := range r.Evaluations {
		names = append(names, e.Case)
	}
	for _, t := range r.Traces {
		names = append(names, t.Header.Case)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// of returns the evaluations of a case without noise and with the adaptive
// priority, one per method, in the order of the tables.
func (r *Records) of(name string) []closedloop.Result {
	return r.evaluations(name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == "" })
}

// noisy returns the evaluations of a case with measurement noise, by noise.
func (r *Records) noisy(name string) []closedloop.Result {
	return r.evaluations(name, func(e *closedloop.Result) bool { return e.Noise > 0 && e.Regime == "" })
}

// inRegimes returns the evaluations of a case that name a regime, by regime,
// noise and method.
func (r *Records) inRegimes(name string) []closedloop.Result {
	return r.evaluations(name, func(e *closedloop.Result) bool { return e.Regime != "" })
}

// evaluations are those of a case that are wanted, by regime, noise and method, on scenes that
// were drawn: those that were given are no sample of anything.
func (r *Records) evaluations(name string, wanted func(e *closedloop.Result) bool) []closedloop.Result {
	var out []closedloop.Result
	for _, e := range r.Evaluations {
		if e.Case == name && e.Bias == 0 && len(e.Shift) == 0 && e.ScenesSHA256 == "" && wanted(&e) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b closedloop.Result) int {
		return cmp.Or(cmp.Compare(a.Regime, b.Regime), cmp.Compare(a.Noise, b.Noise), r.rank(&a)-r.rank(&b))
	})
	return out
}

// rank is where a method stands in the tables of a case: in the order of its list,
// one that is not in it behind all others.
func (r *Records) rank(e *closedloop.Result) int {
	methods := r.cases[e.Case].Methods
	if i := slices.IndexFunc(methods, func(m domain.Method) bool { return m.Name == e.Method }); i >= 0 {
		return i
	}
	return len(methods)
}

// method is what is known of the method of a run; nothing but its name for one that
// its case does not list.
func (r *Records) method(name, method string) domain.Method {
	for _, m := range r.cases[name].Methods {
		if m.Name == method {
			return m
		}
	}
	return domain.Method{Name: method, Group: domain.GroupBaseline}
}

// addEvaluation reads an evaluation; an error that its program did not write is none.
func (r *Records) addEvaluation(text []byte) error {
	none := closedloop.Number(math.NaN())
	e := closedloop.Result{GapSEM: none, RegretSEM: none, MarginSEM: none}
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	if e.Series != nil {
		if err := e.Series.Validate(); err != nil {
			return err
		}
	}
	r.Evaluations = append(r.Evaluations, e)
	return nil
}

// less is what an evaluation costs above the highlighted method on the same episodes.
func (r *Records) less(e *closedloop.Result) []string { return r.lessThan(e, highlighted) }

// lessThan is what an evaluation costs above another method on the same episodes: the
// interval of the mean, the median, and of how many. Dashes where one of the two does not
// say what its episodes cost.
func (r *Records) lessThan(e *closedloop.Result, method string) []string {
	cells := []string{"–", "–", "–"}
	if e.Method == method {
		return cells
	}
	for i := range r.Evaluations {
		main := &r.Evaluations[i]
		if main.Method != method || main.Case != e.Case || main.Seed != e.Seed || main.Regime != e.Regime || main.Noise != e.Noise || main.Bias != e.Bias || len(main.Shift)+len(e.Shift) > 0 || main.ScenesSHA256 != "" {
			continue
		}
		d, err := e.Less(main)
		switch {
		case err != nil:
			return []string{"other scenes", "–", "–"}
		case d.N > 0:
			return []string{number("%+.4f", float64(d.Mean)) + " " + between("%+.4f", d.MeanCI95), number("%+.4f", float64(d.Median)), fmt.Sprint(d.N)}
		}
	}
	return cells
}

// unrecorded are the methods that the paper has a row of and none of the evaluations is of, in
// the order of the tables.
func (r *Records) unrecorded(name string, evals []closedloop.Result) (methods []string) {
	for method := range r.cases[name].Paper {
		if !slices.ContainsFunc(evals, func(e closedloop.Result) bool { return e.Method == method }) {
			methods = append(methods, method)
		}
	}
	slices.SortFunc(methods, func(a, b string) int {
		rank := func(method string) int { return r.rank(&closedloop.Result{Case: name, Method: method}) }
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b))
	})
	return methods
}

// paper is the paper's row of a method in a case; one without figures where it has
// none.
func (r *Records) paper(name, method string) domain.PaperRow {
	if p, ok := r.cases[name].Paper[method]; ok {
		return p
	}
	return domain.NoPaperRow()
}
