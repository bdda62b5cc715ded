package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// motion is an episode in pictures: the shapes at its start and after every decision.
type motion struct {
	shapes  [][]domain.Shape
	lo, hi  [2]float64 // of all of them
	arrival int        // the first picture by which every body has been at its goal, or else from which on all stay where they end
}

// near is how far from its end a body may be when it has arrived, as a share of the
// picture's diagonal.
const near = 0.02

// motion replays an episode of a trace; nil where its case draws nothing. The error says why
// it cannot be replayed.
func (r *Records) motion(t *Trace, e *closedloop.EpisodeRecord) (*motion, error) {
	definition := r.cases[t.Header.Case].Definition
	if definition.Problem == nil || definition.Plant == nil {
		return nil, nil
	}
	c, _, err := t.Header.On(&definition)
	if err != nil {
		return nil, err
	}
	picture := domain.AbilitiesOfProblem(c.Problem).Picture
	if picture == nil {
		return nil, nil
	}
	ep, err := c.Plant.Replay(t.Header.Params, e.Scene)
	if err != nil {
		return nil, err
	}
	spec, m := c.Problem.Spec(), &motion{}
	s, context, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for k := 0; ; k++ {
		ep.Observe(s, context)
		shapes := picture(s, context)
		if len(shapes) == 0 {
			return nil, nil
		}
		m.shapes = append(m.shapes, shapes)
		if k == len(e.Lines) {
			break
		}
		if len(e.Lines[k].U) > len(u) {
			return nil, fmt.Errorf("decision %d has %d actions, the case has %d", k, len(e.Lines[k].U), len(u))
		}
		copy(u, e.Lines[k].U)
		if _, err := ep.Apply(u); err != nil {
			return nil, fmt.Errorf("decision %d: %w", k, err)
		}
	}
	return m, m.measure()
}

// measure finds the bounds and the arrival.
func (m *motion) measure() error {
	m.lo, m.hi = [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(-1), math.Inf(-1)}
	for k, shapes := range m.shapes {
		if len(shapes) != len(m.shapes[0]) {
			return fmt.Errorf("picture %d has %d shapes, the first has %d", k, len(shapes), len(m.shapes[0]))
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
	if m.arrival = m.reached(); m.arrival >= 0 {
		return nil
	}
	diagonal := math.Hypot(m.hi[0]-m.lo[0], m.hi[1]-m.lo[1])
	last := m.shapes[len(m.shapes)-1]
	for m.arrival = len(m.shapes) - 1; m.arrival > 0; m.arrival-- {
		for i, s := range m.shapes[m.arrival-1] {
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
func (m *motion) reached() int {
	first := -1
	bodies, d := m.distances()
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
func (m *motion) goal(of int) float64 {
	for _, s := range m.shapes[0] {
		if s.Role == domain.Goal && s.Of == of && len(s.Path) == 1 {
			return s.Radius
		}
	}
	return 0
}

// until is the picture hold after arrival, or the last.
func (m *motion) until(seconds float64) int {
	last := len(m.shapes) - 1
	if seconds == 0 {
		return last
	}
	return min(last, m.arrival+int(hold/seconds))
}

// A picture is as high as its motion wants within these bounds.
const (
	pictureLeast   = 150
	pictureTallest = figureWidth
)

// stage is the figure that pictures stand in.
func (m *motion) stage(name, title string) *Figure {
	f := newFigure(name, title, axis{"x", "m"}, axis{"y", "m"})
	margin := 0.04 * max(m.hi[0]-m.lo[0], m.hi[1]-m.lo[1])
	p := f.plot
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = m.lo[0]-margin, m.hi[0]+margin, m.lo[1]-margin, m.hi[1]+margin
	const axes = 36 // about what labels take
	f.Height = min(max(pictureLeast, (f.Width-axes)*vg.Length((p.Y.Max-p.Y.Min)/(p.X.Max-p.X.Min))+axes), pictureTallest)
	f.equalAspect()
	return f
}

// figure is picture k with the trails up to it, and the bodies faintly where they were in
// the pictures of ghosts. Robots have their numbers.
func (m *motion) figure(name, title string, k int, ghosts ...int) *Figure {
	f := m.stage(name, title)
	for _, role := range []domain.Role{domain.Ground, domain.Obstacle} {
		f.shapes(m.shapes[k], role, false)
	}
	for _, g := range ghosts {
		f.shapes(m.shapes[g], domain.Body, true)
	}
	m.trails(f, k, false)
	f.shapes(m.shapes[k], domain.Goal, false)
	f.shapes(m.shapes[k], domain.Body, false)
	for _, s := range m.shapes[k] {
		if s.Role == domain.Body && len(s.Path) == 1 && m.robots() > 1 {
			f.words.add(fmt.Sprint(s.Of), plotter.XY{X: s.Path[0][0], Y: s.Path[0][1]})
		}
	}
	return f
}

// robots are how many bodies have goals.
func (m *motion) robots() int {
	bodies, _ := m.distances()
	return len(bodies)
}

// trails draws where the centres of the bodies' discs have been up to picture k.
func (m *motion) trails(f *Figure, k int, pale bool) {
	for i, s := range m.shapes[0] {
		if s.Role != domain.Body || len(s.Path) != 1 {
			continue
		}
		var xs, ys []float64
		for _, shapes := range m.shapes[:k+1] {
			xs, ys = append(xs, shapes[i].Path[0][0]), append(ys, shapes[i].Path[0][1])
		}
		c := body(s.Of)
		if pale {
			c = faint(c)
		}
		f.line("", c, false, xs, ys)
	}
}

// bodyName is the name of a body among so many with goals: a robot, which has actions of its own, has the number that
// its states, its actions and the live page have.
func (r *Records) bodyName(name string, of, among int) string {
	if among < 2 {
		return "body"
	}
	if p := r.cases[name].Definition.Problem; p != nil {
		for _, v := range p.Spec().Action {
			if m := numbered.FindStringSubmatch(v.Name); m != nil && m[2] == fmt.Sprint(of) {
				return fmt.Sprintf("robot %d", of)
			}
		}
	}
	return fmt.Sprintf("body %d", of)
}

// shapes draws those of one role; pale ones are of another time.
func (f *Figure) shapes(shapes []domain.Shape, role domain.Role, pale bool) {
	for _, s := range shapes {
		if s.Role != role {
			continue
		}
		c, inside, filled := look(&s)
		if pale {
			c = faint(c)
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
			f.line("", c, role == domain.Goal, xs, ys)
		}
	}
}

// look is how a shape is drawn: its line, and what it is filled with where it is.
func look(s *domain.Shape) (line, inside color.RGBA, filled bool) {
	line = colour(grey)
	if s.Role == domain.Body || s.Role == domain.Goal {
		line = body(s.Of)
	}
	inside = line
	if s.Role == domain.Obstacle {
		inside = faint(line)
	}
	closed := len(s.Path) == 1 || s.Path[0] == s.Path[len(s.Path)-1]
	return line, inside, closed && (s.Role == domain.Body || s.Role == domain.Obstacle)
}

// distances are those of every body's disc from the goal of its number, by body; nil where
// there are none.
func (m *motion) distances() (bodies []int, d [][]float64) {
	for g, goal := range m.shapes[0] {
		if goal.Role != domain.Goal || len(goal.Path) != 1 {
			continue
		}
		for b, disc := range m.shapes[0] {
			if disc.Role != domain.Body || len(disc.Path) != 1 || disc.Of != goal.Of {
				continue
			}
			var along []float64
			for _, s := range m.shapes {
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
