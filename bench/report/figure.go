package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/gpc-engine/gpc/internal/durable"
)

// palette of the figures: Okabe and Ito's, which stays distinct for colour-blind readers.
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {110, 110, 110, 255}, {160, 120, 60, 255},
}

func colour(i int) color.RGBA { return palette[i%len(palette)] }

func faint(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(255 - (255-int(v))/3) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}

// Figure is one plot, written as SVG and as PNG.
type Figure struct {
	Name, Title   string
	Width, Height vg.Length // without the legend, which stands to the right of it
	x, y          string    // labels of the axes
	caption       string
	plot          *plot.Plot
	legend        plot.Legend
	entries       int
	words         tags
	err           error // the first of what was added, which SVG and Write return
}

// maxEntries is the most that a legend has.
const maxEntries = 8

// pageMargin is left free around a figure, legendGap between it and its legend.
const (
	pageMargin = 6
	legendGap  = 8
	labelGap   = 5 // between an axis and its label
)

// fail keeps an error, if there is one, and tells whether there is.
func (f *Figure) fail(err error) bool {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("report: figure %s: %w", f.Name, err)
	}
	return err != nil
}

func newFigure(name, title, x, y string) *Figure {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 12
	p.Title.Padding = 6
	p.X.Label.TextStyle.Font.Size = 10
	p.BackgroundColor = color.White
	p.X.Tick.Marker, p.Y.Tick.Marker = evenly{leastEven}, evenly{leastEven}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{230}, color.Gray{230}
	p.Add(grid)
	f := &Figure{Name: name, Title: title, x: x, y: y, Width: 5.2 * vg.Inch, Height: 3.8 * vg.Inch, plot: p, legend: plot.NewLegend()}
	f.legend.Left, f.legend.Top, f.legend.Padding = true, true, vg.Points(3)
	f.legend.TextStyle.Font.Size = 10
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &f.legend.TextStyle, &p.Legend.TextStyle} {
		style.Font.Variant = "Sans"
	}
	return f
}

// entry adds to the legend.
func (f *Figure) entry(label string, thumb plot.Thumbnailer) {
	if label != "" {
		f.legend.Add(label, thumb)
		f.entries++
	}
}

// sample is a line in a legend.
func sample(c color.RGBA) *plotter.Line {
	return &plotter.Line{LineStyle: draw.LineStyle{Color: c, Width: vg.Points(1.6)}}
}

// line adds a series; points that are not finite are left out.
func (f *Figure) line(label string, c color.RGBA, dashed bool, xs, ys []float64) {
	pts := f.drawable(xs, ys)
	if len(pts) == 0 {
		return
	}
	l, err := plotter.NewLine(pts)
	if f.fail(err) {
		return
	}
	l.Color, l.Width = c, vg.Points(1.6)
	if dashed {
		l.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	f.plot.Add(l)
	f.entry(label, l)
}

// points adds a series of markers; those that are not finite are left out.
func (f *Figure) points(label string, c color.RGBA, shape draw.GlyphDrawer, xs, ys []float64) {
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
	if f.fail(err) {
		return nil
	}
	s.GlyphStyle = draw.GlyphStyle{Color: c, Radius: radius, Shape: shape}
	f.plot.Add(s)
	return s
}

// point adds one marker with an optional word beside it.
func (f *Figure) point(word string, c color.RGBA, shape draw.GlyphDrawer, x, y float64) {
	pts := f.drawable([]float64{x}, []float64{y})
	if f.markers(c, markerRadius, shape, pts) != nil {
		f.words.add(word, pts[0])
	}
}

// markerRadius is that of point.
const markerRadius = 4

// errorBar adds a vertical bar from lo to hi.
func (f *Figure) errorBar(c color.RGBA, x, lo, hi float64) {
	f.line("", c, false, []float64{x, x}, []float64{lo, hi})
}

// fill adds a closed outline with an interior.
func (f *Figure) fill(c, inside color.RGBA, xs, ys []float64) {
	poly, err := plotter.NewPolygon(f.drawable(xs, ys))
	if f.fail(err) {
		return
	}
	poly.Color, poly.LineStyle.Color, poly.LineStyle.Width = inside, c, vg.Points(0.8)
	f.plot.Add(poly)
}

func (f *Figure) logX() { f.plot.X.Scale, f.plot.X.Tick.Marker = plot.LogScale{}, decades{} }
func (f *Figure) logY() { f.plot.Y.Scale, f.plot.Y.Tick.Marker = plot.LogScale{}, decades{} }

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
		if placed(xs[i], f.plot.X.Scale) && placed(ys[i], f.plot.Y.Scale) {
			pts = append(pts, plotter.XY{X: xs[i], Y: ys[i]})
		}
	}
	return pts
}

