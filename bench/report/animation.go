package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"math"

	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Animation is an episode as a looping GIF.
type Animation struct {
	Name, Title string
	caption     string
	GIF         []byte
}

// What an animation may be.
const (
	maxAnimation = 1 << 20 // bytes
	maxFrames    = 90
	hold         = 200 // hundredths of a second after arrival
	longest      = 900 // hundredths of a second until arrival; longer episodes are shown faster,
	shortest     = 300 // and shorter ones slower
	leastDelay   = 4   // hundredths of a second: some viewers slow down what is faster
	frameDPI     = 80
	panelHeight  = 1.8 * vg.Inch // of time lines
)

// Animation is the first episode of a trace: as its case draws it, or its time lines. It ends
// two seconds after arrival: when the bodies, or the states, are where they stay.
func (r *Records) Animation(ctx context.Context, t *Trace) (*Animation, error) {
	if len(t.Episodes) == 0 || len(t.Episodes[0].Lines) == 0 {
		return nil, nil
	}
	seconds := r.seconds(t)
	title := func(k int) string {
		if seconds == 0 {
			return fmt.Sprintf("%s, %s: decision %d", t.Header.Case, t.Header.Method, k)
		}
		return fmt.Sprintf("%s, %s: %s", t.Header.Case, t.Header.Method, duration(seconds*float64(k), seconds*float64(len(t.Episodes[0].Lines))))
	}
	a := &Animation{Name: t.Header.Case + "-" + t.Header.Method, Title: fmt.Sprintf("%s by %s, in motion", t.Header.Case, t.Header.Method)}
	m, err := r.motion(t, &t.Episodes[0])
	var frame func(k int) []*Figure
	var arrival, last int
	if m != nil && err == nil {
		a.caption = fmt.Sprintf("Episode %d: goals are dashed, trails are where bodies have been.", t.Episodes[0].Episode)
		arrival, last = m.arrival, len(m.shapes)-1
		frame = func(k int) []*Figure { return []*Figure{m.figure("frame", title(k), k)} }
	} else {
		panels := r.panels(t)
		a.caption = fmt.Sprintf("Episode %d: time lines up to the present.", t.Episodes[0].Episode)
		arrival, last = settled(t.Episodes[0].Lines), len(t.Episodes[0].Lines)-1
		shown := stacked(panels)
		frame = func(k int) (figures []*Figure) {
			for i, p := range shown {
				head := ""
				if i == 0 {
					head = title(k + 1)
				}
				f := p.figure("frame", head, k+1)
				f.Height, f.plot.Y.Tick.Marker = panelHeight, evenly{2}
				figures = append(figures, f)
			}
			return figures
		}
		if err != nil {
			a.caption += fmt.Sprintf(" It cannot be replayed here: %v.", err)
		}
	}
	for frames := maxFrames; ; frames /= 2 {
		a.GIF, err = film(ctx, frame, arrival, last, frames, seconds)
		if err != nil {
			return nil, fmt.Errorf("report: animation of %s: %w", a.Name, err)
		}
		if len(a.GIF) <= maxAnimation {
			return a, nil
		}
		if frames < 2 {
			return nil, fmt.Errorf("report: animation of %s: a picture alone is of %d bytes, an animation has at most %d", a.Name, len(a.GIF), maxAnimation)
		}
	}
}

// film shows at most so many frames until arrival, and goes on for hold after it.
func film(ctx context.Context, frame func(k int) []*Figure, arrival, last, frames int, seconds float64) ([]byte, error) {
	stride := max(1, (arrival+frames-1)/frames)
	until := min(max(100*seconds*float64(arrival), shortest), longest)
	delay := min(hold, max(leastDelay, int(math.Round(until*float64(stride)/float64(max(1, arrival))))))
	m := movie{ctx: ctx}
	for k := 0; k < arrival; k += stride {
		m.add(delay, frame(k)...)
	}
	after := 0 // hundredths of a second since arrival
	for k := arrival; k <= last && after+delay <= hold; k += stride {
		m.add(delay, frame(k)...)
		after += delay
	}
	if m.err == nil {
		m.out.Delay[len(m.out.Delay)-1] += hold - after
	}
	return m.encode()
}

// duration is a time in the unit of a whole one.
func duration(seconds, whole float64) string {
	per, unit := timeUnit(whole)
	return fmt.Sprintf("%.*f %s", map[string]int{"s": 2, "min": 1, "h": 1}[unit], seconds/per, unit)
}

