// Package report turns recorded runs into the paper's tables and figures, ours
// beside the paper's.
//
// The central type is Records: every evaluation, benchmark, certificate and
// trace found in a folder of results. Nothing in a table is typed: what was not
// recorded is missing from it.
package report

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/published"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// Records are the recorded runs of one device: lists of records by their types, which Of gives, and traces.
type Records struct {
	Device    string // folder name
	Traces    []Trace
	Cases     map[string]Case
	lists     map[reflect.Type]any // []T by T
	trainings map[learned]trainings
}

// Of are the records of one type, in the order in which they were read.
func Of[T any](r *Records) []T {
	all, _ := r.lists[reflect.TypeFor[T]()].([]T)
	return all
}

// Where are those that are wanted.
func Where[T any](r *Records, wanted func(v *T) bool) (out []T) {
	for _, v := range Of[T](r) {
		if wanted(&v) {
			out = append(out, v)
		}
	}
	return out
}

// Put adds records of one type.
func Put[T any](r *Records, more ...T) { Set(r, append(Of[T](r), more...)) }

// Set has the records of one type be these. A copy of r keeps what it has.
func Set[T any](r *Records, all []T) {
	r.lists = maps.Clone(r.lists)
	r.lists[reflect.TypeFor[T]()] = all
}

// Case is what tables need to know of a case: its methods in their order, and the
// paper's figures by method.
type Case struct {
	Methods []domain.Method
	Paper   map[string]published.Row
	// Samples that the bundled map was last trained on; 0 without one.
	Samples int
	// Definition replays and draws its traces; without it they are shown as time lines of
	// values without names.
	Definition domain.Case
}

// CasesOf is what tables know of some cases of the program, by name.
func CasesOf(all []*gpc.Case) map[string]Case {
	cases := map[string]Case{}
	for _, c := range all {
		of := Case{Methods: c.Methods(), Paper: published.Rows[c.Name()], Definition: *c.Definition()}
		if m, err := c.Model(""); err == nil { // a case without a bundled map has no number
			of.Samples = m.Provenance.Samples
		}
		cases[c.Name()] = of
	}
	return cases
}

// New returns the records of a device, of which there are none yet. cases are what their tables
// know of cases, by name.
func New(device string, cases map[string]Case) *Records {
	return &Records{Device: device, Cases: cases, trainings: map[learned]trainings{}, lists: map[reflect.Type]any{}}
}

// Trace is a recorded trace, whole.
type Trace struct {
	Header   closedloop.Header
	Episodes []closedloop.EpisodeRecord
}

// CaseNames lists the cases that have evaluations or traces, by name.
func (r *Records) CaseNames() []string {
	evaluated := casesOf(Of[closedloop.Result](r), func(e *closedloop.Result) string { return e.Case })
	traced := casesOf(r.Traces, func(t *Trace) string { return t.Header.Case })
	return slices.Compact(slices.Sorted(slices.Values(append(evaluated, traced...))))
}

