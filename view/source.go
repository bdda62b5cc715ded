// Package view is a page to watch and steer a closed loop: Handler is an http.Handler with
// everything that the page needs inside.
//
// What is watched is a Source: Trace is one that was recorded, Live a plant that runs beside a
// serve.Server, whose preference the person at the page sets. The page and its bundle are
// written in ui and embedded from page (docs/how-to/view.md).
package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Source is what is watched: frames by their numbers. One goroutine calls it at a time.
type Source interface {
	// Describe says what the frames are of; it is constant between two calls of Reset.
	Describe() *Description
	// Range are the numbers of the first and the last frame at hand; there is always one.
	Range() (first, last int)
	// Frame is one of those. Callers must not modify it.
	Frame(k int) *Frame
	// Advance makes the frame behind the last one; io.EOF where there is none.
	Advance(ctx context.Context) error
	// Steer sets the preference of the decisions to come; ErrRecorded where they are made.
	Steer(p domain.Preference) error
	// Preference is that of the next decision.
	Preference() domain.Preference
	// Preview is what would be decided now, without its being done; nil: that is not known.
	Preview(ctx context.Context) (*Frame, error)
	// Fan is a function that looks ahead from the last frame under many preferences and may be
	// called by another goroutine; nil: there is none. In a hurry it takes fewer preferences where they take long.
	Fan(hurry bool) func(ctx context.Context) (*Fan, error)
	// Reset begins an episode, −1 for the next one.
	Reset(ctx context.Context, episode int) error
}

// ErrRecorded is returned for a decision of the past that is to be changed.
var ErrRecorded = errors.New("a recorded trace cannot be steered")

// Description says what frames are of. Vectors of a frame have an entry for each variable.
type Description struct {
	Case   string `json:"case"`
	About  string `json:"about"`
	Method string `json:"method"`
	Kind   string `json:"kind"` // live, session or trace
	// Source says in a line where the frames come from, Warnings what is wrong with them.
	Source   string   `json:"source"`
	Warnings []string `json:"warnings"`
	Steers   bool     `json:"steers"` // Steer is answered
	// Steps of an episode, StepSeconds between two, DeadlineUs of a decision, 0 for none.
	Steps       int     `json:"steps"`
	StepSeconds float64 `json:"step_s"`
	DeadlineUs  float64 `json:"deadline_us"`
	// A margin below −Tolerance is a violation.
	Tolerance  float64    `json:"margin_tolerance"`
	State      []Variable `json:"state"`
	Action     []Variable `json:"action"`
	Objectives []Variable `json:"objectives"`
	Margins    []Variable `json:"margins"`
	// Vertices are the preferences for one objective alone, in the objectives' order.
	Vertices [][]float64 `json:"vertices"`
	// Episodes at hand; one that is not yet is not there.
	Episodes []Episode `json:"episodes"`
	Grid     *Grid     `json:"grid,omitempty"`
	// Switches are the actions that take a few values.
	Switches []Switch `json:"switches"`
	// Changes are the fields that a change of the plant may have; see domain.EpisodeAbilities.
	Changes []string `json:"changes"`
}

// Variable names an entry of a vector. Lo and Hi are null where it has no box.
type Variable struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
	// Limit is the kind of limit that a margin is of; Collision: of a distance to another body.
	Limit     string `json:"limit"`
	Collision bool   `json:"collision"`
}

// Switch is a switched action with its values, in ascending order.
type Switch struct {
	Action int       `json:"action"` // its place in the action
	Values []float64 `json:"values"`
}

func variables(entries []domain.Variable) []Variable {
	list := make([]Variable, 0, len(entries))
	for _, v := range entries {
		w := Variable{v.Name, v.Unit, math.NaN(), math.NaN(), v.LimitName(), v.Kind == domain.Collision}
		if v.Bounded() {
			w.Lo, w.Hi = v.Lo, v.Hi
		}
		list = append(list, w)
	}
	return list
}

// Episode is one of a trace.
type Episode struct {
	Episode int     `json:"episode"`
	Steps   int     `json:"steps"`
	Safe    bool    `json:"safe"`
	Margin  float64 `json:"margin"` // smallest
	Cause   string  `json:"cause,omitempty"`
}

// Grid is a network with a position for every bus, in [0, Width] × [0, Height], downwards.
type Grid struct {
	*domain.Chart
	Positions [][2]float64 `json:"positions"`
	Width     float64      `json:"width"`
	Height    float64      `json:"height"`
}

