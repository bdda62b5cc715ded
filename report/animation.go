package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"

	"github.com/google/renameio/v2"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// frameDelay between frames, hundredths of a second.
const frameDelay = 15

// Animate writes the first episode of a planar trace as a looping GIF: the
// ellipse or the obstacles where they are at each decision, and the paths so far. A trace without a
// plane writes nothing and reports false.
func Animate(t Trace, path string) (bool, error) {
	if a, s, ok := readArena(t); ok {
		return true, animateArena(t, a, s, path)
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
	out := gif.GIF{}
	xs, ys := []float64{scene.Q0[0]}, []float64{scene.Q0[1]}
	for i, l := range ep.Lines {
		f := newFigure("frame", fmt.Sprintf("%s, t = %d: σ = (%.2f, %.2f)", t.Header.Case, l.T, l.Sigma[0], l.Sigma[1]), "q₁, m", "q₂, m")
		f.plot.X.Min, f.plot.X.Max, f.plot.Y.Min, f.plot.Y.Max = -4.5, 4, -2.2, 2.2
		ex, ey := p.outline(scene.P[i])
		if err := f.fill(colour(6), ex, ey); err != nil {
			return false, err
		}
		xs, ys = append(xs, l.S[0]), append(ys, l.S[1])
		if err := f.line("", colour(0), false, xs, ys); err != nil {
			return false, err
		}
		if err := f.point("", colour(1), vgdraw.CircleGlyph{}, l.S[0], l.S[1]); err != nil {
			return false, err
		}
		if err := f.point("goal", colour(2), vgdraw.PyramidGlyph{}, p.Goal[0], p.Goal[1]); err != nil {
			return false, err
		}
		c := vgimg.NewWith(vgimg.UseWH(5.2*vg.Inch, 3.2*vg.Inch), vgimg.UseDPI(80))
		f.plot.Draw(vgdraw.New(c))
		frame := image.NewPaletted(c.Image().Bounds(), framePalette())
		draw.Draw(frame, frame.Bounds(), c.Image(), image.Point{}, draw.Src)
		out.Image, out.Delay = append(out.Image, frame), append(out.Delay, frameDelay)
	}
	out.Delay[len(out.Delay)-1] = 100
	var data bytes.Buffer
	if err := gif.EncodeAll(&data, &out); err != nil {
		return false, fmt.Errorf("report: animation of %s: %w", t.Header.Case, err)
	}
	if err := renameio.WriteFile(path, data.Bytes(), 0o644); err != nil {
		return false, fmt.Errorf("report: animation of %s: %w", t.Header.Case, err)
	}
	return true, nil
}

// framePalette is greys and four steps of each figure colour towards white.
func framePalette() color.Palette {
	var p color.Palette
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
}
