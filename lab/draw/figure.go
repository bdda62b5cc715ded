// Package draw makes the figures and animations of reports: plots of a size that a phone can show, with their legend
// below them and colours for light and dark paper, as SVG and PNG.
//
// The central type is Figure; a Motion is an episode in pictures, a Film shows one in motion.
package draw

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is one plot, written as SVG and as PNG.
type Figure struct {
	Name, Title   string
	Caption       string
	Width, Height vg.Length // without the legend, which stands below it
	X, Y          Axis
	Plot          *plot.Plot
	legend        []entry
	words         tags
	err           error // the first of what was added, which SVG and Write return
}

// Axis is what a figure shows along one of its sides, with its unit. An axis of words has no name.
type Axis struct {
	Name, Unit  string
	Logarithmic bool
}

// Along is a linear axis. Its unit is count where it counts, and dimensionless where it is empty.
func Along(name, unit string) Axis { return Axis{Name: name, Unit: cmp.Or(unit, "dimensionless")} }

// Log is a logarithmic axis.
func Log(name, unit string) Axis {
	a := Along(name, unit)
	a.Logarithmic = true
	return a
}

// label is the text along the axis.
func (a Axis) label() string {
	if a.Name == "" {
		return ""
	}
	return a.Name + ", " + a.Unit
}

// entry is a line of a legend.
type entry struct {
	label string
	thumb plot.Thumbnailer
}

// MaxEntries is the most that a legend has.
const MaxEntries = 8

// Sizes in points. A phone shows a figure 364 px wide: words of textSize are 12 px high there and 15 px where the
// figure has its own width.
const (
	Width        = 340
	figureHeight = 255
	textSize     = 11.5
	pageMargin   = 6 // left free around a figure
	labelGap     = 5 // between an axis and its label
	thumbWidth   = 18
	legendGap    = 12 // between entries
	legendRow    = 16
)

// Fail keeps an error, if there is one, and tells whether there is.
func (f *Figure) Fail(err error) bool {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("draw: figure %s: %w", f.Name, err)
	}
	return err != nil
}

