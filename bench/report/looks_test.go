package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	imagedraw "image/draw"
	"image/gif"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// slider is the cart on a line that comes to rest at 0, with a picture of it.
type slider struct{ *testdomain.Cart }

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

// Every figure that the report can draw: labelled ticks on both axes, a legend that is short
// and outside the plot, and nothing off the page.
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
			f := newFigure(fmt.Sprintf("from %g times %g", lo, ratio), "t", "x", "y")
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
	if f.entries > maxEntries {
		out = append(out, fmt.Sprintf("%d entries in its legend", f.entries))
	}
	beside := 0
	for _, box := range texts(&c) {
		if box.Min.X < 0 || box.Min.Y < 0 || box.Max.X > width || box.Max.Y > height {
			out = append(out, fmt.Sprintf("%q is at %v on a page of %v × %v", box.text, box.Rectangle, width, height))
		}
		if box.Min.X > f.Width {
			beside++
		}
	}
	if beside < f.entries {
		out = append(out, fmt.Sprintf("%d of %d entries of the legend stand beside the plot", beside, f.entries))
	}
	return out
}

// written is a text where it stands.
type written struct {
	vg.Rectangle
	text string
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
			box := written{vg.Rectangle{Min: vg.Point{X: vg.Length(math.Inf(1)), Y: vg.Length(math.Inf(1))}, Max: vg.Point{X: vg.Length(math.Inf(-1)), Y: vg.Length(math.Inf(-1))}}, a.String}
			for _, corner := range []vg.Point{{}, {X: w}, {Y: h}, {X: w, Y: h}} {
				p := place(a.Point.X+corner.X, a.Point.Y+corner.Y)
				box.Min.X, box.Min.Y, box.Max.X, box.Max.Y = min(box.Min.X, p.X), min(box.Min.Y, p.Y), max(box.Max.X, p.X), max(box.Max.Y, p.Y)
			}
			out = append(out, box)
		}
	}
	return out
}

// An animation stays under its size and ends two seconds after arrival, whether its case is
// drawn or shown as time lines.
func TestAnimationsEndSoonAfterArrival(t *testing.T) {
	r, tr := sliding(t)
	m := require.Get(r.motion(tr, &tr.Episodes[0]))(t)
	if m == nil || m.arrival < 5 || m.arrival > 60 {
		t.Fatalf("the slider arrives at %+v", m)
	}
	other := wide(3000)
	for _, c := range []struct {
		trace   *Trace
		arrival int
		total   int // decisions
	}{{tr, m.arrival, 100}, {&other, settled(other.Episodes[0].Lines), 3000}} {
		a := require.Get(r.Animation(t.Context(), c.trace))(t)
		if len(a.GIF) == 0 || len(a.GIF) > maxAnimation {
			t.Errorf("%s: %d bytes", a.Name, len(a.GIF))
		}
		movie := require.Get(gif.DecodeAll(bytes.NewReader(a.GIF)))(t)
		total := 0
		for _, d := range movie.Delay {
			total += d
		}
		seconds := r.seconds(c.trace)
		stride := max(1, (c.arrival+maxFrames-1)/maxFrames)
		until := (c.arrival + stride - 1) / stride * movie.Delay[0]
		if total != until+hold || c.arrival >= c.total-1 {
			t.Errorf("%s: %d frames, %d hundredths of a second, %d of them until arrival at %d of %d (%v s each)", a.Name, len(movie.Image), total, until, c.arrival, c.total, seconds)
		}
	}
}

// A frame's pixels have the colours of the palette that image/draw chooses.
func TestFramesHaveTheNearestColours(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 64, 64))
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range picture.Pix {
		picture.Pix[i] = uint8(rng.IntN(256))
	}
	for y := range 32 { // areas of one colour, and no colour
		for x := range 64 {
			picture.SetRGBA(x, y, color.RGBA{uint8(y / 8 * 60), uint8(x / 16 * 80), 90, uint8(255 * min(y, 1))})
		}
	}
	want := image.NewPaletted(picture.Rect, framePalette)
	imagedraw.Draw(want, want.Rect, picture, image.Point{}, imagedraw.Src)
	var m movie
	for range 2 {
		if got := m.paletted(picture); !bytes.Equal(got.Pix, want.Pix) {
			t.Error("the colours are not those of image/draw")
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
	for _, want := range []string{"name=\"viewport\"", "color-scheme:light dark", "prefers-color-scheme:dark", "<nav", "id=\"glossary\"", "<h1>", "class=\"note\"", "data:image/gif;base64,", "overflow:auto"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if found := regexp.MustCompile(`(src|href)="(https?:)?//[^"]*"|@import|url\(|<script|<link`).FindString(html); found != "" {
		t.Errorf("the page asks for %s", found)
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if strings.Count(html, `id="`+m[1]+`"`) != 1 {
			t.Errorf("the contents lead to %q, which is there %d times", m[1], strings.Count(html, `id="`+m[1]+`"`))
		}
	}
	figures, sections := strings.Count(html, "<figure>"), strings.Count(html, "<section>")
	if figures < 5 || strings.Count(html, "<figcaption>") != figures || sections < 3 || strings.Count(html, "href=\"#section-") != sections || strings.Count(html, "</section>") != sections {
		t.Errorf("%d figures with %d captions, %d sections", figures, strings.Count(html, "<figcaption>"), sections)
	}
	if strings.Count(html, "<table>") != strings.Count(html, "<div class=\"table\"") {
		t.Error("a table stands outside a box that scrolls")
	}
	at := strings.Index(html, "grid: navigator under each preference</h3>")
	if figure, next := strings.Index(html[max(at, 0):], "grid: one map steered"), strings.Index(html[max(at, 0):], "<h2"); at < 0 || figure < 0 || figure > next {
		t.Error("the front is not beside its table")
	}
}

// Only a case of which the paper has regrets says where those are from.
func TestNotesAreOfTheirCase(t *testing.T) {
	r := New("here", known())
	for _, name := range []string{"integrator-convex", "opf30", "arena"} {
		r.Evaluations = append(r.Evaluations, closedloop.Result{Case: name, Method: "navigator", Episodes: 1})
	}
	for _, s := range r.evaluationSections() {
		if has := strings.Contains(s.note, "tab. analytical"); has != strings.HasPrefix(s.title, "integrator") {
			t.Errorf("the note of %s is %q", s.title, s.note)
		}
	}
}

// Columns without an entry are left out, others stay.
func TestColumnsWithoutAnEntryAreLeftOut(t *testing.T) {
	got := filled([][]string{{"method", "paper", "p50"}, {"a", "–", "1"}, {"b", "–", "–"}})
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