func placed(v float64, scale plot.Normalizer) bool {
	_, logarithmic := scale.(plot.LogScale)
	return math.Abs(v) <= drawnReach && !(logarithmic && v < 1/drawnReach)
}

// rows labels the places 0, −1, −2 … of the vertical axis, and makes the figure high enough
// for them.
func (f *Figure) rows(labels []string) {
	ticks := make(plot.ConstantTicks, len(labels))
	for i, label := range labels {
		ticks[i] = plot.Tick{Value: -float64(i), Label: label}
	}
	y := &f.plot.Y
	y.Tick.Marker, y.Tick.Length, y.LineStyle.Width = ticks, 0, 0
	y.Min, y.Max = 0.4-float64(len(labels)), 0.6
	f.Height = vg.Length(len(labels))*rowHeight + aroundRows
}

// rowHeight is that of a line of rows, aroundRows what title and axis take.
const (
	rowHeight  = 15
	aroundRows = 75
)

// equalAspect widens one axis so that a metre is as long on both.
func (f *Figure) equalAspect() {
	p := f.plot
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

// size is that of the page: the figure's, and the legend's to the right of it.
func (f *Figure) size() (width, height vg.Length) {
	width = f.Width
	if f.entries > 0 {
		width += legendGap + f.legend.Rectangle(draw.Canvas{}).Size().X
	}
	return width, f.Height
}

// narrowest is the least ratio of the ends of a logarithmic axis.
const narrowest = 1.5

// draw renders the figure on a page of its size. An axis without a range, or of one too small
// to be labelled, gets another: the plot's own would pass zero where it is logarithmic.
func (f *Figure) draw(page draw.Canvas) {
	for _, a := range []*plot.Axis{&f.plot.X, &f.plot.Y} {
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
		f.plot.Add(&f.words)
		f.words.plotted = true
	}
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	page = draw.Crop(page, pageMargin, -pageMargin, pageMargin, -pageMargin)
	if f.entries > 0 {
		beside := page
		beside.Min.X = page.Max.X - f.legend.Rectangle(page).Size().X
		beside.Max.Y -= f.plot.Title.TextStyle.Rectangle(f.plot.Title.Text).Size().Y + f.plot.Title.Padding
		f.legend.Draw(beside)
		page.Max.X = beside.Min.X - legendGap
	}
	// The plot's own labels would take room as if they stood at the arithmetic middle of a
	// logarithmic axis.
	style := f.plot.X.Label.TextStyle
	style.XAlign = draw.XCenter
	rise := style.Height("X")
	if f.x != "" {
		page.FillText(style, vg.Point{X: page.Center().X, Y: page.Min.Y + style.FontExtents().Descent}, f.x)
		page.Min.Y += rise + labelGap
	}
	if f.y != "" {
		style.Rotation = math.Pi / 2
		page.FillText(style, vg.Point{X: page.Min.X + rise, Y: page.Center().Y}, f.y)
		page.Min.X += rise + labelGap
	}
	f.plot.Draw(page)
}

// SVG renders the figure.
func (f *Figure) SVG() ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	width, height := f.size()
	c := vgsvg.New(width, height)
	f.draw(draw.New(c))
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("report: figure %s: %w", f.Name, err)
	}
	// The same widths where the typeface is another: these are as wide.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), nil
}

// Write writes dir/NAME.svg and dir/NAME.png.
func (f *Figure) Write(dir string) error {
	svg, err := f.SVG()
	if err != nil {
		return err
	}
	c := vgimg.NewWith(vgimg.UseWH(f.size()), vgimg.UseDPI(144))
	f.draw(draw.New(c))
	var png bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&png); err != nil {
		return fmt.Errorf("report: figure %s: %w", f.Name, err)
	}
	for ext, data := range map[string][]byte{".svg": svg, ".png": png.Bytes()} {
		if err := durable.WriteFile(filepath.Join(dir, f.Name+ext), data, 0o644); err != nil {
			return fmt.Errorf("report: figure %s: %w", f.Name, err)
		}
	}
	return nil
}