// New is an empty figure.
func New(name, title string, x, y Axis) *Figure {
	p := plot.New()
	p.Title.Padding = 6
	p.BackgroundColor = background.light
	p.X.Tick.Marker, p.Y.Tick.Marker = evenly{leastEven}, evenly{leastEven}
	if x.Logarithmic {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	if y.Logarithmic {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = lines.light, lines.light
	p.Add(grid)
	f := &Figure{Name: name, Title: title, X: x, Y: y, Width: Width, Height: figureHeight, Plot: p}
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		style.Font.Variant, style.Font.Size, style.Color = "Sans", textSize, ink.light
	}
	for _, line := range []*draw.LineStyle{&p.X.LineStyle, &p.X.Tick.LineStyle, &p.Y.LineStyle, &p.Y.Tick.LineStyle} {
		line.Color = ink.light
	}
	p.Title.Text = wrapped(p.Title.TextStyle, title, Width-2*pageMargin)
	return f
}

// wrapped breaks a text between words into lines of a width.
func wrapped(style text.Style, words string, width vg.Length) string {
	var out, line string
	for _, word := range strings.Fields(words) {
		if longer := strings.TrimSpace(line + " " + word); line == "" || style.Width(longer) <= width {
			line = longer
			continue
		}
		out, line = out+line+"\n", word
	}
	return out + line
}

// Markers of points.
var (
	Disc    draw.GlyphDrawer = draw.CircleGlyph{}
	Ring    draw.GlyphDrawer = draw.RingGlyph{}
	Cross   draw.GlyphDrawer = draw.CrossGlyph{}
	Pyramid draw.GlyphDrawer = draw.PyramidGlyph{}
)

// entry adds to the legend.
func (f *Figure) entry(label string, thumb plot.Thumbnailer) {
	if label != "" {
		f.legend = append(f.legend, entry{label, thumb})
	}
}

// Entries is how many the legend has.
func (f *Figure) Entries() int { return len(f.legend) }

// legendCorners are the upper left corners of the legend's entries below the upper left corner of the legend, and its height.
func (f *Figure) legendCorners() (at []vg.Point, height vg.Length) {
	var x vg.Length
	for _, e := range f.legend {
		w := thumbWidth + labelGap + f.Plot.Legend.TextStyle.Width(e.label)
		if x > 0 && x+w > f.Width-2*pageMargin {
			x, height = 0, height+legendRow
		}
		at = append(at, vg.Point{X: x, Y: height})
		x += w + legendGap
	}
	if len(at) > 0 {
		height += legendRow + labelGap
	}
	return at, height
}

// Line adds a series; points that are not finite are left out.
func (f *Figure) Line(label string, c color.RGBA, dashed bool, xs, ys []float64) {
	pts := thinned(f.drawable(xs, ys))
	if len(pts) == 0 {
		return
	}
	l, err := plotter.NewLine(pts)
	if f.Fail(err) {
		return
	}
	l.Color, l.Width = c, vg.Points(1.6)
	if dashed {
		l.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	f.Plot.Add(l)
	f.entry(label, l)
}

// mostPoints of a line are drawn: more lie within the width of the line.
const mostPoints = 800

// thinned leaves of a line with more points than are drawn the lowest and the highest of each of as many parts, and its
// ends.
func thinned(pts plotter.XYs) plotter.XYs {
	if len(pts) <= mostPoints {
		return pts
	}
	out := plotter.XYs{pts[0]}
	for part := range mostPoints / 2 {
		from, to := part*len(pts)/(mostPoints/2), (part+1)*len(pts)/(mostPoints/2)
		lo, hi := from, from
		for i := from; i < to; i++ {
			if pts[i].Y < pts[lo].Y {
				lo = i
			}
			if pts[i].Y > pts[hi].Y {
				hi = i
			}
		}
		out = append(out, pts[min(lo, hi)], pts[max(lo, hi)])
	}
	return append(out, pts[len(pts)-1])
}

// Points adds a series of markers; those that are not finite are left out.
func (f *Figure) Points(label string, c color.RGBA, shape draw.GlyphDrawer, xs, ys []float64) {
	if s := f.markers(c, 3, shape, f.drawable(xs, ys)); s != nil {
		f.entry(label, s)
	}
}

// markers adds markers of a radius in points; nil where there are none.
func (f *Figure) markers(c color.RGBA, radius vg.Length, shape draw.GlyphDrawer, pts plotter.XYs) *plotter.Scatter {
	if len(pts) == 0 {
		return nil
	}
	s, err := plotter.NewScatter(pts)
	if f.Fail(err) {
		return nil
	}
	s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: radius, Shape: shape}
	f.Plot.Add(s)
	return s
}

// Point adds one marker with an optional word beside it.
func (f *Figure) Point(word string, c color.RGBA, shape draw.GlyphDrawer, x, y float64) {
	pts := f.drawable([]float64{x}, []float64{y})
	if f.markers(c, markerRadius, shape, pts) != nil {
		f.words.add(word, pts[0])
	}
}

// markerRadius is that of Point.
const markerRadius = 4

// ErrorBar adds a vertical bar from lo to hi.
func (f *Figure) ErrorBar(c color.RGBA, x, lo, hi float64) {
	f.Line("", c, false, []float64{x, x}, []float64{lo, hi})
}

// fill adds a closed outline with an interior.
func (f *Figure) fill(c, inside color.Color, xs, ys []float64) {
	poly, err := plotter.NewPolygon(f.drawable(xs, ys))
	if f.Fail(err) {
		return
	}
	poly.Color, poly.LineStyle.Color, poly.LineStyle.Width = inside, c, vg.Points(0.8)
	f.Plot.Add(poly)
}

// drawnReach bounds what is drawn, and drawnShare the range of an axis as a share of its
// ends: beyond them the labelling of an axis finds no end.
const (
	drawnReach = 1e12
	drawnShare = 1e-9
)

// drawable are the points that the figure's axes have a place for.
func (f *Figure) drawable(xs, ys []float64) plotter.XYs {
	var pts plotter.XYs
	for i := range xs {
		if placed(xs[i], f.Plot.X.Scale) && placed(ys[i], f.Plot.Y.Scale) {
			pts = append(pts, plotter.XY{X: xs[i], Y: ys[i]})
		}
	}
	return pts
}

func placed(v float64, scale plot.Normalizer) bool {
	_, logarithmic := scale.(plot.LogScale)
	return math.Abs(v) <= drawnReach && !(logarithmic && v < 1/drawnReach)
}

// Rows labels the places 0, −1, −2 … of the vertical axis, and makes the figure high enough
// for them.
func (f *Figure) Rows(labels []string) {
	ticks := make(plot.ConstantTicks, len(labels))
	for i, label := range labels {
		ticks[i] = plot.Tick{Value: -float64(i), Label: label}
	}
	y := &f.Plot.Y
	y.Tick.Marker, y.Tick.Length, y.LineStyle.Width = ticks, 0, 0
	y.Min, y.Max = 0.4-float64(len(labels)), 0.6
	f.Height = vg.Length(len(labels))*rowHeight + aroundRows
}

// rowHeight is that of a line of rows, aroundRows what title and axis take.
const (
	rowHeight  = 18
	aroundRows = 80
)

// equalAspect widens one axis so that a metre is as long on both.
func (f *Figure) equalAspect() {
	p := f.Plot
	dx, dy := p.X.Max-p.X.Min, p.Y.Max-p.Y.Min
	ratio := float64(f.Width / f.Height)
	if dx < dy*ratio {
		grow := (dy*ratio - dx) / 2
		p.X.Min, p.X.Max = p.X.Min-grow, p.X.Max+grow
	} else {
		grow := (dx/ratio - dy) / 2
		p.Y.Min, p.Y.Max = p.Y.Min-grow, p.Y.Max+grow
	}
}

// Size is that of the page: the figure's, and the legend's below it.
func (f *Figure) Size() (width, height vg.Length) {
	_, below := f.legendCorners()
	return f.Width, f.Height + below
}

// narrowest is the least ratio of the ends of a logarithmic axis.
const narrowest = 1.5

// Draw renders the figure on a page of its size. An axis without a range, or of one too small
// to be labelled, gets another: the plot's own would pass zero where it is logarithmic. It gives the part of the page
// that has the axes' ranges.
func (f *Figure) Draw(page draw.Canvas) draw.Canvas {
	for _, a := range []*plot.Axis{&f.Plot.X, &f.Plot.Y} {
		if !(a.Min <= a.Max) { // nothing is drawn
			a.Min, a.Max = 1, 2
		}
		a.Min, a.Max = math.Max(a.Min, -drawnReach), math.Min(a.Max, drawnReach)
		if _, logarithmic := a.Scale.(plot.LogScale); logarithmic {
			if a.Max < narrowest*a.Min {
				a.Min, a.Max = a.Min/narrowest, a.Max*narrowest
			}
		} else if !(a.Max-a.Min > drawnShare*math.Max(math.Abs(a.Min), math.Abs(a.Max))) {
			wider := 1 + drawnShare*math.Abs(a.Min)
			a.Min, a.Max = a.Min-wider, a.Max+wider
		}
	}
	if f.words.plotted = f.words.plotted || len(f.words.at) == 0; !f.words.plotted {
		f.Plot.Add(&f.words)
		f.words.plotted = true
	}
	page.SetColor(background.light)
	page.Fill(page.Rectangle.Path())
	page = draw.Crop(page, pageMargin, -pageMargin, pageMargin, -pageMargin)
	at, below := f.legendCorners()
	for i, e := range f.legend {
		style := f.Plot.Legend.TextStyle
		corner := vg.Point{X: page.Min.X + at[i].X, Y: page.Min.Y + below - labelGap - at[i].Y}
		thumb := page
		thumb.Rectangle = vg.Rectangle{Min: vg.Point{X: corner.X, Y: corner.Y - legendRow}, Max: vg.Point{X: corner.X + thumbWidth, Y: corner.Y}}
		e.thumb.Thumbnail(&thumb)
		style.YAlign = draw.YCenter
		page.FillText(style, vg.Point{X: corner.X + thumbWidth + labelGap, Y: corner.Y - legendRow/2}, e.label)
	}
	page.Min.Y += below
	// The plot's own labels would take room as if they stood at the arithmetic middle of a
	// logarithmic axis.
	style := f.Plot.X.Label.TextStyle
	style.XAlign = draw.XCenter
	rise := style.Height("X")
	if x := f.X.label(); x != "" {
		page.FillText(style, vg.Point{X: page.Center().X, Y: page.Min.Y + style.FontExtents().Descent}, x)
		page.Min.Y += rise + labelGap
	}
	if y := f.Y.label(); y != "" {
		style.Rotation = math.Pi / 2
		page.FillText(style, vg.Point{X: page.Min.X + rise, Y: page.Center().Y}, y)
		page.Min.X += rise + labelGap
	}
	f.Plot.Draw(page)
	return f.Plot.DataCanvas(page)
}

// SVG renders the figure.
func (f *Figure) SVG() ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	width, height := f.Size()
	c := vgsvg.New(width, height)
	f.Draw(draw.New(c))
	return alone(c, "")
}

