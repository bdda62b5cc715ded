package draw

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Motion is an episode in pictures: the shapes at its start and after every decision.
type Motion struct {
	Shapes  [][]domain.Shape
	lo, hi  [2]float64 // of all of them
	Arrival int        // the first picture by which every body has been at its goal, or else from which on all stay where they end
}

// near is how far from its end a body may be when it has arrived, as a share of the
// picture's diagonal.
const near = 0.02

// NewMotion finds the bounds and the arrival. Pictures that cannot be drawn are an error.
func NewMotion(shapes [][]domain.Shape) (*Motion, error) {
	m := &Motion{Shapes: shapes}
	if err := m.measure(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Motion) measure() error {
	m.lo, m.hi = [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for k, shapes := range m.Shapes {
		if len(shapes) != len(m.Shapes[0]) {
			return fmt.Errorf("picture %d has %d shapes, the first has %d", k, len(shapes), len(m.Shapes[0]))
		}
		for i, s := range shapes {
			if err := s.Validate(); err != nil {
				return fmt.Errorf("picture %d, shape %d: %w", k, i, err)
			}
			for _, p := range s.Path {
				for a, v := range p {
					if math.Abs(v)+s.Radius > drawnReach {
						return fmt.Errorf("picture %d, shape %d is at %v, beyond what can be drawn", k, i, p)
					}
					m.lo[a], m.hi[a] = min(m.lo[a], v-s.Radius), max(m.hi[a], v+s.Radius)
				}
			}
		}
	}
	if m.Arrival = m.reached(); m.Arrival >= 0 {
		return nil
	}
	diagonal := math.Hypot(m.hi[0]-m.lo[0], m.hi[1]-m.lo[1])
	last := m.Shapes[len(m.Shapes)-1]
	for m.Arrival = len(m.Shapes) - 1; m.Arrival > 0; m.Arrival-- {
		for i, s := range m.Shapes[m.Arrival-1] {
			for j, p := range s.Path {
				if end := last[i].Path; s.Role == domain.Body && math.Hypot(p[0]-end[min(j, len(end)-1)][0], p[1]-end[min(j, len(end)-1)][1]) > near*diagonal {
					return nil
				}
			}
		}
	}
	return nil
}

// reached is the first picture by which the disc of every body with a goal has been within it; −1
// where there is none, or one does not come there.
func (m *Motion) reached() int {
	first := -1
	bodies, d := m.Distances()
	for i := range bodies {
		at := slices.IndexFunc(d[i], func(v float64) bool { return v <= m.goal(bodies[i]) })
		if at < 0 {
			return -1
		}
		first = max(first, at)
	}
	return first
}

// goal is the radius of a body's goal.
func (m *Motion) goal(of int) float64 {
	for _, s := range m.Shapes[0] {
		if s.Role == domain.Goal && s.Of == of && len(s.Path) == 1 {
			return s.Radius
		}
	}
	return 0
}

// Until is the picture hold after arrival, or the last.
func (m *Motion) Until(seconds float64) int {
	last := len(m.Shapes) - 1
	if seconds == 0 {
		return last
	}
	return min(last, m.Arrival+int(hold/seconds))
}

// A picture is as high as its motion wants within these bounds.
const (
	pictureLeast   = 150
	pictureTallest = Width
)

// stage is the figure that pictures stand in.
func (m *Motion) stage(name, title string) *Figure {
	f := New(name, title, Along("x", "m"), Along("y", "m"))
	margin := 0.04 * max(m.hi[0]-m.lo[0], m.hi[1]-m.lo[1])
	p := f.Plot
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = m.lo[0]-margin, m.hi[0]+margin, m.lo[1]-margin, m.hi[1]+margin
	const axes = 36 // about what labels take
	f.Height = min(max(pictureLeast, (f.Width-axes)*vg.Length((p.Y.Max-p.Y.Min)/(p.X.Max-p.X.Min))+axes), pictureTallest)
	f.equalAspect()
	return f
}

// ghosts is how many pictures of the way a figure shows.
const ghosts = 5

// Figure is picture k with the trails up to it, and the bodies faintly where they were on the way. Robots have their
// numbers.
func (m *Motion) Figure(name, title string, k int) *Figure {
	f := m.stage(name, title)
	for _, role := range []domain.Role{domain.Ground, domain.Obstacle} {
		f.shapes(m.Shapes[k], role, false)
	}
	for g := range ghosts {
		f.shapes(m.Shapes[m.Arrival*g/ghosts], domain.Body, true)
	}
	m.Trails(f, k, false)
	f.shapes(m.Shapes[k], domain.Goal, false)
	f.shapes(m.Shapes[k], domain.Body, false)
	for _, s := range m.Shapes[k] {
		if s.Role == domain.Body && len(s.Path) == 1 && m.Robots() > 1 {
			f.words.add(fmt.Sprint(s.Of), plotter.XY{X: s.Path[0][0], Y: s.Path[0][1]})
		}
	}
	return f
}

// Robots are how many bodies have goals.
func (m *Motion) Robots() int {
	bodies, _ := m.Distances()
	return len(bodies)
}

// Trails draws where the centres of the bodies' discs have been up to picture k.
func (m *Motion) Trails(f *Figure, k int, pale bool) {
	for i, s := range m.Shapes[0] {
		if s.Role != domain.Body || len(s.Path) != 1 {
			continue
		}
		var xs, ys []float64
		for _, shapes := range m.Shapes[:k+1] {
			xs, ys = append(xs, shapes[i].Path[0][0]), append(ys, shapes[i].Path[0][1])
		}
		c := Body(s.Of)
		if pale {
			c = Faint(c)
		}
		f.Line("", c, false, xs, ys)
	}
}

// shapes draws those of one role; pale ones are of another time.
func (f *Figure) shapes(shapes []domain.Shape, role domain.Role, pale bool) {
	for _, s := range shapes {
		if s.Role != role {
			continue
		}
		c, inside, filled := look(&s)
		if pale {
			c = Faint(c)
		}
		var xs, ys []float64
		if len(s.Path) == 1 {
			xs, ys = circle(s.Path[0][0], s.Path[0][1], s.Radius)
		} else {
			for _, p := range s.Path {
				xs, ys = append(xs, p[0]), append(ys, p[1])
			}
		}
		if filled && !pale {
			f.fill(c, inside, xs, ys)
		} else {
			f.Line("", c, role == domain.Goal, xs, ys)
		}
	}
}

// look is how a shape is drawn: its line, and what it is filled with where it is.
func look(s *domain.Shape) (line, inside color.RGBA, filled bool) {
	line = Colour(Grey)
	if s.Role == domain.Body || s.Role == domain.Goal {
		line = Body(s.Of)
	}
	inside = line
	if s.Role == domain.Obstacle {
		inside = Faint(line)
	}
	closed := len(s.Path) == 1 || s.Path[0] == s.Path[len(s.Path)-1]
	return line, inside, closed && (s.Role == domain.Body || s.Role == domain.Obstacle)
}

// Distances are those of every body's disc from the goal of its number, by body; nil where
// there are none.
func (m *Motion) Distances() (bodies []int, d [][]float64) {
	for g, goal := range m.Shapes[0] {
		if goal.Role != domain.Goal || len(goal.Path) != 1 {
			continue
		}
		for b, disc := range m.Shapes[0] {
			if disc.Role != domain.Body || len(disc.Path) != 1 || disc.Of != goal.Of {
				continue
			}
			var along []float64
			for _, s := range m.Shapes {
				along = append(along, math.Hypot(s[b].Path[0][0]-s[g].Path[0][0], s[b].Path[0][1]-s[g].Path[0][1]))
			}
			bodies, d = append(bodies, disc.Of), append(d, along)
			break
		}
	}
	return bodies, d
}

// circle is a closed outline.
func circle(x, y, r float64) (xs, ys []float64) {
	const edges = 36
	for k := range edges + 1 {
		s, c := math.Sincos(2 * math.Pi * float64(k) / edges)
		xs, ys = append(xs, x+r*c), append(ys, y+r*s)
	}
	return xs, ys
}
