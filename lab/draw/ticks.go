package draw

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// decades are the ticks of a logarithmic axis: powers of ten with labels, and their
// multiples without. An axis of fewer than two decades has labels at 1, 2 and 5 too, and one
// too short for these evenly spaced ones.
type decades struct{}

// An axis has at least wantedLabels where it can, and labels of powers of ten at most
// maxLabels.
const (
	wantedLabels = 3
	maxLabels    = 7
)

// Ticks implements plot.Ticker.
func (decades) Ticks(lo, hi float64) []plot.Tick {
	if !(lo > 0) || !(hi > lo) {
		return nil
	}
	from, to := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	stride := 1 + (to-from)/maxLabels
	for _, labelled := range [][]int{{1}, {1, 2, 5}} {
		var ticks []plot.Tick
		labels := 0
		for e := from; e <= to; e++ {
			for m := 1; m < 10; m++ {
				t := plot.Tick{Value: float64(m) * math.Pow10(e)}
				if t.Value < lo*(1-1e-9) || t.Value > hi*(1+1e-9) {
					continue
				}
				if slices.Contains(labelled, m) && e%stride == 0 {
					t.Label = short(t.Value)
					labels++
				}
				ticks = append(ticks, t)
			}
		}
		if labels >= wantedLabels {
			return ticks
		}
	}
	return evenly{leastEven}.Ticks(lo, hi)
}

// short is a number in few characters: thousands and millions by their letter.
func short(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	switch a := math.Abs(v); {
	case a >= 1e9:
	case a >= 1e6:
		text = strconv.FormatFloat(v/1e6, 'g', -1, 64) + "M"
	case a >= 1e4:
		text = strconv.FormatFloat(v/1e3, 'g', -1, 64) + "k"
	}
	return strings.Replace(text, "e-0", "e-", 1)
}

// evenly are the ticks of a linear axis: labels at multiples of 1, 2 or 5 times a power of ten,
// as wide apart as leaves at least so many of them, and ticks between.
type evenly struct{ least float64 }

// leastEven is that of an axis of an ordinary figure.
const leastEven = 4

// Ticks implements plot.Ticker.
func (y evenly) Ticks(lo, hi float64) []plot.Tick {
	if !(hi > lo) || math.IsInf(hi-lo, 0) {
		return nil
	}
	for e := int(math.Ceil(math.Log10(hi - lo))); ; e-- {
		for _, m := range []float64{5, 2, 1} {
			step := m * math.Pow10(e)
			from, to := math.Ceil(lo/step-1e-9), math.Floor(hi/step+1e-9)
			if to-from+1 < y.least {
				continue
			}
			between := map[float64]float64{5: 5, 2: 2, 1: 2}[m]
			var ticks []plot.Tick
			for k := (from - 1) * between; k <= (to+1)*between; k++ {
				t := plot.Tick{Value: k / between * step}
				if t.Value < lo-1e-9*step || t.Value > hi+1e-9*step {
					continue
				}
				if math.Mod(k, between) == 0 {
					if t.Label = strconv.FormatFloat(t.Value+0, 'f', max(0, -e), 64); e < -5 || e > 2 { // + 0: no negative zero
						t.Label = short(t.Value)
					}
				}
				ticks = append(ticks, t)
			}
			return ticks
		}
	}
}

// tags are words beside markers, each where it covers no other word and no marker.
type tags struct {
	at      plotter.XYs
	words   []string
	plotted bool
}

// add adds a word; an empty one keeps the place of its marker free.
func (t *tags) add(word string, at plotter.XY) {
	t.at, t.words = append(t.at, at), append(t.words, word)
}

// Plot implements plot.Plotter.
func (t *tags) Plot(c draw.Canvas, p *plot.Plot) {
	style := p.Legend.TextStyle
	x, y := p.Transforms(&c)
	var taken []vg.Rectangle
	place := func(k int) vg.Point { return vg.Point{X: x(t.at[k].X), Y: y(t.at[k].Y)} }
	for k := range t.at {
		m := place(k)
		taken = append(taken, vg.Rectangle{Min: m.Sub(vg.Point{X: markerRadius, Y: markerRadius}), Max: m.Add(vg.Point{X: markerRadius, Y: markerRadius})})
	}
	for k, word := range t.words {
		if word == "" {
			continue
		}
		m, size := place(k), style.Rectangle(word).Size()
		best, least := vg.Rectangle{}, math.Inf(1)
		for _, away := range []vg.Length{3, 10, 18, 28, 40} {
			for _, side := range [][2]vg.Length{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
				centre := m.Add(vg.Point{X: side[0] * (markerRadius + away + size.X/2), Y: side[1] * (markerRadius + away + size.Y/2)})
				box := vg.Rectangle{Min: centre.Sub(size.Scale(0.5)), Max: centre.Add(size.Scale(0.5))}
				// Off the plot is worse than over something, and far worse than farther away.
				cost := float64(away) + 1e3*float64(size.X*size.Y-overlap(box, c.Rectangle))
				for _, other := range taken {
					cost += 10 * float64(overlap(box, other))
				}
				if cost < least {
					best, least = box, cost
				}
			}
		}
		if from := nearest(best, m); math.Hypot(float64(from.X-m.X), float64(from.Y-m.Y)) > 2*markerRadius {
			c.StrokeLine2(draw.LineStyle{Color: Faint(ink.light), Width: vg.Points(0.5)}, m.X, m.Y, from.X, from.Y)
		}
		taken = append(taken, best)
		c.FillText(style, best.Min.Sub(style.Rectangle(word).Min), word)
	}
}

// overlap is the area that two rectangles share.
func overlap(a, b vg.Rectangle) vg.Length {
	w, h := min(a.Max.X, b.Max.X)-max(a.Min.X, b.Min.X), min(a.Max.Y, b.Max.Y)-max(a.Min.Y, b.Min.Y)
	return max(0, w) * max(0, h)
}

// nearest is the point of a rectangle that is nearest to p.
func nearest(r vg.Rectangle, p vg.Point) vg.Point {
	return vg.Point{X: min(max(p.X, r.Min.X), r.Max.X), Y: min(max(p.Y, r.Min.Y), r.Max.Y)}
}