// alone is a drawing, with what is written over it, as a file of its own that knows light and dark paper.
func alone(c *vgsvg.Canvas, over string) ([]byte, error) {
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, err
	}
	svg := out.String()
	svg = svg[strings.Index(svg, "<svg"):strings.LastIndex(svg, "</svg>")]
	// Liberation Sans has the widths of Arial and Helvetica; what every word has alike is said once.
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;", "")
	end := strings.Index(svg, ">") + 1
	style := "<style>svg{font-family:Liberation Sans,Arial,Helvetica,sans-serif}" + darkened(svg+over, "") + "</style>\n"
	return []byte(svg[:end] + style + svg[end:] + over + "</svg>\n"), nil
}

// Write writes dir/NAME.svg and dir/NAME.png.
func (f *Figure) Write(dir string) error {
	svg, err := f.SVG()
	if err != nil {
		return err
	}
	c := vgimg.NewWith(vgimg.UseWH(f.Size()), vgimg.UseDPI(144))
	f.Draw(draw.New(c))
	var png bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&png); err != nil {
		return fmt.Errorf("draw: figure %s: %w", f.Name, err)
	}
	for ext, data := range map[string][]byte{".svg": svg, ".png": png.Bytes()} {
		if err := durable.WriteFile(filepath.Join(dir, f.Name+ext), data, 0o644); err != nil {
			return fmt.Errorf("draw: figure %s: %w", f.Name, err)
		}
	}
	return nil
}

// Band adds a mean as a line, and the range between two quantiles, which may be nil, as a shade.
func (f *Figure) Band(label string, c color.RGBA, dashed bool, xs, mean, low, high []float64) {
	var x, y []float64
	for k, v := range low {
		if !math.IsNaN(v) {
			x, y = append(x, xs[k]), append(y, v)
		}
	}
	for k, v := range slices.Backward(high) {
		if !math.IsNaN(v) {
			x, y = append(x, xs[k]), append(y, v)
		}
	}
	if shade := translucent(c); len(x) > 3 {
		f.fill(shade, shade, x, y)
	}
	f.Line(label, c, dashed, xs, mean)
}
