package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
)

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
	for _, o := range r.Rollouts {
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