// Frame is one decision and where it led, in physical units; a number that is not known is NaN, null
// in JSON. That an episode begins is a frame without U.
type Frame struct {
	K       int `json:"k"`
	Episode int `json:"episode"`
	T       int `json:"t"` // decisions made in the episode
	// S is the plant's state after U.
	S []float64 `json:"s"`
	U []float64 `json:"u"`
	// Plan is what the decision plans from U on, [step][action], of a case with switched actions.
	Plan [][]float64 `json:"plan,omitempty"`
	J    []float64   `json:"j"` // stage objectives
	// Sigma scored the stage, Priority steered the decision, as Preference asked for.
	Sigma      []float64         `json:"sigma"`
	Priority   []float64         `json:"priority"`
	Preference domain.Preference `json:"preference"`
	Margin     float64           `json:"margin"`  // smallest
	Margins    []float64         `json:"margins"` // nil: not known one by one
	// Room is the largest margin of each kind of limit in the episode: so far where it runs, in all where it was recorded.
	Room      map[string]float64 `json:"room"`
	Residual  float64            `json:"residual"`       // at the localized latent, normalised
	Limit     float64            `json:"residual_limit"` // of Residual; 0: none
	Moved     float64            `json:"displacement"`   // ‖z_{t+1} − z_t‖
	LatencyUs float64            `json:"latency_us"`
	Fallback  string             `json:"fallback"` // domain.Fallback
	Replaced  bool               `json:"replaced"` // U is not the method's own
	Late      bool               `json:"late"`
	Failed    bool               `json:"failed"`
	Note      string             `json:"note,omitempty"`
	// Event is the change of the plant that this frame begins with.
	Event string `json:"event,omitempty"`
	// Cost of this decision as an episode counts it, and of the exact optimum of the same decision, of a
	// domain.ProblemAbilities.Best.
	Cost float64 `json:"cost"`
	Best float64 `json:"best"`
	// Weights of the objectives in both.
	Weights []float64 `json:"weights,omitempty"`
	// Shapes of a domain.ProblemAbilities.Picture after U, Grid of a domain.ProblemAbilities.Chart under U.
	Shapes []Shape                `json:"shapes,omitempty"`
	Grid   *domain.OperatingPoint `json:"grid,omitempty"`
}

// leaveRules leaves out the margins of rules of switched actions that are kept. Without another there is none.
func (f *Frame) leaveRules(spec *domain.Spec) {
	all := len(f.Margins)
	if f.Margins = spec.LimitMargins(f.Margins); len(f.Margins) < all {
		f.Margin = domain.Smallest(f.Margins)
	}
}

// widen takes the margins of a frame into the room of its episode.
func (f *Frame) widen(room map[string]float64, spec *domain.Spec) {
	f.leaveRules(spec)
	f.Room = maps.Clone(room)
	if f.Room == nil {
		f.Room = map[string]float64{}
	}
	for i, m := range f.Margins {
		if name := spec.Margins[i].LimitName(); m > f.Room[name] && !math.IsInf(m, 1) {
			f.Room[name] = m
		}
	}
}

// Shape is a domain.Shape.
type Shape struct {
	Role   string       `json:"role"`
	Of     int          `json:"of"`
	View   string       `json:"view,omitempty"`
	Radius float64      `json:"r"`
	Path   [][2]float64 `json:"path"`
}

var roles = [...]string{domain.Body: "body", domain.Obstacle: "obstacle", domain.Goal: "goal", domain.Ground: "ground"}

// drawnReach bounds, in metres, where a shape may be.
const drawnReach = 1e6

// picture are the shapes of a state, nil where the problem draws none or one of them cannot be
// drawn.
func picture(p domain.Problem, s, c []float64) []Shape {
	pictured := domain.AbilitiesOfProblem(p).Picture
	if pictured == nil {
		return nil
	}
	var shapes []Shape
	for _, d := range pictured(s, c) {
		if d.Validate() != nil || int(d.Role) >= len(roles) || !(d.Radius < drawnReach) {
			return nil
		}
		for _, point := range d.Path {
			if math.Abs(point[0]) > drawnReach || math.Abs(point[1]) > drawnReach {
				return nil
			}
		}
		shapes = append(shapes, Shape{roles[d.Role], d.Of, d.View, d.Radius, d.Path})
	}
	return shapes
}

// centres are the places of the bodies that are discs.
func centres(shapes []Shape) (points [][2]float64) {
	for _, s := range shapes {
		if s.Role == roles[domain.Body] && len(s.Path) == 1 {
			points = append(points, s.Path[0])
		}
	}
	return points
}

// describe is what the case says.
func describe(c *domain.Case) *Description {
	spec := c.Problem.Spec()
	d := &Description{
		Case: spec.Name, About: spec.Description, Steps: spec.Steps, StepSeconds: spec.StepSeconds, Tolerance: spec.MarginTolerance,
		State: variables(spec.Measured), Action: variables(spec.Action), Objectives: variables(spec.Objectives), Margins: variables(spec.Margins),
		Warnings: []string{}, Episodes: []Episode{}, Changes: []string{}, Switches: []Switch{},
	}
	for i := range spec.Switches {
		d.Switches = append(d.Switches, Switch{spec.Switches[i].Action, spec.Switches[i].Values})
	}
	for i := range spec.Objectives {
		vertex := make([]float64, len(spec.Objectives))
		vertex[i] = 1
		d.Vertices = append(d.Vertices, vertex)
	}
	if readChart := domain.AbilitiesOfProblem(c.Problem).Chart; readChart != nil {
		if chart := readChart(); len(chart.Buses) <= mostBuses {
			d.Grid = newGrid(chart)
		} else {
			d.Warnings = append(d.Warnings, fmt.Sprintf("no map: the network has %d buses, at most %d are drawn", len(chart.Buses), mostBuses))
		}
	}
	return d
}

// mostBuses are drawn on a map.
const mostBuses = 3000

// operate is where u leads an electric network, nil where the problem is none or there is no
// power flow.
func operate(p domain.Problem, s, c, u []float64) *domain.OperatingPoint {
	if operate := domain.AbilitiesOfProblem(p).Operate; operate != nil {
		if point, ok := operate(s, c, u); ok {
			return point
		}
	}
	return nil
}
