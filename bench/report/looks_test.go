package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
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
	var figures []*Figure
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
	for _, lo := range []float64{0.011, 0.9, 2.2, 130} { // less than a decade
		for _, ratio := range []float64{1, 1.0001, 1.3, 4, 11, 1e5, 1e12} {
			f := newFigure(fmt.Sprintf("from %g times %g", lo, ratio), "t", axis{"x", "m"}, axis{"y", "m"})
			f.logX()
			f.line("a", colour(0), false, []float64{lo, lo * ratio}, []float64{-lo, -lo * ratio})
			figures = append(figures, f)
		}
	}
	for _, f := range figures {
		if f.caption == "" && !strings.HasPrefix(f.Name, "from") {
			t.Errorf("%s has no caption", f.Name)
		}
		for _, fault := range faults(f) {
			t.Errorf("%s: %s", f.Name, fault)
		}
	}
}

// faults are what cannot be read of a figure.
func faults(f *Figure) (out []string) {
	width, height := f.size()
	var c recorder.Canvas
	f.draw(draw.NewCanvas(&c, width, height))
	for name, a := range map[string]*plot.Axis{"x": &f.plot.X, "y": &f.plot.Y} {
		if n := labels(a.Tick.Marker.Ticks(a.Min, a.Max), a.Min, a.Max); n < 2 || name == "x" && n > 14 || name == "y" && vg.Length(n)*14 > height {
			out = append(out, fmt.Sprintf("%d labelled ticks on the axis %s", n, name))
		}
	}
	if len(f.legend) > maxEntries {
		out = append(out, fmt.Sprintf("%d entries in its legend", len(f.legend)))
	}
	for _, a := range []axis{f.x, f.y} {
		if a.name != "" && a.unit == "" || a.name == "" && a != f.y {
			out = append(out, fmt.Sprintf("an axis %q without a unit", a))
		}
	}
	const phone = 364 // px that a figure has
	if width > figureWidth {
		out = append(out, fmt.Sprintf("%v wide, want at most %d: a phone would shrink it", width, figureWidth))
	}
	svg, err := f.SVG()
	if err != nil {
		out = append(out, err.Error())
	}
	out = append(out, untwinned(svg)...)
	_, below := f.legendCorners()
	under := 0
	for _, box := range texts(&c) {
		if box.Min.X < 0 || box.Min.Y < 0 || box.Max.X > width || box.Max.Y > height {
			out = append(out, fmt.Sprintf("%q is at %v on a page of %v × %v", box.text, box.Rectangle, width, height))
		}
		if px := float64(box.size) * phone / float64(figureWidth); px < 12 {
			out = append(out, fmt.Sprintf("%q is %.1f px high on a phone", box.text, px))
		}
		if box.Max.Y < below+pageMargin {
			under++
		}
	}
	if under < len(f.legend) {
		out = append(out, fmt.Sprintf("%d of %d entries of the legend stand below the plot", under, len(f.legend)))
	}
	return out
}

// untwinned are the colours of a drawing that are not of the table, or do not change on dark paper.
func untwinned(svg []byte) (out []string) {
	style := string(styles.Find(svg))
	for _, m := range regexp.MustCompile(`(?:fill|stroke):(#?[0-9A-Za-z]+)`).FindAllStringSubmatch(styles.ReplaceAllString(string(svg), ""), -1) {
		if m[1] != "none" && !strings.Contains(style, fmt.Sprintf("[style*=%q]", m[0])) {
			out = append(out, m[0]+" has no twin on dark paper")
		}
	}
	return out
}

// written is a text where it stands.
type written struct {
	vg.Rectangle
	text string
	size vg.Length
}

var faces = font.NewCache(liberation.Collection())