// movie is a looping GIF of which every frame holds only what changed.
type movie struct {
	ctx  context.Context
	out  gif.GIF
	last *image.Paletted // the whole picture of the last frame
	err  error           // of the first figure that has one, or of ctx

	nearest map[color.RGBA]uint8 // place in framePalette of each colour so far
}

// add appends figures, one above the other, shown for a delay in hundredths of a second. All
// frames have to be of one size.
func (m *movie) add(delay int, figures ...*Figure) {
	if m.err = cmp.Or(m.err, m.ctx.Err()); m.err != nil {
		return
	}
	var width, height vg.Length
	for _, f := range figures {
		w, h := f.size()
		width, height = max(width, w), height+h
		m.err = cmp.Or(m.err, f.err)
	}
	c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(frameDPI))
	page := vgdraw.New(c)
	for _, f := range figures {
		w, h := f.size()
		f.Width += width - w
		part := page
		part.Min.Y = part.Max.Y - h
		f.draw(part)
		page.Max.Y = part.Min.Y
	}
	picture := c.Image()
	whole := m.paletted(picture)
	frame := whole
	if m.last != nil {
		frame = m.change(whole)
	}
	m.last = whole
	m.out.Image, m.out.Delay, m.out.Disposal = append(m.out.Image, frame), append(m.out.Delay, delay), append(m.out.Disposal, gif.DisposalNone)
}

// paletted gives the picture in the colours of framePalette that are nearest to its own. A
// figure has few colours, so that each is looked up once in a movie and not once a pixel.
func (m *movie) paletted(picture image.Image) *image.Paletted {
	whole := image.NewPaletted(picture.Bounds(), framePalette)
	source, ok := picture.(*image.RGBA)
	if !ok {
		draw.Draw(whole, whole.Rect, picture, whole.Rect.Min, draw.Src)
		return whole
	}
	if m.nearest == nil {
		m.nearest = map[color.RGBA]uint8{}
	}
	var last color.RGBA
	var index uint8
	for y := whole.Rect.Min.Y; y < whole.Rect.Max.Y; y++ {
		row := whole.Pix[whole.PixOffset(whole.Rect.Min.X, y):][:whole.Rect.Dx()]
		from := source.Pix[source.PixOffset(whole.Rect.Min.X, y):]
		for x := range row {
			p := from[4*x : 4*x+4 : 4*x+4]
			if c := (color.RGBA{p[0], p[1], p[2], p[3]}); c != last {
				var known bool
				if index, known = m.nearest[c]; !known {
					index = uint8(framePalette.Index(c))
					m.nearest[c] = index
				}
				last = c
			}
			row[x] = index
		}
	}
	return whole
}

// change is the part of a picture that differs from the last one, transparent where
// it does not.
func (m *movie) change(whole *image.Paletted) *image.Paletted {
	var box image.Rectangle
	for y := whole.Rect.Min.Y; y < whole.Rect.Max.Y; y++ {
		for x := whole.Rect.Min.X; x < whole.Rect.Max.X; x++ {
			if whole.ColorIndexAt(x, y) != m.last.ColorIndexAt(x, y) {
				box = box.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	if box.Empty() {
		box = image.Rectangle{whole.Rect.Min, whole.Rect.Min.Add(image.Pt(1, 1))}
	}
	part := image.NewPaletted(box, framePalette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			index := whole.ColorIndexAt(x, y)
			if index == m.last.ColorIndexAt(x, y) {
				index = transparent
			}
			part.SetColorIndex(x, y, index)
		}
	}
	return part
}

func (m *movie) encode() ([]byte, error) {
	if m.err != nil {
		return nil, m.err
	}
	var data bytes.Buffer
	err := gif.EncodeAll(&data, &m.out)
	return data.Bytes(), err
}

// transparent is the place of no colour in framePalette.
const transparent = 0

// framePalette is no colour, greys, and four steps of each figure colour towards
// white.
var framePalette = func() color.Palette {
	p := color.Palette{color.RGBA{}}
	for g := range 64 {
		p = append(p, color.Gray{uint8(g * 255 / 63)})
	}
	for _, c := range palette {
		for k := range 4 {
			mix := func(v uint8) uint8 { return uint8(int(v) + (255-int(v))*k/4) }
			p = append(p, color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255})
		}
		p = append(p, faint(c))
	}
	return p
}()
