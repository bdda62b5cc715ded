// Package view is the control problem that the map of Case 2 learns: one robot among discs on known paths, in
// the frame of the robot.
//
// The central type is View, a domain.Problem. Observe writes a robot's view of a
// scene, Flip the same in a mirror, Base is the plan that goes home regardless, and
// Assess what a plan is worth among the same bodies, in float64.
package view

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Sizes of a view.
const (
	viewWays   = 4  // way points ahead
	viewBodies = 10 // other bodies seen, the most urgent first
	viewSeen   = 27 // bodies that these are chosen from: where there are more, the nearest now
	viewKnots  = 5  // positions of a body on its way, see knotSteps
)

// knotSteps are the steps at which a view holds another body's position; between
// them it moves straight.
var knotSteps = [viewKnots]int{0, 8, 16, 26, world.LookAhead}

// wayMetres are the distances along the way home at which its points lie.
var wayMetres = [viewWays]float64{1.2, 2.8, 5, 8.5}

// Places in a view's measured state.
const (
	viewSpeed     = iota     // v, m/s
	viewDistance             // √d of the goal's distance d, √m
	viewGoal                 // cos and sin of the goal's bearing
	viewWay       = iota + 1 // cos and sin of the first way point's bearing
	viewClearance = iota + 2 // smallest margin now, m, at most Reach
	viewAhead                // smallest margin along the base plan, m, at most Reach
	viewMeasured
)

// Places in a view's context, and in each of its bodies.
const (
	viewPrevious = 0
	viewRadius   = viewPrevious + world.ActionSize
	viewShare    = viewRadius + 1 // root of the goal's weight: 1 for the ego
	viewCrowd    = viewShare + 1  // one over the number of robots, which divides the effort
	viewWayAt    = viewCrowd + 1
	viewFanAt    = viewWayAt + 2*viewWays
	viewBodyAt   = viewFanAt + fanSize*len(fan)
	viewContext  = viewBodyAt + viewBodies*bodySize

	fanMargin = 0 // smallest margin along a manoeuvre, m, within ±fanReach
	fanFree   = 1 // share of the plan before a margin falls below fanLow
	fanSize   = 2

	bodyRadius    = 0 // r + r_own + d_safe, m; 0: no body
	bodyKnots     = 1
	bodyIntrusion = bodyKnots + 2*viewKnots // how far it comes inside intrusionReach of the base plan, m
	bodyWhen      = bodyIntrusion + 1       // when, as a share of the plan
	bodySide      = bodyWhen + 1            // on which side: sine of its bearing then
	bodySize      = bodySide + 1
)

const (
	viewReach      = 3.0 // m: margins are told apart up to here, as in the roll-out
	intrusionReach = 2.0 // m: a body that stays farther away than this leaves no trace in its features
	// positionScale compresses positions, p ↦ p/(1 + |p|/positionScale): near ones
	// are told apart better. It is also what a compressed length stays below.
	positionScale = 5.0
	fanReach      = 1.0 // m
	fanLow        = 0.1 // m
)

// Soft is the soft penalty of closeness: a step at the margin h to a body costs
// Stiffness·t² with t = Buffer − h up to the depth Knee, and grows linearly from
// there (rollout.Huber).
type Soft struct {
	Buffer    float64 // margin below which closeness costs, m
	Stiffness float64 // cost of a step per squared metre inside the buffer
	Knee      float64 // depth from which the cost grows linearly, m
}

// Closeness is the penalty of the objectives that the maps of static and of moving
// scenes learn from. A planner's own buffer is apart from it, so that it may change
// without training the maps again.
func Closeness(moving bool) Soft {
	if moving {
		return Soft{Buffer: 0.38, Stiffness: 400, Knee: 0.07}
	}
	return Soft{Buffer: 0.42, Stiffness: 1200, Knee: 0.03}
}

