package draw

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"gonum.org/v1/plot/plotter"
)

// The first six colours are those of the live page, light and dark, and so is what bodies have there.
func TestTheColoursAreTheLivePages(t *testing.T) {
	style := string(require.Get(os.ReadFile("../../view/ui/src/app.css"))(t))
	dark, light, found := strings.Cut(style, `:root[data-theme="light"]`)
	if !found {
		t.Fatal("app.css has no light colours")
	}
	for i, c := range tints[:Grey] {
		for part, want := range map[string]color.RGBA{dark: c.dark, light: c.light} {
			if text := fmt.Sprintf("--c%d: %s;", i, strings.ToLower(css(want))); !strings.Contains(part, text) {
				t.Errorf("app.css does not have %s", text)
			}
		}
	}
	for light, dark := range twins {
		if light == dark {
			t.Errorf("%s is its own twin", light)
		}
	}
}

// A body that has been at its goal has arrived, even if it leaves it.
func TestArrivalIsTheFirstTimeAtAllGoals(t *testing.T) {
	at := func(x, y float64) []domain.Shape {
		a, b, goalA, goalB := domain.Disc(domain.Body, x, 0, 0.1), domain.Disc(domain.Body, y, 1, 0.1), domain.Disc(domain.Goal, 5, 0, 0.2), domain.Disc(domain.Goal, 5, 1, 0.2)
		b.Of, goalB.Of = 1, 1
		return []domain.Shape{goalA, a, goalB, b}
	}
	m := require.Get(NewMotion([][]domain.Shape{at(0, 0), at(5, 2), at(3, 5.1), at(0, 0), at(3, 3)}))(t)
	if m.Arrival != 2 {
		t.Errorf("arrival is picture %d, want 2", m.Arrival)
	}
	m = require.Get(NewMotion([][]domain.Shape{at(0, 0), at(4, 4), at(4.01, 4), at(4, 4.01)}))(t) // never there, at rest from picture 1
	if m.Arrival != 1 {
		t.Errorf("arrival is picture %d, want 1", m.Arrival)
	}
	if _, err := NewMotion([][]domain.Shape{at(0, 0), at(math.NaN(), 4)}); err == nil {
		t.Error("a picture of NaN was taken")
	}
}

// A film stays under its size and ends two seconds after arrival, whether it shows pictures or time lines; it stands
// still for who wants less motion.
func TestFilmsEndSoonAfterArrival(t *testing.T) {
	const decisions, seconds = 3000, 0.02
	var pictures [][]domain.Shape
	var states [][]float64
	for k := range decisions {
		x := math.Exp(-float64(k) / 20)
		pictures = append(pictures, []domain.Shape{domain.Disc(domain.Goal, 0, 0, 0.1), domain.Disc(domain.Body, x, 0, 0.05)})
		states = append(states, []float64{x})
	}
	m := require.Get(NewMotion(pictures))(t)
	time, clock := Clock(seconds, decisions)
	panel := Panel{Axis: "states", Names: []string{"x"}, Values: [][]float64{make([]float64, decisions)}, Time: time, Clock: clock}
	for k, s := range states {
		panel.Values[0][k] = s[0]
	}
	settled := Settled(states)
	if m.Arrival != 47 || settled < 50 || settled > 100 {
		t.Fatalf("the body arrives in picture %d, and its state is settled at decision %d", m.Arrival, settled)
	}
	for name, c := range map[string]struct {
		film    *Film
		arrival int
	}{"pictures": {Pictures(m, seconds), m.Arrival}, "time lines": {TimeLines([]Panel{panel}, settled, seconds), settled}} {
		svg := require.Get(c.film.SVG())(t)
		if len(svg) > maxAnimation || !bytes.Contains(svg, []byte("prefers-reduced-motion")) {
			t.Errorf("%s: %d bytes", name, len(svg))
		}
		until := min(max(seconds*float64(c.arrival), shortest), longest)
		changes := regexp.MustCompile(`<animate[^>]* dur="([0-9.]+)s"[^>]* values="([^"]*)"`).FindAllSubmatch(svg, -1)
		if len(changes) == 0 {
			t.Errorf("%s: nothing moves", name)
		}
		for _, change := range changes {
			lasts := require.Get(strconv.ParseFloat(string(change[1]), 64))(t)
			frames := bytes.Count(change[2], []byte(";"))
			atArrival := float64(frames) * until / lasts
			stride := (c.arrival + maxFrames - 1) / maxFrames
			if math.Abs(lasts-until-hold) > 0.01 || math.Abs(atArrival-float64(c.arrival)/float64(stride)) > 1 {
				t.Errorf("%s: %v s in %d frames, want %v until arrival at %d and %v after it", name, lasts, frames, until, c.arrival, hold)
			}
		}
	}
}

// A long line keeps its ends and its extremes.
func TestALongLineKeepsItsExtremes(t *testing.T) {
	pts := make(plotter.XYs, 10_000)
	for i := range pts {
		pts[i].X = float64(i)
	}
	pts[4321].Y, pts[8765].Y = 7, -7
	out := thinned(pts)
	lowest, highest := slices.MinFunc(out, byHeight), slices.MaxFunc(out, byHeight)
	if len(out) > mostPoints+2 || out[0] != pts[0] || out[len(out)-1] != pts[len(pts)-1] || lowest != pts[8765] || highest != pts[4321] {
		t.Errorf("%d points from %v to %v, between %v and %v", len(out), out[0], out[len(out)-1], lowest, highest)
	}
	if !slices.IsSortedFunc(out, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) }) {
		t.Error("it goes back")
	}
}

func byHeight(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }
