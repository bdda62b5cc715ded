package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/gpc-engine/gpc/internal/durable"
)

// Palette of the figures: Okabe and Ito's, which stays distinct for colour-blind
// readers.
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
	Width, Height vg.Length
	plot          *plot.Plot
	err           error // the first of what was added, which SVG and Write return
}

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
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Title.Padding = 6
	p.BackgroundColor = color.White
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size = 10
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{230}, color.Gray{230}
	p.Add(grid)
	return &Figure{Name: name, Title: title, Width: 5.2 * vg.Inch, Height: 3.8 * vg.Inch, plot: p}
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
	if label != "" {
		f.plot.Legend.Add(label, l)
	}
}

// points adds a series of markers; those that are not finite are left out.
func (f *Figure) points(label string, c color.RGBA, shape draw.GlyphDrawer, xs, ys []float64) {
	if s := f.markers(c, 3, shape, f.drawable(xs, ys)); s != nil {
		f.plot.Legend.Add(label, s)
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

// point adds one marker with an optional label beside it.
func (f *Figure) point(label string, c color.RGBA, shape draw.GlyphDrawer, x, y float64) {
	pts := f.drawable([]float64{x}, []float64{y})
	if f.markers(c, 4, shape, pts) == nil || label == "" {
		return
	}
	text, err := plotter.NewLabels(plotter.XYLabels{XYs: pts, Labels: []string{label}})
	if f.fail(err) {
		return
	}
	text.Offset = vg.Point{X: vg.Points(6), Y: vg.Points(3)}
	for i := range text.TextStyle {
		text.TextStyle[i].Font.Size = 9
	}
	f.plot.Add(text)
}

// errorBar adds a vertical bar from lo to hi.
func (f *Figure) errorBar(c color.RGBA, x, lo, hi float64) {
	f.line("", c, false, []float64{x, x}, []float64{lo, hi})
}

// fill adds a closed outline with a light interior.
func (f *Figure) fill(c color.RGBA, xs, ys []float64) {
	poly, err := plotter.NewPolygon(f.drawable(xs, ys))
	if f.fail(err) {
		return
	}
	poly.Color, poly.LineStyle.Color, poly.LineStyle.Width = faint(c), c, vg.Points(0.8)
	f.plot.Add(poly)
}

func (f *Figure) logX() { f.plot.X.Scale, f.plot.X.Tick.Marker = plot.LogScale{}, decades{} }
func (f *Figure) logY() { f.plot.Y.Scale, f.plot.Y.Tick.Marker = plot.LogScale{}, decades{} }

// decades marks powers of ten with labels and their multiples without.
type decades struct{}

func (decades) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	if !(lo > 0) {
		return ticks
	}
	from, to := math.Floor(math.Log10(lo)), math.Ceil(math.Log10(hi))
	for e := from; e <= to; e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || to-from <= 1 && (m == 2 || m == 5) {
				t.Label = fmt.Sprintf("%g", v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
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

// draw renders the figure. An axis without a range, or of one too small to be labelled, gets
// another: the plot's own would pass zero where it is logarithmic.
func (f *Figure) draw(c vg.CanvasSizer) {
	for _, a := range []*plot.Axis{&f.plot.X, &f.plot.Y} {
		if !(a.Min <= a.Max) { // nothing is drawn
			a.Min, a.Max = 1, 2
		}
		a.Min, a.Max = math.Max(a.Min, -drawnReach), math.Min(a.Max, drawnReach)
		if a.Max-a.Min > drawnShare*math.Max(math.Abs(a.Min), math.Abs(a.Max)) {
			continue
		}
		if _, logarithmic := a.Scale.(plot.LogScale); logarithmic {
			a.Min, a.Max = a.Min/2, a.Max*2
		} else {
			wider := 1 + drawnShare*math.Abs(a.Min)
			a.Min, a.Max = a.Min-wider, a.Max+wider
		}
	}
	f.plot.Draw(draw.New(c))
}

// SVG renders the figure.
func (f *Figure) SVG() ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	c := vgsvg.New(f.Width, f.Height)
	f.draw(c)
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("report: figure %s: %w", f.Name, err)
	}
	return out.Bytes(), nil
}

// Write writes dir/NAME.svg and dir/NAME.png.
func (f *Figure) Write(dir string) error {
	svg, err := f.SVG()
	if err != nil {
		return err
	}
	c := vgimg.NewWith(vgimg.UseWH(f.Width, f.Height), vgimg.UseDPI(144))
	f.draw(c)
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