// View is what Case 2's map is about, as docs/explain/multiagent.md describes it: one robot among moving discs, in its
// own frame (origin at its position, first axis along its heading). The other bodies are a set: they are listed by
// urgency, how close they come to the plan that goes home regardless (Base). Absent ones are zeros, which is also where
// the features of a body end that stays far away.
//
// An action is (a, ω), a plan L = LookAhead of them, the planner's commitment; both
// are the same in every frame.
type View struct {
	system *world.System
	soft   Soft
	spec   domain.Spec
}

var (
	_ domain.Problem    = (*View)(nil)
	_ domain.PlanScorer = (*View)(nil)
)

// Abilities implements domain.Able.
func (v *View) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{
		Derivatives: domain.Derivatives{Rows: v.GradientBatch}, Fingerprint: v.Fingerprint, NewPlanScorer: v.NewPlanScorer,
		ProjectPlan: v.ProjectPlan, Selects: v.Selects, Device: v.Device,
	}
}

// New returns the view of a system's robots.
func New(y *world.System) *View {
	v := &View{system: y, soft: Closeness(y.Moving())}
	whole := y.Spec()
	l := y.Params.Limits
	v.spec = domain.Spec{
		Name:        whole.Name,
		Description: "one robot of " + whole.Name + " in its own frame",
		Measured: []domain.Variable{
			{Name: "v", Unit: "m/s"}, {Name: "root_distance", Unit: "√m"},
			{Name: "goal_cos"}, {Name: "goal_sin"}, {Name: "way_cos"}, {Name: "way_sin"},
			{Name: "clearance", Unit: "m"}, {Name: "ahead", Unit: "m"},
		},
		Context: []domain.Variable{
			{Name: "a_prev", Unit: "m/s²"}, {Name: "omega_prev", Unit: "rad/s"}, {Name: "r", Unit: "m"}, {Name: "share"}, {Name: "crowd"},
		},
		Action: []domain.Variable{
			{Name: "a", Unit: "m/s²", Lo: l.AMin, Hi: l.AMax},
			{Name: "omega", Unit: "rad/s", Lo: -l.OmegaMax, Hi: l.OmegaMax},
		},
		Objectives:      whole.Objectives,
		Margins:         []domain.Variable{{Name: "bodies", Unit: "m", Kind: domain.Collision}},
		Plan:            world.LookAhead,
		Steps:           whole.Steps,
		StepSeconds:     whole.StepSeconds,
		Semantic:        whole.Semantic,
		MarginTolerance: whole.MarginTolerance,
		Navigation: domain.Navigation{
			LatentStep:     0.02,
			VMax:           1,
			Epsilon:        0.1,
			MetricLambda:   1e-3,
			TopK:           4,
			LieGain:        0.1,
			LieScale:       0.1,
			RetractionMix:  0.5,
			Smoothing:      1,
			PriorityFilter: 1,
			Neighbours:     20,
		},
		Training: domain.Training{
			Latent:          16,
			Hidden:          128,
			Encoder:         384, // all that the map knows about a scene is in E_x
			Scenarios:       7500,
			Weights:         3,
			Design:          domain.WeightDesign{Name: "centred"},
			ManifoldEpochs:  24,
			RolloutEpochs:   1,
			Batch:           128,
			LearningRate:    1e-3,
			ActionWeight:    30,
			SpectralBound:   20,
			Codes:           2048,
			LocalNeighbours: -1, // no locality term: in so many dimensions the search takes longer than the training
			Fade:            2,
		},
	}
	if y.Moving() {
		v.spec.Training.Scenarios = 15000
	}
	add := func(unit, format string, a ...any) {
		v.spec.Context = append(v.spec.Context, domain.Variable{Name: fmt.Sprintf(format, a...), Unit: unit})
	}
	for w := range viewWays {
		add("m", "way%d_x", w)
		add("m", "way%d_y", w)
	}
	for n := range fan {
		add("m", "fan%d_margin", n)
		add("", "fan%d_free", n)
	}
	for b := range viewBodies {
		add("m", "body%d_r", b)
		for _, k := range knotSteps {
			add("m", "body%d_x%d", b, k)
			add("m", "body%d_y%d", b, k)
		}
		add("m", "body%d_intrusion", b)
		add("", "body%d_when", b)
		add("", "body%d_side", b)
	}
	return v
}

