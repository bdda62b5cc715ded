package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"

	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gpc-engine/gpc/internal/durable"
)

// frameDelay between frames, hundredths of a second.
const frameDelay = 15

// Animate writes the first episode of a planar trace as a looping GIF: the
// ellipse or the obstacles where they are at each decision, and the paths so far. A trace without a
// plane writes nothing and reports false.
func Animate(ctx context.Context, t Trace, path string) (bool, error) {
	if a, s, ok := readArena(t); ok {
		return true, animateArena(ctx, t, a, s, path)
	}
	p, ok := readPlane(t)
	if !ok || len(t.Episodes) == 0 {
		return false, nil
	}
	ep := t.Episodes[0]
	var scene planeScene
	if err := json.Unmarshal(ep.Scene, &scene); err != nil || len(scene.P) < len(ep.Lines) {
		return false, fmt.Errorf("report: trace of %s: the first scene has no operating parameter for every step", t.Header.Case)
	}
	m := movie{ctx: ctx}
	xs, ys := []float64{scene.Q0[0]}, []float64{scene.Q0[1]}
	for i, l := range ep.Lines {
		f := newFigure("frame", fmt.Sprintf("%s, t = %d: σ = (%.2f, %.2f)", t.Header.Case, l.T, l.Sigma[0], l.Sigma[1]), "q₁, m", "q₂, m")
		f.plot.X.Min, f.plot.X.Max, f.plot.Y.Min, f.plot.Y.Max = -4.5, 4, -2.2, 2.2
		ex, ey := p.outline(scene.P[i])
		f.fill(colour(6), ex, ey)
		xs, ys = append(xs, l.S[0]), append(ys, l.S[1])
		f.line("", colour(0), false, xs, ys)
		f.point("", colour(1), vgdraw.CircleGlyph{}, l.S[0], l.S[1])
		f.point("goal", colour(2), vgdraw.PyramidGlyph{}, p.Goal[0], p.Goal[1])
		f.Height = 3.2 * vg.Inch
		m.add(f, 80, frameDelay)
	}
	return true, m.write(t, path, 100)
}

// movie is a looping GIF of which every frame holds only what changed.
type movie struct {
	ctx  context.Context
	out  gif.GIF
	last *image.Paletted // the whole picture of the last frame
	err  error           // of the first figure that has one, or of ctx
}

// add appends a figure, shown for a delay in hundredths of a second. All have to
// be of one size.
func (m *movie) add(f *Figure, dpi, delay int) {
	if m.err = cmp.Or(m.err, f.err, m.ctx.Err()); m.err != nil {
		return
	}
	c := vgimg.NewWith(vgimg.UseWH(f.Width, f.Height), vgimg.UseDPI(dpi))
	f.draw(c)
	picture := c.Image()
	whole := image.NewPaletted(picture.Bounds(), framePalette)
	draw.Draw(whole, whole.Bounds(), picture, picture.Bounds().Min, draw.Src)
	frame := whole
	if m.last != nil {
		frame = m.change(whole)
	}
	m.last = whole
	m.out.Image, m.out.Delay, m.out.Disposal = append(m.out.Image, frame), append(m.out.Delay, delay), append(m.out.Disposal, gif.DisposalNone)
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

// write ends the movie, whose last frame stays for a longer delay.
func (m *movie) write(t Trace, path string, delay int) error {
	var data bytes.Buffer
	err := m.err
	if err == nil {
		m.out.Delay[len(m.out.Delay)-1] = delay
		err = gif.EncodeAll(&data, &m.out)
	}
	if err == nil {
		err = durable.WriteFile(path, data.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: animation of %s: %w", t.Header.Case, err)
	}
	return nil
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