// casesOf are the cases that some records are of, by name; "" is none.
func casesOf[T any](records []T, of func(*T) string) (names []string) {
	for i := range records {
		if name := of(&records[i]); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Plain returns the evaluations of a case without noise and with the adaptive
// priority, one per method, in the order of the tables.
func (r *Records) Plain(name string) []closedloop.Result {
	return r.EvaluationsWhere(name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == "" })
}

// InRegimes returns the evaluations of a case that name a regime, by regime,
// noise and method.
func (r *Records) InRegimes(name string) []closedloop.Result {
	return r.EvaluationsWhere(name, func(e *closedloop.Result) bool { return e.Regime != "" })
}

// EvaluationsWhere are those of a case that are wanted, by regime, noise and method, on scenes that
// were drawn: those that were given are no sample of anything.
func (r *Records) EvaluationsWhere(name string, wanted func(e *closedloop.Result) bool) []closedloop.Result {
	out := Where(r, func(e *closedloop.Result) bool {
		return e.Case == name && e.Bias == 0 && len(e.Shift) == 0 && e.ScenesSHA256 == "" && wanted(e)
	})
	slices.SortStableFunc(out, func(a, b closedloop.Result) int {
		return cmp.Or(cmp.Compare(a.Regime, b.Regime), cmp.Compare(a.Noise, b.Noise), r.rank(&a)-r.rank(&b))
	})
	return out
}

// rank is where a method stands in the tables of a case: in the order of its list,
// one that is not in it behind all others.
func (r *Records) rank(e *closedloop.Result) int {
	methods := r.Cases[e.Case].Methods
	if i := slices.IndexFunc(methods, func(m domain.Method) bool { return m.Name == e.Method }); i >= 0 {
		return i
	}
	return len(methods)
}

// Method is what is known of the method of a run by any name that it had; nothing but its name for
// one that its case does not list.
func (r *Records) Method(name, method string) domain.Method {
	for _, m := range r.Cases[name].Methods {
		if m.Called(method) {
			return m
		}
	}
	return domain.Method{Name: method, Group: domain.GroupBaseline}
}

// CostAbove is what an evaluation costs above another method on the same episodes: the
// interval of the mean, the median, and of how many. Dashes where one of the two does not
// say what its episodes cost.
func (r *Records) CostAbove(e *closedloop.Result, method string) []string {
	cells := []string{"–", "–", "–"}
	if e.Method == method {
		return cells
	}
	for _, main := range Of[closedloop.Result](r) {
		if main.Method != method || main.Case != e.Case || main.Seed != e.Seed || main.Regime != e.Regime || main.Noise != e.Noise || main.Bias != e.Bias || len(main.Shift)+len(e.Shift) > 0 || main.ScenesSHA256 != "" {
			continue
		}
		d, err := less(e, &main)
		switch {
		case err != nil:
			return []string{"other scenes", "–", "–"}
		case d.N > 0:
			return []string{d.Mean.Text("%+.4f") + " " + Interval("%+.4f", d.MeanCI95), d.Median.Text("%+.4f"), fmt.Sprint(d.N)}
		}
	}
	return cells
}

// Unrecorded are the methods that the paper has a row of and none of the evaluations is of, in
// the order of the tables.
func (r *Records) Unrecorded(name string, evals []closedloop.Result) (methods []string) {
	for method := range r.Cases[name].Paper {
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

// Paper is the paper's row of a method in a case; one without figures where it has
// none.
func (r *Records) Paper(name, method string) published.Row {
	if p, ok := r.Cases[name].Paper[method]; ok {
		return p
	}
	return published.None()
}

// kind is one sort of record: how a file of it is known, where it goes, and what the
// report makes of all of its sort.
type kind struct {
	name     string   // the command that writes it
	chapter  string   // that its sections stand in
	keys     []string // that only its files hold, all of them
	add      func(r *Records, text []byte) error
	sections func(r *Records) []Section // nil: none, or at their case
}

// is reports whether a file's keys are those of the kind.
func (k *kind) is(raw map[string]json.RawMessage) bool {
	return !slices.ContainsFunc(k.keys, func(key string) bool { return raw[key] == nil })
}

// kinds are the sorts of records in the order of the report; those without a chapter stand at their case, or on pages alone.
var kinds = []kind{
	{"eval", "Closed loops", []string{"method", "episodes"}, (*Records).addEvaluation, (*Records).evaluationSections},
	declared[closedloop.Compared]("compare", "Methods on the same episodes", nil, each(comparisonSection), "comparisons"),
	declared("eval pair", "Candidates, time, data and disturbances", withheld, (*Records).curveSections, "pairs"),
	declared("steer", "Steering", checkSteering, (*Records).steeringSections, "front"),
	declared("certify", "Certificates", checkCertified, each(certificateSection), "certificate"),
	declared("compile --plain", "Maps compiled from equations", (*Trained).check, (*Records).trainedSections, "rounds", "choice", "test", "plain"),
	declared("compile", "Maps compiled from equations", checkCompilation, (*Records).compilationSections, "rounds", "choice", "test"),
	declared[bench.Record]("bench", "Speed", nil, each(benchmarkSection), "results"),
	declared[Conformance]("conformance", "Speed", nil, each(conformanceSection), "suites"),
	declared("bench scaling", "Speed", (*scaling.Scaling).Validate, each(scalingSection), "curves"),
	declared("peers", "Speed", (*peerrecord.Record).Check, each(peersSection), "ratios"),
	declared("whole jobs", "", (*peerrecord.WholeJobs).Check, nil, "jobs", "sanitizers"),
	declared("record --rollout", "", (*Rollout).check, nil, "rollout", "shapes"),
	declared("opf of several networks", "Speed", (*optima.OptimalFlows).Check, each(optimalFlowsSection), "networks", "threads"),
	declared("torture", "", (*peerrecord.Torture).Check, nil, "attacks"),
	declared[peerrecord.Served]("bench serve", "", nil, nil, "canary_differing"),
	declared[deadline.Deadlines]("bench deadline", "", nil, nil, "late_causes"),
	declared("bench record", "", (*peerrecord.Benchmarked).Check, nil, "benchmarks"),
	declared[peerrecord.LearnedFlows]("learned optimal power flows", "", nil, nil, "recipes", "rows"),
	declared("networks in a listing", "", (*peerrecord.Listing).Check, nil, "listing", "columns"),
	declared[peerrecord.BesidePandapower]("peers of pandapower", "", nil, nil, "peer", "rows"),
}

// declared is a kind of records of one type. Each has to pass check, if there is one.
func declared[T any](name, chapter string, check func(*T) error, sections func(r *Records) []Section, keys ...string) kind {
	return kind{name, chapter, keys, func(r *Records, text []byte) error {
		v := new(T)
		err := json.Unmarshal(text, v)
		if err == nil && check != nil {
			err = check(v)
		}
		if err == nil {
			Put(r, *v)
		}
		return err
	}, sections}
}

// each makes a section of every record of a type; one without rows is left out.
func each[T any](of func(T) Section) func(r *Records) []Section {
	return func(r *Records) (out []Section) {
		for _, v := range Of[T](r) {
			if s := of(v); len(s.Rows) > 0 {
				out = append(out, s)
			}
		}
		return out
	}
}

// trainingsFile is the list of the evaluations of learned methods, a line a training, below a
// device's folder (lab/baselines/all.py).
var trainingsFile = filepath.Join("baselines", "evaluations.csv")

// learned is a learned method as evaluated in one case.
type learned struct{ name, regime, method string }

// trainings are how many of a learned method's trainings were evaluated, of how many, and how many of these have curves and
// end below the return of the untrained policy.
type trainings struct{ recorded, planned, curves, below int }

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
	for key, t := range r.trainings {
		for seed := range t.planned {
			below, found, err := endsBelow(filepath.Join(filepath.Dir(path), key.curve(seed+1)))
			if err != nil {
				return err
			}
			if found {
				t.curves++
			}
			if below {
				t.below++
			}
		}
		r.trainings[key] = t
	}
	return nil
}

// curve is the file of a training's curve: a policy behind its safeguard is that of the bare one, and one on an uncertain
// network that of the nominal one.
func (l *learned) curve(seed int) string {
	return fmt.Sprintf("%s-%s-%d.csv", strings.TrimSuffix(l.name, "-uncertain"), strings.TrimSuffix(l.method, "+safeguard"), seed)
}

// endsBelow tells whether the last tenth of a training's curve has a lower mean return than its first point, the untrained
// policy, and does not break limits less for it. found is false without the file.
func endsBelow(path string) (below, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return false, false, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if len(lines) < 2 {
		return false, false, fmt.Errorf("%s: no point of a curve", filepath.Base(path))
	}
	change := func(column string) (of float64) {
		at := slices.Index(lines[0], column)
		points := lines[1:]
		last := points[len(points)-max(1, len(points)/10):]
		value := func(line []string) float64 {
			v, bad := math.NaN(), error(nil)
			if at >= 0 {
				v, bad = strconv.ParseFloat(line[at], 64)
			}
			if bad != nil || at < 0 {
				err = fmt.Errorf("%s: column %s: %w", filepath.Base(path), column, cmp.Or(bad, errors.New("it is not there")))
			}
			return v
		}
		for _, line := range last {
			of += value(line) / float64(len(last))
		}
		return of - value(points[0])
	}
	gained, broken := change("return_mean"), change("cost_mean")
	return gained < 0 && !(broken < 0 && constrained(path)), true, err
}

// constrained tells whether a training's method knows the cost of limits, and may give return for it.
func constrained(path string) bool {
	name := filepath.Base(path)
	return strings.Contains(name, "-cpo-") || strings.Contains(name, "-ppo-lagrangian-") || strings.Contains(name, "-td3-penalty-")
}

// seeds says behind the name of a learned method how many of its trainings are there, the first of
// which the record is of; "" for other methods.
func (r *Records) seeds(e *closedloop.Result) string {
	t, ok := r.trainings[learned{e.Case, e.Regime, e.Method}]
	worse := ""
	if t.below > 0 {
		worse = fmt.Sprintf("; %d of %d end below the untrained return", t.below, t.curves)
	}
	switch {
	case !ok:
		return ""
	case t.recorded == 1:
		return fmt.Sprintf(", 1 of %d seeds", t.planned) + worse
	case t.recorded == t.planned:
		return fmt.Sprintf(", first of %d seeds", t.planned) + worse
	}
	return fmt.Sprintf(", first of %d of %d seeds", t.recorded, t.planned) + worse
}

// Titled is the method of an evaluation in a table.
func (r *Records) Titled(e *closedloop.Result) string { return "`" + e.Method + "`" + r.seeds(e) }