// System is the system whose robots look.
func (v *View) System() *world.System { return v.system }

// Spec implements domain.Problem.
func (v *View) Spec() *domain.Spec { return &v.spec }

// Fingerprint is domain.ProblemAbilities.Fingerprint.
func (v *View) Fingerprint() [32]byte {
	whole := v.system.Fingerprint()
	return v.spec.Fingerprint(fmt.Appendf(whole[:], "%+v", v.soft))
}

// sight is a view, decoded: lengths in metres in the robot's frame.
type sight struct {
	speed    float64
	previous [world.ActionSize]float64
	radius   float64
	share    float64 // root of the goal weight
	crowd    float64 // one over the number of robots
	goal     [2]float64
	ways     [viewWays][2]float64
	bodies   [viewSeen]body
	count    int // bodies
}

// body is another disc on its way.
type body struct {
	radius float64 // with the robot's own and d_safe
	knots  [viewKnots][2]float64
	// Of the base plan: the smallest margin, when, and on which side.
	closest, instant, side float64
}

// position is a body's position after k steps.
func (b *body) position(k int) (x, y float64) {
	n := 1
	for n < viewKnots-1 && k > knotSteps[n] {
		n++
	}
	t := float64(k-knotSteps[n-1]) / float64(knotSteps[n]-knotSteps[n-1])
	p, q := &b.knots[n-1], &b.knots[n]
	return p[0] + t*(q[0]-p[0]), p[1] + t*(q[1]-p[1])
}

// compress and expand are inverse to each other.
func compress(p [2]float64) (x, y float64) {
	f := 1 / (1 + math.Hypot(p[0], p[1])/positionScale)
	return f * p[0], f * p[1]
}

func expand(x, y float64) [2]float64 {
	f := 1 / math.Max(1-math.Hypot(x, y)/positionScale, 0.01)
	return [2]float64{f * x, f * y}
}

// decode reads a view.
func (v *View) decode(s, c []float64, e *sight) {
	e.speed = s[viewSpeed]
	d := s[viewDistance] * s[viewDistance]
	e.goal = [2]float64{d * s[viewGoal], d * s[viewGoal+1]}
	copy(e.previous[:], c[viewPrevious:])
	e.radius, e.share, e.crowd = c[viewRadius], c[viewShare], c[viewCrowd]
	for w := range e.ways {
		e.ways[w] = expand(c[viewWayAt+2*w], c[viewWayAt+2*w+1])
	}
	e.count = 0
	for b := range viewBodies {
		f := c[viewBodyAt+b*bodySize:][:bodySize]
		if f[bodyRadius] <= 0 {
			break
		}
		o := &e.bodies[e.count]
		e.count++
		o.radius = f[bodyRadius]
		for k := range o.knots {
			o.knots[k] = expand(f[bodyKnots+2*k], f[bodyKnots+2*k+1])
		}
	}
}

// encode writes a view; it orders the bodies.
func (v *View) encode(e *sight, s, c []float64) {
	clear(c)
	s[viewAhead] = v.order(e)
	v.try(e, c[viewFanAt:])
	v.write(e, s, c)
	for b := range min(e.count, viewBodies) {
		o, f := &e.bodies[b], c[viewBodyAt+b*bodySize:][:bodySize]
		if intrusion := intrusionReach - o.closest; intrusion > 0 {
			fade := math.Min(intrusion, 1)
			f[bodyIntrusion], f[bodyWhen], f[bodySide] = intrusion, fade*o.instant, fade*o.side
		}
	}
}

