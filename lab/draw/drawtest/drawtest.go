// Package drawtest says what of a drawing cannot be read, for the tests of what draws.
package drawtest

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/gpc-engine/gpc/lab/draw"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// styles are those of a drawing as a file of its own.
var styles = regexp.MustCompile(`<style>[^<]*</style>\n?`)

// Faults are what cannot be read of a figure.
func Faults(f *draw.Figure) (out []string) {
	width, height := f.Size()
	var c recorder.Canvas
	f.Draw(vgdraw.NewCanvas(&c, width, height))
	for name, a := range map[string]*plot.Axis{"x": &f.Plot.X, "y": &f.Plot.Y} {
		if n := labels(a.Tick.Marker.Ticks(a.Min, a.Max), a.Min, a.Max); n < 2 || name == "x" && n > 14 || name == "y" && vg.Length(n)*14 > height {
			out = append(out, fmt.Sprintf("%d labelled ticks on the axis %s", n, name))
		}
	}
	if f.Entries() > draw.MaxEntries {
		out = append(out, fmt.Sprintf("%d entries in its legend", f.Entries()))
	}
	for _, a := range []draw.Axis{f.X, f.Y} {
		if a.Name != "" && a.Unit == "" || a.Name == "" && a != f.Y {
			out = append(out, fmt.Sprintf("an axis %q without a unit", a.Name))
		}
	}
	const (
		phone  = 364 // px that a figure has
		margin = 6   // left free around it
	)
	if width > draw.Width {
		out = append(out, fmt.Sprintf("%v wide, want at most %d: a phone would shrink it", width, draw.Width))
	}
	svg, err := f.SVG()
	if err != nil {
		out = append(out, err.Error())
	}
	out = append(out, Untwinned(svg)...)
	below := height - f.Height
	under := 0
	for _, box := range texts(&c) {
		if box.Min.X < 0 || box.Min.Y < 0 || box.Max.X > width || box.Max.Y > height {
			out = append(out, fmt.Sprintf("%q is at %v on a page of %v × %v", box.text, box.Rectangle, width, height))
		}
		if px := float64(box.size) * phone / float64(draw.Width); px < 12 {
			out = append(out, fmt.Sprintf("%q is %.1f px high on a phone", box.text, px))
		}
		if box.Max.Y < below+margin {
			under++
		}
	}
	if under < f.Entries() {
		out = append(out, fmt.Sprintf("%d of %d entries of the legend stand below the plot", under, f.Entries()))
	}
	return out
}

// Untwinned are the colours of a drawing that are not of the table, or do not change on dark paper.
func Untwinned(svg []byte) (out []string) {
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

// labels counts the labelled ticks within an axis.
func labels(ticks []plot.Tick, lo, hi float64) (n int) {
	for _, t := range ticks {
		if t.Label != "" && t.Value >= lo-1e-9*math.Abs(lo) && t.Value <= hi+1e-9*math.Abs(hi) {
			n++
		}
	}
	return n
}
