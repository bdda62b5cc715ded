package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/lab/draw"
)

// animation is an episode as a drawing that moves.
type animation struct {
	name, title, caption string
	svg                  []byte
}

// animation is the first episode of a trace: as its case draws it, or its time lines.
func (r *Records) animation(t *Trace) (*animation, error) {
	if len(t.Episodes) == 0 || len(t.Episodes[0].Lines) == 0 {
		return nil, nil
	}
	seconds, first := r.seconds(t.Header.Case), &t.Episodes[0]
	a := &animation{name: t.Header.Case + "-" + t.Header.Method + "-motion", title: fmt.Sprintf("%s by %s", t.Header.Case, t.Header.Method)}
	var film *draw.Film
	m, err := r.motion(t, first)
	if m != nil && err == nil {
		film = draw.Pictures(m, seconds)
		a.caption = fmt.Sprintf("Episode %d: goals are dashed, trails show where bodies have been.", first.Episode)
	} else {
		states := make([][]float64, len(first.Lines))
		for k := range states {
			states[k] = first.Lines[k].S
		}
		film = draw.TimeLines(r.panels(t), draw.Settled(states), seconds)
		a.caption = fmt.Sprintf("Episode %d: time lines, pale what is to come.", first.Episode)
		if err != nil {
			a.caption += fmt.Sprintf(" It cannot be replayed here: %v.", err)
		}
	}
	if seconds > 0 {
		a.caption += fmt.Sprintf(" %.3g times as fast as it is.", film.Speed(seconds))
	}
	if a.svg, err = film.SVG(); err != nil {
		return nil, fmt.Errorf("report: animation of %s: %w", a.name, err)
	}
	return a, nil
}

// motion replays an episode of a trace; nil where its case draws nothing. The error says why
// it cannot be replayed.
func (r *Records) motion(t *Trace, e *closedloop.EpisodeRecord) (*draw.Motion, error) {
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
	spec := c.Problem.Spec()
	var pictures [][]domain.Shape
	s, context, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for k := 0; ; k++ {
		ep.Observe(s, context)
		shapes := picture(s, context)
		if len(shapes) == 0 {
			return nil, nil
		}
		pictures = append(pictures, shapes)
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
	return draw.NewMotion(pictures)
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
		Every: max(1, (len(e.Lines)+rolledPoints-1)/rolledPoints), Seconds: r.seconds(h.Case),
	}
	at := []int{0} // picture k is after decision k
	for k := out.Every; k < len(m.Shapes); k += out.Every {
		least := math.Inf(1)
		end := k
		if k+out.Every >= len(m.Shapes) {
			end = len(e.Lines)
		}
		for _, l := range e.Lines[k-out.Every : end] {
			least = min(least, float64(l.Margin))
		}
		at, out.Margin = append(at, k), append(out.Margin, rounded(least))
	}
	for i, s := range m.Shapes[0] {
		rolled := rolledShape{Role: roles[s.Role], Of: s.Of, Radius: rounded(s.Radius)}
		moves := false
		for _, k := range at {
			moves = moves || len(s.Path) == 1 && m.Shapes[k][i].Path[0] != s.Path[0]
		}
		for _, k := range at {
			p := m.Shapes[k][i].Path
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
func (o *Rollout) motion() (*draw.Motion, error) {
	pictures := make([][]domain.Shape, len(o.Margin)+1)
	for k := range pictures {
		for _, s := range o.Shapes {
			path := s.Path
			if len(s.Track) > 0 {
				path = [][2]float64{s.Track[k]}
			}
			pictures[k] = append(pictures[k], domain.Shape{Role: domain.Role(slices.Index(roles, s.Role)), Of: s.Of, Radius: s.Radius, Path: path})
		}
	}
	return draw.NewMotion(pictures)
}

// RolloutsOf are the roll-outs of a case by their numbers.
func (r *Records) RolloutsOf(name string) (out []Rollout) {
	out = Where(r, func(o *Rollout) bool { return o.Case == name })
	slices.SortStableFunc(out, func(a, b Rollout) int { return a.Number - b.Number })
	return out
}

// rolloutFigures are the three panels of each roll-out of a case, as the paper's figures of Case 2
// have them: the ways of all bodies, their distances to their goals, the smallest margin.
func (r *Records) rolloutFigures(name string) (figures []*draw.Figure) {
	for _, o := range r.RolloutsOf(name) {
		file, title := fmt.Sprintf("%s-episode-%d", name, o.Number), fmt.Sprintf("%s, episode %d", name, o.Number)
		of := fmt.Sprintf("Episode %d of %s, seed %d, commit %s", o.Number, o.Method, o.Seed, o.Commit)
		m, err := o.motion()
		if err != nil {
			f := draw.New(file+"-trajectory", title+": joint trajectory", draw.Along("x", "m"), draw.Along("y", "m"))
			f.Fail(fmt.Errorf("roll-out of %s, episode %d: %w", name, o.Number, err))
			return append(figures, f)
		}
		f := m.Figure(file+"-trajectory", title+": joint trajectory", m.Until(o.Seconds*float64(o.Every)))
		f.Caption = of + ", shortly after arrival; pale outlines are bodies on the way, goals are dashed, trails are where bodies have been."
		figures = append(figures, f)
		time, clock := draw.Clock(o.Seconds*float64(o.Every), len(o.Margin)+1)
		if o.Seconds == 0 {
			clock = draw.Along("decisions", fmt.Sprintf("counts of %d", o.Every))
		}
		figures = append(figures, r.distanceFigure(name, file, title, of, m, time, clock))
		p := draw.Panel{Axis: "margin", Unit: "m", Names: []string{"smallest margin"}, Values: [][]float64{o.Margin}, Time: time[1:], Clock: clock, Limit: true}
		f = p.Figure(file+"-margins", title+": scene-safety margin")
		f.Caption = of + fmt.Sprintf(": the smallest margin of every %d decisions.", o.Every)
		figures = append(figures, f)
	}
	return figures
}