// write writes what a view says of now and of the bodies' paths: all that an action is
// scored by. c is zero where it writes nothing.
func (v *View) write(e *sight, s, c []float64) {
	copy(c[viewPrevious:], e.previous[:])
	c[viewRadius], c[viewShare], c[viewCrowd] = e.radius, e.share, e.crowd
	for w := range e.ways {
		c[viewWayAt+2*w], c[viewWayAt+2*w+1] = compress(e.ways[w])
	}
	s[viewSpeed] = e.speed
	d := math.Hypot(e.goal[0], e.goal[1])
	s[viewDistance] = math.Sqrt(d)
	s[viewGoal], s[viewGoal+1] = bearing(e.goal)
	s[viewWay], s[viewWay+1] = bearing(e.ways[0])
	s[viewClearance] = viewReach
	for n := range e.count {
		o := &e.bodies[n]
		x, y := o.knots[0][0], o.knots[0][1]
		s[viewClearance] = math.Min(s[viewClearance], math.Sqrt(x*x+y*y)-o.radius)
	}
	for b := range min(e.count, viewBodies) {
		o, f := &e.bodies[b], c[viewBodyAt+b*bodySize:][:bodySize]
		f[bodyRadius] = o.radius
		for k, p := range o.knots {
			f[bodyKnots+2*k], f[bodyKnots+2*k+1] = compress(p)
		}
	}
}

// bearing is cosine and sine of a position's direction, straight ahead at the
// origin.
func bearing(p [2]float64) (cos, sin float64) {
	d := math.Hypot(p[0], p[1])
	if d < 1e-9 {
		return 1, 0
	}
	return p[0] / d, p[1] / d
}

// order finds each body's closest approach to the base plan, sorts the most urgent
// viewBodies to the front and returns the smallest margin along the plan.
func (v *View) order(e *sight) float64 {
	var path [world.LookAhead + 1]pose
	v.pursue(e, &manoeuvre{}, nil, &path)
	ahead := viewReach
	for n := range e.count {
		o := &e.bodies[n]
		o.closest = math.Inf(1)
		for k := range path {
			x, y := o.position(k)
			p := &path[k]
			dx, dy := x-p.X, y-p.Y
			d := math.Sqrt(dx*dx + dy*dy)
			h := d - o.radius
			if h < o.closest {
				o.closest, o.instant = h, float64(k)/world.LookAhead
				o.side = (p.Cos*dy - p.Sin*dx) / math.Max(d, 1e-9)
			}
		}
		ahead = math.Min(ahead, o.closest)
	}
	for n := range min(e.count, viewBodies) {
		first := n
		for m := n + 1; m < e.count; m++ {
			if e.bodies[m].closest < e.bodies[first].closest {
				first = m
			}
		}
		e.bodies[n], e.bodies[first] = e.bodies[first], e.bodies[n]
	}
	return ahead
}

// try writes what becomes of each manoeuvre of the fan among the most urgent bodies.
func (v *View) try(e *sight, f []float64) {
	var path [world.LookAhead + 1]pose
	var positions [viewBodies][world.LookAhead + 1][2]float64
	n := min(e.count, viewBodies)
	for b := range n {
		for k := range positions[b] {
			positions[b][k][0], positions[b][k][1] = e.bodies[b].position(k)
		}
	}
	for m := range fan {
		v.pursue(e, &fan[m], nil, &path)
		low, free := fanReach, world.LookAhead
		for b := range n {
			radius := e.bodies[b].radius
			for k := 1; k <= world.LookAhead; k++ {
				p, q := &path[k], &positions[b][k]
				dx, dy := q[0]-p.X, q[1]-p.Y
				square := dx*dx + dy*dy
				if reach := radius + low; square < reach*reach {
					low = math.Sqrt(square) - radius
				}
				if contact := radius + fanLow; k < free && square < contact*contact {
					free = k
				}
			}
		}
		f[fanSize*m+fanMargin], f[fanSize*m+fanFree] = math.Max(low, -fanReach), float64(free)/world.LookAhead
	}
}