// texts are those drawn on a canvas.
func texts(c *recorder.Canvas) (out []written) {
	type matrix struct {
		x, y  vg.Point
		shift vg.Point
	}
	at := matrix{x: vg.Point{X: 1}, y: vg.Point{Y: 1}}
	var stack []matrix
	place := func(x, y vg.Length) vg.Point { return at.x.Scale(x).Add(at.y.Scale(y)).Add(at.shift) }
	for _, a := range c.Actions {
		switch a := a.(type) {
		case *recorder.Push:
			stack = append(stack, at)
		case *recorder.Pop:
			at, stack = stack[len(stack)-1], stack[:len(stack)-1]
		case *recorder.Translate:
			at.shift = place(a.Point.X, a.Point.Y)
		case *recorder.Rotate:
			sin, cos := math.Sincos(a.Angle)
			at.x, at.y = at.x.Scale(vg.Length(cos)).Add(at.y.Scale(vg.Length(sin))), at.y.Scale(vg.Length(cos)).Sub(at.x.Scale(vg.Length(sin)))
		case *recorder.FillString:
			face := faces.Lookup(a.Font, a.Size)
			w, h := face.Width(a.String), a.Size*3/4
			box := written{vg.Rectangle{Min: vg.Point{X: vg.Length(math.Inf(1)), Y: vg.Length(math.Inf(1))}, Max: vg.Point{X: vg.Length(math.Inf(-1)), Y: vg.Length(math.Inf(-1))}}, a.String, a.Size}
			for _, corner := range []vg.Point{{}, {X: w}, {Y: h}, {X: w, Y: h}} {
				p := place(a.Point.X+corner.X, a.Point.Y+corner.Y)
				box.Min.X, box.Min.Y, box.Max.X, box.Max.Y = min(box.Min.X, p.X), min(box.Min.Y, p.Y), max(box.Max.X, p.X), max(box.Max.Y, p.Y)
			}
			out = append(out, box)
		}
	}
	return out
}

// An animation stays under its size and ends two seconds after arrival, whether its case is drawn or shown as time
// lines; it stands still for who wants less motion, and has no colour without a twin.
func TestAnimationsEndSoonAfterArrival(t *testing.T) {
	r, tr := sliding(t)
	m := require.Get(r.motion(tr, &tr.Episodes[0]))(t)
	if m == nil || m.arrival < 5 || m.arrival > 60 {
		t.Fatalf("the slider arrives at %+v", m)
	}
	other := wide(3000)
	for _, c := range []struct {
		trace          *Trace
		arrival, total int
	}{{tr, m.arrival, 100}, {&other, settled(other.Episodes[0].Lines), 3000}} {
		a := require.Get(r.Animation(t.Context(), c.trace))(t)
		if len(a.SVG) == 0 || len(a.SVG) > maxAnimation || !bytes.Contains(a.SVG, []byte("prefers-reduced-motion")) {
			t.Errorf("%s: %d bytes", a.Name, len(a.SVG))
		}
		until := min(max(r.seconds(c.trace)*float64(c.arrival), shortest), longest)
		changes := regexp.MustCompile(`<animate[^>]* dur="([0-9.]+)s"[^>]* values="([^"]*)"`).FindAllSubmatch(a.SVG, -1)
		if len(changes) == 0 {
			t.Errorf("%s: nothing moves", a.Name)
		}
		for _, change := range changes {
			seconds := require.Get(strconv.ParseFloat(string(change[1]), 64))(t)
			frames := bytes.Count(change[2], []byte(";"))
			atArrival := float64(frames) * until / seconds
			stride := (c.arrival + maxFrames - 1) / maxFrames
			if math.Abs(seconds-until-hold) > 0.01 || math.Abs(atArrival-float64(c.arrival)/float64(stride)) > 1 || c.arrival >= c.total-1 {
				t.Errorf("%s: %v s in %d frames, want %v until arrival at %d of %d and %v after it", a.Name, seconds, frames, until, c.arrival, c.total, hold)
			}
		}
		for _, fault := range untwinned(a.SVG) {
			t.Errorf("%s: %s", a.Name, fault)
		}
	}
}

// The first six colours are those of the live page, light and dark, and so is what bodies have there.
func TestTheColoursAreTheLivePages(t *testing.T) {
	style := string(require.Get(os.ReadFile("../../view/ui/src/app.css"))(t))
	dark, light, found := strings.Cut(style, `:root[data-theme="light"]`)
	if !found {
		t.Fatal("app.css has no light colours")
	}
	for i, c := range tints[:grey] {
		for part, want := range map[string]color.RGBA{dark: c.dark, light: c.light} {
			if text := fmt.Sprintf("--c%d: %s;", i, strings.ToLower(css(want))); !strings.Contains(part, text) {
				t.Errorf("app.css does not have %s", text)
			}
		}
	}
	for light, dark := range twins {
		if light == dark {
			t.Errorf("%s is its own twin", light)
		}
	}
}

// A method has one colour in every figure: that of the table, a variant that of the whole.
func TestAMethodHasOneColour(t *testing.T) {
	r := New("here", known())
	for method, want := range map[string]int{"navigator": 0, "navigator-no-lie": 0, "planner": 0, "direct": 1, "refine-64-polish": 2, "refine-512": 3, "mpc": 5, "oracle": grey, "td3+safeguard": brown} {
		if got := r.methodColour("integrator-convex", method); got != colour(want) {
			t.Errorf("%s has %v, want %v", method, got, colour(want))
		}
	}
}

