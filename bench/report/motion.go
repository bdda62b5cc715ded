package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
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
	definition := r.Cases[t.Header.Case].Definition
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
	if p := r.Cases[name].Definition.Problem; p != nil {
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

// Rollout is one episode of a trace in the few numbers that its figures show: the trace of a long
// episode of many bodies has a hundred times as many.
type Rollout struct {
	Case    string  `json:"case"`
	Method  string  `json:"method"`
	Seed    uint64  `json:"seed"`
	Number  int     `json:"rollout"` // of the episode
	Commit  string  `json:"commit"`
	Device  string  `json:"device"`
	Model   string  `json:"model_sha256,omitempty"`
	Safe    bool    `json:"safe"`
	Every   int     `json:"every"`   // decisions between two points
	Seconds float64 `json:"seconds"` // between two decisions; 0: not known
	// Shapes are those of the case's pictures. Margin is the smallest of the decisions up to a
	// point and behind the point before, m.
	Shapes []rolledShape `json:"shapes"`
	Margin []float64     `json:"margin"`
}

// rolledShape is a shape of a picture, with where it is at each point if it moves.
type rolledShape struct {
	Role   string       `json:"role"` // of roles
	Of     int          `json:"of"`
	Radius float64      `json:"radius"`
	Path   [][2]float64 `json:"path,omitempty"`
	Track  [][2]float64 `json:"track,omitempty"`
}

// roles are the words for those of shapes.
var roles = []string{domain.Body: "body", domain.Obstacle: "obstacle", domain.Goal: "goal", domain.Ground: "ground"}

// rolledPoints is the largest number of points of a Rollout, millimetres how finely they are kept.
const (
	rolledPoints = 150
	millimetres  = 1e3
)

// rounded is a length to the millimetre.
func rounded(v float64) float64 { return math.Round(v*millimetres) / millimetres }

// NewRollout replays the first episode of a trace and keeps what its figures show. What is left of
// the decisions behind the last point counts for its margin. A case without pictures is an error.
func (r *Records) NewRollout(t *Trace) (*Rollout, error) {
	if len(t.Episodes) == 0 || len(t.Episodes[0].Lines) == 0 {
		return nil, fmt.Errorf("report: the trace has no decision")
	}
	e := &t.Episodes[0]
	m, err := r.motion(t, e)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if m == nil {
		return nil, fmt.Errorf("report: case %q draws no pictures", t.Header.Case)
	}
	h := &t.Header
	out := &Rollout{
		Case: h.Case, Method: h.Method, Seed: h.Seed, Number: e.Episode, Commit: h.Commit, Device: h.Device, Model: h.ModelSHA256, Safe: e.End.Safe,
		Every: max(1, (len(e.Lines)+rolledPoints-1)/rolledPoints), Seconds: r.seconds(t),
	}
	at := []int{0} // picture k is after decision k
	for k := out.Every; k < len(m.shapes); k += out.Every {
		least := math.Inf(1)
		end := k
		if k+out.Every >= len(m.shapes) {
			end = len(e.Lines)
		}
		for _, l := range e.Lines[k-out.Every : end] {
			least = min(least, float64(l.Margin))
		}
		at, out.Margin = append(at, k), append(out.Margin, rounded(least))
	}
	for i, s := range m.shapes[0] {
		rolled := rolledShape{Role: roles[s.Role], Of: s.Of, Radius: rounded(s.Radius)}
		moves := false
		for _, k := range at {
			moves = moves || len(s.Path) == 1 && m.shapes[k][i].Path[0] != s.Path[0]
		}
		for _, k := range at {
			p := m.shapes[k][i].Path
			if !moves {
				for _, v := range p {
					rolled.Path = append(rolled.Path, [2]float64{rounded(v[0]), rounded(v[1])})
				}
				break
			}
			rolled.Track = append(rolled.Track, [2]float64{rounded(p[0][0]), rounded(p[0][1])})
		}
		out.Shapes = append(out.Shapes, rolled)
	}
	return out, nil
}

// check says what of a roll-out cannot be drawn.
func (o *Rollout) check() error {
	if o.Every < 1 || len(o.Margin) == 0 || len(o.Shapes) == 0 {
		return fmt.Errorf("a roll-out with a point every %d decisions, %d margins and %d shapes", o.Every, len(o.Margin), len(o.Shapes))
	}
	for i, s := range o.Shapes {
		if !slices.Contains(roles, s.Role) {
			return fmt.Errorf("shape %d of a roll-out is a %q, want one of %s", i, s.Role, strings.Join(roles, ", "))
		}
		if len(s.Path) == 0 && len(s.Track) != len(o.Margin)+1 {
			return fmt.Errorf("shape %d of a roll-out is at %d points, want %d", i, len(s.Track), len(o.Margin)+1)
		}
	}
	return nil
}

// motion is the roll-out in pictures.
func (o *Rollout) motion() (*motion, error) {
	m := &motion{}
	for k := range len(o.Margin) + 1 {
		var shapes []domain.Shape
		for _, s := range o.Shapes {
			path := s.Path
			if len(s.Track) > 0 {
				path = [][2]float64{s.Track[k]}
			}
			shapes = append(shapes, domain.Shape{Role: domain.Role(slices.Index(roles, s.Role)), Of: s.Of, Radius: s.Radius, Path: path})
		}
		m.shapes = append(m.shapes, shapes)
	}
	return m, m.measure()
}

// RolloutsOf are the roll-outs of a case by their numbers.
func (r *Records) RolloutsOf(name string) (out []Rollout) {
	for _, o := range Of[Rollout](r) {
		if o.Case == name {
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b Rollout) int { return a.Number - b.Number })
	return out
}

// rolloutFigures are the three panels of each roll-out of a case, as the paper's figures of Case 2
// have them: the ways of all bodies, their distances to their goals, the smallest margin.
func (r *Records) rolloutFigures(name string) (figures []*Figure) {
	for _, o := range r.RolloutsOf(name) {
		file, title := fmt.Sprintf("%s-episode-%d", name, o.Number), fmt.Sprintf("%s, episode %d", name, o.Number)
		of := fmt.Sprintf("Episode %d of %s, seed %d, commit %s", o.Number, o.Method, o.Seed, o.Commit)
		m, err := o.motion()
		if err != nil {
			f := newFigure(file+"-trajectory", title+": joint trajectory", axis{"x", "m"}, axis{"y", "m"})
			f.fail(fmt.Errorf("roll-out of %s, episode %d: %w", name, o.Number, err))
			return append(figures, f)
		}
		last := m.until(o.Seconds * float64(o.Every))
		var at []int
		for g := range ghosts {
			at = append(at, m.arrival*g/ghosts)
		}
		f := m.figure(file+"-trajectory", title+": joint trajectory", last, at...)
		f.caption = of + ", shortly after arrival; pale outlines are bodies on the way, goals are dashed, trails are where bodies have been."
		figures = append(figures, f)
		time, clock := clockOf(o.Seconds*float64(o.Every), len(o.Margin)+1)
		if o.Seconds == 0 {
			clock = axis{"decisions", fmt.Sprintf("counts of %d", o.Every)}
		}
		figures = append(figures, r.distanceFigure(name, file, title, of, m, time, clock))
		p := panel{name: "margins", axis: "margin", unit: "m", names: []string{"smallest margin"}, values: [][]float64{o.Margin}, time: time[1:], clock: clock, limit: true}
		f = p.figure(file+"-margins", title+": scene-safety margin")
		f.caption = of + fmt.Sprintf(": the smallest margin of every %d decisions.", o.Every)
		figures = append(figures, f)
	}
	return figures
}
