package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/draw/drawtest"
)

// slider is the cart on a line that comes to rest at 0, with a picture of it.
type slider struct{ *testdomain.Cart }

func (p slider) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Picture: p.Picture}
}

func (p slider) Picture(s, _ []float64) []domain.Shape {
	return []domain.Shape{domain.Line(domain.Ground, [2]float64{-1, 0}, [2]float64{1, 0}), domain.Disc(domain.Goal, 0, 0, 0.1), domain.Disc(domain.Body, s[0], 0, 0.05)}
}

// wide is a trace of 60 states, 3 actions and no case that is known.
func wide(steps int) Trace {
	t := Trace{Header: closedloop.Header{Case: "wide", Method: "some"}, Episodes: []closedloop.EpisodeRecord{{}}}
	for k := range steps {
		l := closedloop.Line{T: k, S: make(closedloop.Vector, 60), U: closedloop.Vector{1, 2, 3}, Sigma: closedloop.Vector{0.5, 0.5}, Margin: closedloop.Number(0.1 * float64(k))}
		for i := range l.S {
			l.S[i] = float64(i) * (1 - math.Exp(-float64(k)/5))
		}
		t.Episodes[0].Lines = append(t.Episodes[0].Lines, l)
	}
	return t
}

// sliding is a trace of the slider: it slides to 0 in the first 40 of 100 decisions.
func sliding(t *testing.T) (*Records, *Trace) {
	p := slider{testdomain.NewCart(100)}
	plant := closedloop.Simulated(p, testdomain.Starts, testdomain.Start)
	ep := require.Get(plant.Episode(3, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	tr := Trace{Header: closedloop.Header{Case: "cart", Method: "navigator", Params: require.Get(json.Marshal(plant.Params()))(t)}}
	record := closedloop.EpisodeRecord{Scene: require.Get(json.Marshal(ep.Scene()))(t)}
	spec := p.Spec()
	s, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ActionSize())
	for k := 0; !ep.Done(); k++ {
		ep.State(s)
		u[0] = -2*s[0] - 3*s[1]
		out := require.Get(ep.Apply(u))(t)
		record.Lines = append(record.Lines, closedloop.Line{T: k, U: slices.Clone(u), S: out.S, Sigma: out.Sigma, Margin: closedloop.Number(out.Margin)})
	}
	tr.Episodes = []closedloop.EpisodeRecord{record}
	return New("here", map[string]Case{"cart": {Definition: domain.Case{Problem: p, Plant: plant}}}), &tr
}

// Every figure that the report can draw: labelled ticks and a unit on both axes, a legend that is short and below the
// plot, words that a phone shows 12 px high, nothing off the page, and no colour without a twin on dark paper.
func TestEveryFigureIsReadable(t *testing.T) {
	var figures []*draw.Figure
	for _, r := range recorded(t) {
		figures = append(figures, r.Figures()...)
	}
	if len(figures) < 50 {
		t.Fatalf("%d figures of the recorded results", len(figures))
	}
	r := New("here", nil)
	r.Traces = []Trace{wide(40)}
	figures = append(figures, r.Figures()...)
	r, tr := sliding(t)
	r.Traces = []Trace{*tr}
	figures = append(figures, r.Figures()...)
	for _, f := range figures {
		if f.Caption == "" {
			t.Errorf("%s has no caption", f.Name)
		}
		for _, fault := range drawtest.Faults(f) {
			t.Errorf("%s: %s", f.Name, fault)
		}
	}
}

// A method has one colour in every figure: that of the table, a variant that of the whole.
func TestAMethodHasOneColour(t *testing.T) {
	r := New("here", known())
	for method, want := range map[string]int{"navigator": 0, "navigator-no-lie": 0, "planner": 0, "direct": 1, "refine-64-polish": 2, "refine-512": 3, "mpc": 5, "oracle": draw.Grey, "td3+safeguard": draw.Brown} {
		if got := r.methodColour("integrator-convex", method); got != draw.Colour(want) {
			t.Errorf("%s has %v, want %v", method, got, draw.Colour(want))
		}
	}
}

// A trace that this build cannot replay is shown as time lines, and says so.
func TestATraceThatCannotBeReplayedIsShownAsTimeLines(t *testing.T) {
	r, tr := sliding(t)
	tr.Header.Params = json.RawMessage(`{"problem":"another"}`)
	r.Traces = []Trace{*tr}
	var names []string
	for _, f := range r.Figures() {
		if names = append(names, f.Name); strings.HasPrefix(f.Name, "cart-states") && !strings.Contains(f.Caption, "cannot be replayed") {
			t.Errorf("%s says %q", f.Name, f.Caption)
		}
	}
	if slices.Contains(names, "cart-trajectory") || !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "cart-states") }) {
		t.Errorf("figures %v", names)
	}
}

// The page needs nothing beside itself, says what it is, leads to every section, and has
// every figure and animation beside its section with a caption.
func TestThePageIsWhole(t *testing.T) {
	in, out := t.TempDir(), t.TempDir()
	require.OK(t, os.WriteFile(filepath.Join(in, "arena.jsonl"), []byte(arenaText()), 0o644))
	require.OK(t, os.WriteFile(filepath.Join(in, "front.json"), require.Get(json.Marshal(closedloop.Steering{Case: "grid", Method: "navigator", Front: []closedloop.FrontPoint{
		{W: []float64{1, 0}, J: []closedloop.Number{2, 3}, OracleJ: []closedloop.Number{1, 2}}, {W: []float64{0, 1}, J: []closedloop.Number{3, 2}, OracleJ: []closedloop.Number{2, 1}},
	}}))(t), 0o644))
	r := require.Get(Load(t.Context(), in, known()))(t)
	require.Get(r.Write(t.Context(), out))(t)
	html := string(require.Get(os.ReadFile(filepath.Join(out, "report.html")))(t))
	for _, want := range []string{"name=\"viewport\"", "color-scheme:light dark", "prefers-color-scheme:dark", "<nav", "id=\"glossary\"", "<h1>", "<animate", "overflow:auto"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if found := regexp.MustCompile(`(src|href)="(https?:)?//[^"]*"|@import|url\(|<script|<link`).FindString(html); found != "" {
		t.Errorf("the page asks for %s", found)
	}
	for _, m := range regexp.MustCompile(`(?:href="#|popovertarget=")([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if strings.Count(html, ` id="`+m[1]+`"`) != 1 {
			t.Errorf("something leads to %q, which is there %d times", m[1], strings.Count(html, `id="`+m[1]+`"`))
		}
	}
	figures, sections := strings.Count(html, "<figure>"), strings.Count(html, "<section ")
	if figures < 5 || strings.Count(html, "<figcaption>") != figures || strings.Count(html, "<div popover") != figures || sections < 3 || strings.Count(html, "href=\"#section-") != sections || strings.Count(html, "</section>") != sections {
		t.Errorf("%d figures with %d captions, %d sections", figures, strings.Count(html, "<figcaption>"), sections)
	}
	if strings.Count(html, "<table>") != strings.Count(html, "<div class=\"table\"") {
		t.Error("a table stands outside a box that scrolls")
	}
	if unfolded := html[:strings.Index(html, "<details")]; strings.Count(unfolded, "<h1>") != 1 || strings.Count(unfolded, "<figure>") != 1 || strings.Contains(unfolded, "<p>") {
		t.Error("the first screen is not one headline and one picture")
	}
	if opened := strings.Count(html, "<details"); opened < sections+3 || strings.Contains(html, "<details open") {
		t.Errorf("%d details, some of them open", opened)
	}
	at := strings.Index(html, "grid: navigator under each preference</h3>")
	if figure, next := strings.Index(html[max(at, 0):], "grid: one map steered"), strings.Index(html[max(at, 0):], "<h2"); at < 0 || figure < 0 || figure > next {
		t.Error("the front is not beside its table")
	}
}

// The table of the first screen has four columns and six numbers or more, a row a case, and none of a single episode.
func TestTheFirstScreenSaysWhatTheMapReaches(t *testing.T) {
	r := New("here", known())
	for name, episodes := range map[string]int{"integrator-convex": 20, "integrator-nonconvex": 40, "opf30": 1} {
		Put(r, closedloop.Result{
			Case: name, Method: "direct", Episodes: episodes, Decisions: 10 * episodes, Safe: 1, RegretN: episodes, RegretPct: 0.0312, RegretSEM: 0.01,
			Latency: closedloop.Latency{Quantiles: closedloop.Quantiles{P50: 9.21, P99: 42}},
		})
	}
	l := require.Get(r.lead())(t)
	want := "[[case safe extra cost, % decision, ms] [`integrator-convex` 20/20 0.031 ± 0.021 0.0092 / 0.042 of all] [`integrator-nonconvex` 40/40 0.031 ± 0.02 0.0092 / 0.042 of all]]"
	if fmt.Sprint(l.rows) != want {
		t.Errorf("%v, want %s", l.rows, want)
	}
	if l.headline != "With the map every limit was kept in all 2 cases of several episodes, at a mean extra cost of at most 0.031 ± 0.021\u00a0%." || !strings.Contains(l.note, "one episode says little: opf30") {
		t.Errorf("%q, %q", l.headline, l.note)
	}
}

// Only a case of which the paper has regrets says where those are from.
func TestNotesAreOfTheirCase(t *testing.T) {
	r := New("here", known())
	for _, name := range []string{"integrator-convex", "opf30", "arena"} {
		Put(r, closedloop.Result{Case: name, Method: "navigator", Episodes: 1})
	}
	for _, s := range r.evaluationSections() {
		if has := strings.Contains(s.Note, "tab. analytical"); has != strings.HasPrefix(s.title, "integrator") {
			t.Errorf("the note of %s is %q", s.title, s.Note)
		}
	}
}

// Columns without an entry are left out, others stay.
func TestColumnsWithoutAnEntryAreLeftOut(t *testing.T) {
	got := Filled([][]string{{"method", "paper", "p50"}, {"a", "–", "1"}, {"b", "–", "–"}})
	if fmt.Sprint(got) != "[[method p50] [a 1] [b –]]" {
		t.Errorf("got %v", got)
	}
}

// A robot is called by the number of its states and actions in every figure; what has no actions of its own is a body.
func TestARobotHasOneName(t *testing.T) {
	r := New("here", known())
	if a, b, c := r.bodyName("multiagent-static", 0, 4), r.bodyName("arena", 1, 2), r.bodyName("multiagent-static", 0, 1); a != "robot 0" || b != "body 1" || c != "body" {
		t.Errorf("%q, %q and %q", a, b, c)
	}
	p := draw.Panel{Axis: "actions", Names: []string{"a0", "a1"}}
	if nameRobots(&p, 2); fmt.Sprint(p.Names) != "[robot 0 robot 1]" || p.Axis != "actions a" {
		t.Errorf("actions are called %v along %q", p.Names, p.Axis)
	}
	p = draw.Panel{Axis: "states", Names: []string{"x0", "y0"}}
	if nameRobots(&p, 2); fmt.Sprint(p.Names) != "[x0 y0]" {
		t.Errorf("states of two kinds are called %v", p.Names)
	}
}

// Figures are those of all sections, in the order of the report.
func (r *Records) Figures() (figures []*draw.Figure) {
	for _, c := range r.chapters() {
		for _, s := range c.sections {
			figures = append(figures, s.figures...)
		}
	}
	return figures
}

// The picture of the first screen is of a case in its table, where one of these has a trace.
func TestThePictureIsOfACaseInTheTable(t *testing.T) {
	r := New("here", nil)
	for _, name := range []string{"first", "named"} {
		r.Traces = append(r.Traces, Trace{Header: closedloop.Header{Case: name, Method: r.leading(name)}, Episodes: make([]closedloop.EpisodeRecord, 1)})
	}
	for named, want := range map[string]string{"named": "named", "another": "first"} {
		if got := r.mostMoving(map[string]bool{named: true}); got.Header.Case != want {
			t.Errorf("with %s in the table it is of %s, want %s", named, got.Header.Case, want)
		}
	}
}