// A body that has been at its goal has arrived, even if it leaves it.
func TestArrivalIsTheFirstTimeAtAllGoals(t *testing.T) {
	at := func(x, y float64) []domain.Shape {
		a, b, goalA, goalB := domain.Disc(domain.Body, x, 0, 0.1), domain.Disc(domain.Body, y, 1, 0.1), domain.Disc(domain.Goal, 5, 0, 0.2), domain.Disc(domain.Goal, 5, 1, 0.2)
		b.Of, goalB.Of = 1, 1
		return []domain.Shape{goalA, a, goalB, b}
	}
	m := motion{shapes: [][]domain.Shape{at(0, 0), at(5, 2), at(3, 5.1), at(0, 0), at(3, 3)}}
	if require.OK(t, m.measure()); m.arrival != 2 {
		t.Errorf("arrival is picture %d, want 2", m.arrival)
	}
	m = motion{shapes: [][]domain.Shape{at(0, 0), at(4, 4), at(4.01, 4), at(4, 4.01)}} // never there, at rest from picture 1
	if require.OK(t, m.measure()); m.arrival != 1 {
		t.Errorf("arrival is picture %d, want 1", m.arrival)
	}
	m = motion{shapes: [][]domain.Shape{at(0, 0), at(math.NaN(), 4)}}
	if m.measure() == nil {
		t.Error("a picture of NaN was taken")
	}
}

// A trace that this build cannot replay is shown as time lines, and says so.
func TestATraceThatCannotBeReplayedIsShownAsTimeLines(t *testing.T) {
	r, tr := sliding(t)
	tr.Header.Params = json.RawMessage(`{"problem":"another"}`)
	r.Traces = []Trace{*tr}
	var names []string
	for _, f := range r.Figures() {
		if names = append(names, f.Name); strings.HasPrefix(f.Name, "cart-states") && !strings.Contains(f.caption, "cannot be replayed") {
			t.Errorf("%s says %q", f.Name, f.caption)
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
			Latency: closedloop.Quantiles{P50: 9.21, P99: 42},
		})
	}
	l := require.Get(r.lead(t.Context()))(t)
	want := "[[case safe extra cost, % decision, ms] [`integrator-convex` 20/20 0.031 ± 0.021 0.0092 / 0.042] [`integrator-nonconvex` 40/40 0.031 0.0092 / 0.042]]"
	if fmt.Sprint(l.rows) != want {
		t.Errorf("%v, want %s", l.rows, want)
	}
	if l.headline != "With the map every limit was kept in all 2 cases, at a mean extra cost of at most 0.031\u00a0%." || !strings.Contains(l.note, "one episode says little: opf30") {
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

// labels counts the labelled ticks within an axis.
func labels(ticks []plot.Tick, lo, hi float64) (n int) {
	for _, t := range ticks {
		if t.Label != "" && t.Value >= lo-1e-9*math.Abs(lo) && t.Value <= hi+1e-9*math.Abs(hi) {
			n++
		}
	}
	return n
}

// A robot is called by the number of its states and actions in every figure; what has no actions of its own is a body.
func TestARobotHasOneName(t *testing.T) {
	r := New("here", known())
	if a, b, c := r.bodyName("multiagent-static", 0, 4), r.bodyName("arena", 1, 2), r.bodyName("multiagent-static", 0, 1); a != "robot 0" || b != "body 1" || c != "body" {
		t.Errorf("%q, %q and %q", a, b, c)
	}
	p := panel{axis: "actions", names: []string{"a0", "a1"}}
	if p.robots(2); fmt.Sprint(p.names) != "[robot 0 robot 1]" || p.axis != "actions a" {
		t.Errorf("actions are called %v along %q", p.names, p.axis)
	}
	p = panel{axis: "states", names: []string{"x0", "y0"}}
	if p.robots(2); fmt.Sprint(p.names) != "[x0 y0]" {
		t.Errorf("states of two kinds are called %v", p.names)
	}
}

// A long line keeps its ends and its extremes.
func TestALongLineKeepsItsExtremes(t *testing.T) {
	pts := make(plotter.XYs, 10_000)
	for i := range pts {
		pts[i].X = float64(i)
	}
	pts[4321].Y, pts[8765].Y = 7, -7
	out := thinned(pts)
	lowest, highest := slices.MinFunc(out, byHeight), slices.MaxFunc(out, byHeight)
	if len(out) > mostPoints+2 || out[0] != pts[0] || out[len(out)-1] != pts[len(pts)-1] || lowest != pts[8765] || highest != pts[4321] {
		t.Errorf("%d points from %v to %v, between %v and %v", len(out), out[0], out[len(out)-1], lowest, highest)
	}
	if !slices.IsSortedFunc(out, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) }) {
		t.Error("it goes back")
	}
}

func byHeight(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }
