package report

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Animation is an episode as a drawing that moves, in a loop. Where a reader wants less motion, it stands at its end.
type Animation struct {
	Name, Title string
	caption     string
	SVG         []byte
}

// Limits of an animation.
const (
	maxAnimation = 1 << 20 // bytes
	maxFrames    = 90      // until arrival; what moves goes straight from one to the next
	hold         = 2.0     // seconds after arrival
	longest      = 9.0     // seconds until arrival; longer episodes are shown faster,
	shortest     = 3.0     // and shorter ones slower
	panelHeight  = 145     // of time lines
)

// Animation is the first episode of a trace: as its case draws it, or its time lines. It ends
// two seconds after arrival: when the bodies, or the states, are where they stay.
func (r *Records) Animation(ctx context.Context, t *Trace) (*Animation, error) {
	if len(t.Episodes) == 0 || len(t.Episodes[0].Lines) == 0 {
		return nil, nil
	}
	seconds, lines := r.seconds(t), t.Episodes[0].Lines
	a := &Animation{Name: t.Header.Case + "-" + t.Header.Method + "-motion", Title: fmt.Sprintf("%s by %s", t.Header.Case, t.Header.Method)}
	m, err := r.motion(t, &t.Episodes[0])
	film := film{reel: reelOf(settled(lines), len(lines)-1, seconds)}
	if m != nil && err == nil {
		film.reel = reelOf(m.arrival, len(m.shapes)-1, seconds)
		a.caption = fmt.Sprintf("Episode %d: goals are dashed, trails show where bodies have been.", t.Episodes[0].Episode)
		film.pictures(m)
	} else {
		a.caption = fmt.Sprintf("Episode %d: time lines, pale what is to come.", t.Episodes[0].Episode)
		film.timeLines(stacked(r.panels(t)))
		if err != nil {
			a.caption += fmt.Sprintf(" It cannot be replayed here: %v.", err)
		}
	}
	if seconds > 0 {
		a.caption += fmt.Sprintf(" %.3g times as fast as it is.", seconds*float64(film.last)/(film.seconds-film.rest))
	}
	if film.err == nil {
		film.err = ctx.Err()
	}
	if film.err == nil {
		a.SVG, film.err = alone(film.canvas, film.over())
	}
	switch {
	case film.err != nil:
		return nil, fmt.Errorf("report: animation of %s: %w", a.Name, film.err)
	case len(a.SVG) > maxAnimation:
		return nil, fmt.Errorf("report: animation of %s: %d bytes, an animation has at most %d", a.Name, len(a.SVG), maxAnimation)
	}
	return a, nil
}

// reel is which pictures of an episode an animation shows, and how long it takes.
type reel struct {
	at            []int // pictures, evenly spaced in time; the last is shown until the end
	last          int   // of these
	seconds, rest float64
}

// reelOf is the reel of an episode that has arrived at one picture and ends at another, seconds apart; 0: not known.
func reelOf(arrival, end int, seconds float64) reel {
	stride := max(1, (arrival+maxFrames-1)/maxFrames)
	each := min(max(seconds*float64(arrival), shortest), longest) / float64(max(1, arrival)) // of a picture
	var r reel
	for k := 0; k <= end && (k <= arrival || float64(k-arrival)*each <= hold); k += stride {
		r.at, r.last = append(r.at, k), k
	}
	r.seconds = each*float64(arrival) + hold
	r.rest = r.seconds - each*float64(r.last)
	for missing := math.Round(r.rest / (each * float64(stride))); missing > 0; missing-- {
		r.at = append(r.at, r.last)
	}
	return r
}

// film is a drawing with what moves over it.
type film struct {
	reel
	canvas        *vgsvg.Canvas
	height        vg.Length
	moving, still bytes.Buffer // what is shown in motion, and in its place without
	err           error
}

// over is what stands over the drawing.
func (f *film) over() string {
	return "<style>.still{display:none}@media(prefers-reduced-motion:reduce){.moving{display:none}.still{display:inline}}</style>\n" +
		"<g class=\"moving\">\n" + f.moving.String() + "</g>\n<g class=\"still\">\n" + f.still.String() + "</g>\n"
}

// animate is the change of an attribute over the reel; "" where it has none.
func (f *film) animate(attribute string, value func(k int) string) (at, change string) {
	values := make([]string, len(f.at))
	moves := false
	for i, k := range f.at {
		values[i] = value(k)
		moves = moves || values[i] != values[0]
	}
	if !moves {
		return values[0], ""
	}
	element, kind := "animate", ""
	if attribute == "transform" {
		element, kind = "animateTransform", " type=\"translate\""
	}
	return values[0], fmt.Sprintf("<%s attributeName=%q%s dur=\"%.2fs\" repeatCount=\"indefinite\" values=%q/>", element, attribute, kind, f.seconds, strings.Join(values, ";"))
}

// add writes an element that has one attribute over the reel: in motion, and as it is at the end.
func (f *film) add(element, attribute, style, inside string, value func(k int) string) {
	first, change := f.animate(attribute, value)
	wrap := func(v string) string {
		if attribute == "transform" {
			v = "translate(" + v + ")"
		}
		return v
	}
	fmt.Fprintf(&f.moving, "<%s %s=%q style=%q>%s%s</%s>\n", element, attribute, wrap(first), style, change, inside, element)
	fmt.Fprintf(&f.still, "<%s %s=%q style=%q>%s</%s>\n", element, attribute, wrap(value(f.last)), style, inside, element)
}

