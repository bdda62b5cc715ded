package draw

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Limits of an animation.
const (
	maxAnimation = 1 << 20 // bytes
	maxFrames    = 90      // until arrival; what moves goes straight from one to the next
	hold         = 2.0     // seconds after arrival
	longest      = 9.0     // seconds until arrival; longer episodes are shown faster,
	shortest     = 3.0     // and shorter ones slower
	panelHeight  = 145     // of time lines
)

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

// Film is an episode as a drawing that moves, in a loop. Where a reader wants less motion, it stands at its end. It ends
// two seconds after arrival.
type Film struct {
	reel
	canvas        *vgsvg.Canvas
	height        vg.Length
	moving, still bytes.Buffer // what is shown in motion, and in its place without
	err           error
}

// Speed is how many times as fast as the episode the film goes, whose decisions are so many seconds apart.
func (f *Film) Speed(seconds float64) float64 {
	return seconds * float64(f.last) / (f.seconds - f.rest)
}

// SVG renders the film. One that is too large is an error.
func (f *Film) SVG() ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	svg, err := alone(f.canvas, f.over())
	if err == nil && len(svg) > maxAnimation {
		err = fmt.Errorf("%d bytes, an animation has at most %d", len(svg), maxAnimation)
	}
	return svg, err
}

// over is what stands over the drawing.
func (f *Film) over() string {
	return "<style>.still{display:none}@media(prefers-reduced-motion:reduce){.moving{display:none}.still{display:inline}}</style>\n" +
		"<g class=\"moving\">\n" + f.moving.String() + "</g>\n<g class=\"still\">\n" + f.still.String() + "</g>\n"
}

// animate is the change of an attribute over the reel; "" where it has none.
func (f *Film) animate(attribute string, value func(k int) string) (at, change string) {
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
func (f *Film) add(element, attribute, style, inside string, value func(k int) string) {
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
func (f *Film) begin(figures ...*Figure) (parts []draw.Canvas) {
	var width vg.Length
	for _, g := range figures {
		w, h := g.Size()
		width, f.height = max(width, w), f.height+h
		if f.err == nil {
			f.err = g.err
		}
	}
	f.canvas = vgsvg.New(width, f.height)
	page := draw.New(f.canvas)
	for _, g := range figures {
		_, h := g.Size()
		part := page
		part.Min.Y = part.Max.Y - h
		parts = append(parts, g.Draw(part))
		page.Max.Y = part.Min.Y
	}
	return parts
}

// Pictures shows an episode as its case draws it; its decisions are so many seconds apart, 0: not known.
func Pictures(m *Motion, seconds float64) *Film {
	f := &Film{reel: reelOf(m.Arrival, len(m.Shapes)-1, seconds)}
	stage := m.stage("film", "")
	part := f.begin(stage)[0]
	x, y := stage.Plot.Transforms(&part)
	point := func(p [2]float64) string { return fmt.Sprintf("%.1f,%.1f", x(p[0]), f.height-y(p[1])) }
	wide, high := float64(x(1)-x(0)), float64(y(1)-y(0)) // of a metre
	for _, role := range []domain.Role{domain.Ground, domain.Obstacle, domain.Goal, domain.Body} {
		for i := range m.Shapes[0] {
			s := &m.Shapes[0][i]
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
					for j, p := range m.Shapes[k][i].Path {
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
			if role == domain.Body && m.Robots() > 1 {
				disc += fmt.Sprintf("<text x=\"%.1f\" y=\"%.1f\" style=\"fill:%s;stroke:none;font-size:%gpx\">%d</text>", wide*s.Radius+2, -high*s.Radius, css(ink.light), textSize, s.Of)
			}
			f.add("g", "transform", style, disc, func(k int) string { return point(m.Shapes[k][i].Path[0]) })
		}
	}
	return f
}

// trail grows behind the disc of a body: a dash as long as the whole way, moved along it.
func (f *Film) trail(m *Motion, i int, point func([2]float64) string, line string) {
	var d strings.Builder
	long, step := make([]float64, f.last+1), max(1, f.last/mostPoints) // of the way to each picture
	for k, at := 0, m.Shapes[0][i].Path[0]; k <= f.last; k++ {
		p := m.Shapes[k][i].Path[0]
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

// TimeLines shows lines up to the present, and what is to come behind a veil. Of many panels it shows some. Decisions
// are so many seconds apart, 0: not known, and the states are where they stay from one of them on.
func TimeLines(panels []Panel, arrival int, seconds float64) *Film {
	panels = stacked(panels)
	f := &Film{reel: reelOf(arrival, len(panels[0].Time)-1, seconds)}
	var figures []*Figure
	for i := range panels {
		p := &panels[i]
		g := p.Figure("film", "")
		g.Height, g.Plot.Y.Tick.Marker = panelHeight, evenly{2}
		if i < len(panels)-1 {
			g.X = Axis{} // all have the last one's
		}
		figures = append(figures, g)
	}
	for i, part := range f.begin(figures...) {
		x, _ := figures[i].Plot.Transforms(&part)
		at := func(k int) float64 { return float64(x(panels[i].Time[k])) }
		high, top := float64(part.Max.Y-part.Min.Y)+4, float64(f.height-part.Max.Y)-2 // with half of a line
		veil := fmt.Sprintf("fill:%s;fill-opacity:.75", css(background.light))
		_, left := f.animate("x", func(k int) string { return fmt.Sprintf("%.1f", at(k)) })
		first, wide := f.animate("width", func(k int) string { return fmt.Sprintf("%.1f", float64(part.Max.X)-at(k)) })
		fmt.Fprintf(&f.moving, "<rect x=\"%.1f\" y=\"%.1f\" width=%q height=\"%.1f\" style=%q>%s%s</rect>\n", at(0), top, first, high, veil, left, wide)
	}
	return f
}