// begin makes a canvas for figures one above the other, draws them and gives for each the part of the page that has the
// ranges of its axes.
func (f *film) begin(figures ...*Figure) (parts []draw.Canvas) {
	var width vg.Length
	for _, g := range figures {
		w, h := g.size()
		width, f.height = max(width, w), f.height+h
		if f.err == nil {
			f.err = g.err
		}
	}
	f.canvas = vgsvg.New(width, f.height)
	page := draw.New(f.canvas)
	for _, g := range figures {
		_, h := g.size()
		part := page
		part.Min.Y = part.Max.Y - h
		parts = append(parts, g.draw(part))
		page.Max.Y = part.Min.Y
	}
	return parts
}

// pictures shows an episode as its case draws it.
func (f *film) pictures(m *motion) {
	stage := m.stage("film", "")
	part := f.begin(stage)[0]
	x, y := stage.plot.Transforms(&part)
	point := func(p [2]float64) string { return fmt.Sprintf("%.1f,%.1f", x(p[0]), f.height-y(p[1])) }
	wide, high := float64(x(1)-x(0)), float64(y(1)-y(0)) // of a metre
	for _, role := range []domain.Role{domain.Ground, domain.Obstacle, domain.Goal, domain.Body} {
		for i := range m.shapes[0] {
			s := &m.shapes[0][i]
			if s.Role != role {
				continue
			}
			line, inside, filled := look(s)
			style := "fill:none"
			if filled {
				style = "fill:" + css(inside)
			}
			style += fmt.Sprintf(";stroke:%s;stroke-width:1.4", css(line))
			if role == domain.Goal {
				style += ";stroke-dasharray:4 3"
			}
			if len(s.Path) > 1 {
				f.add("path", "d", style, "", func(k int) string {
					var d strings.Builder
					for j, p := range m.shapes[k][i].Path {
						d.WriteString(map[bool]string{true: "M", false: "L"}[j == 0] + point(p))
					}
					return d.String()
				})
				continue
			}
			if role == domain.Body {
				f.trail(m, i, point, css(line))
			}
			disc := fmt.Sprintf("<ellipse rx=\"%.1f\" ry=\"%.1f\"/>", max(wide*s.Radius, 2), max(high*s.Radius, 2))
			if role == domain.Body && m.robots() > 1 {
				disc += fmt.Sprintf("<text x=\"%.1f\" y=\"%.1f\" style=\"fill:%s;stroke:none;font-size:%gpx\">%d</text>", wide*s.Radius+2, -high*s.Radius, css(ink.light), textSize, s.Of)
			}
			f.add("g", "transform", style, disc, func(k int) string { return point(m.shapes[k][i].Path[0]) })
		}
	}
}

// trail grows behind the disc of a body: a dash as long as the whole way, moved along it.
func (f *film) trail(m *motion, i int, point func([2]float64) string, line string) {
	var d strings.Builder
	long, step := make([]float64, f.last+1), max(1, f.last/mostPoints) // of the way to each picture
	for k, at := 0, m.shapes[0][i].Path[0]; k <= f.last; k++ {
		p := m.shapes[k][i].Path[0]
		long[k] = long[max(0, k-1)] + math.Hypot(p[0]-at[0], p[1]-at[1])
		if at = p; k%step == 0 || k == f.last {
			d.WriteString(map[bool]string{true: "M", false: "L"}[k == 0] + point(p))
		}
	}
	whole := long[f.last]
	if !(whole > 0) {
		return
	}
	const length = 1000 // of every path
	style := fmt.Sprintf("fill:none;stroke:%s;stroke-width:1.6", line)
	_, change := f.animate("stroke-dashoffset", func(k int) string { return fmt.Sprintf("%.0f", length*(1-long[k]/whole)) })
	fmt.Fprintf(&f.moving, "<path d=%q pathLength=\"%d\" stroke-dasharray=\"%d %d\" style=%q>%s</path>\n", d.String(), length, length, 2*length, style, change)
	fmt.Fprintf(&f.still, "<path d=%q style=%q/>\n", d.String(), style)
}

// timeLines shows lines up to the present: what is to come is behind a veil.
func (f *film) timeLines(panels []panel) {
	var figures []*Figure
	for i := range panels {
		p := &panels[i]
		g := p.figure("film", "")
		g.Height, g.plot.Y.Tick.Marker = panelHeight, evenly{2}
		if i < len(panels)-1 {
			g.x = axis{} // all have the last one's
		}
		figures = append(figures, g)
	}
	for i, part := range f.begin(figures...) {
		x, _ := figures[i].plot.Transforms(&part)
		at := func(k int) float64 { return float64(x(panels[i].time[k])) }
		high, top := float64(part.Max.Y-part.Min.Y)+4, float64(f.height-part.Max.Y)-2 // with half of a line
		veil := fmt.Sprintf("fill:%s;fill-opacity:.75", css(background.light))
		_, left := f.animate("x", func(k int) string { return fmt.Sprintf("%.1f", at(k)) })
		first, wide := f.animate("width", func(k int) string { return fmt.Sprintf("%.1f", float64(part.Max.X)-at(k)) })
		fmt.Fprintf(&f.moving, "<rect x=\"%.1f\" y=\"%.1f\" width=%q height=\"%.1f\" style=%q>%s%s</rect>\n", at(0), top, first, high, veil, left, wide)
	}
}
