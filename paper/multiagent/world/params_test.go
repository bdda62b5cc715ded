package world

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The constants are those of the paper, and of the table in docs/explain/multiagent.md.
func TestConstantsAreThoseOfThePaper(t *testing.T) {
	for _, moving := range []bool{false, true} {
		steps := map[bool]int{false: 150, true: 600}[moving]
		want := Params{
			Dt: 0.2, DSafe: 0.18, GoalRadius: 0.35, Workspace: [4]float64{-10, 10, -10, 10},
			Limits: Limits{VMin: -0.5, VMax: 1.2, AMin: -2, AMax: 2, OmegaMax: 2, DuMax: [2]float64{1, 1}},
			Lambda: [6]float64{2, 12, 0.08, 260, 5, 0.1}, EtaG: 0.65, H: 8, Steps: steps,
		}
		if got := Default(moving); got != want {
			t.Errorf("moving %v: %+v, want %+v", moving, got, want)
		}
		spec := system(t, moving).Spec()
		if want := (domain.Semantic{K: []float64{2, 4, 1}, Epsilon: []float64{1, 1, 1}, Rho: 1}); !reflect.DeepEqual(spec.Semantic, want) {
			t.Errorf("priorities by %+v, want %+v", spec.Semantic, want)
		}
		if spec.Plan != 8 || spec.Steps != steps || spec.StepSeconds != 0.2 {
			t.Errorf("plans of %d steps, episodes of %d, %v s each", spec.Plan, spec.Steps, spec.StepSeconds)
		}
	}
	want := Distribution{
		Robots: [2]int{3, 6}, RobotRadius: [2]float64{0.25, 0.35}, Inset: 1, Travel: 8, HeadingError: 0.8, RobotMargin: 1,
		Obstacles: [2]int{10, 15}, ObstacleRadius: [2]float64{0.4, 0.9}, StartMargin: 0.5, GoalMargin: 0.3,
		CorridorShare: 0.5, CorridorSpread: 0.7, Speed: [2]float64{0.2, 0.8}, Connectivity: 0.1,
	}
	if got := Frozen(false); got != want {
		t.Errorf("scenes of %+v, want %+v", got, want)
	}
	if seconds := LookAhead * Default(true).Dt; seconds != 8 {
		t.Errorf("a plan is proven safe for %v s", seconds)
	}
}

// A parameter is taken up to its bound and refused by name beyond it, as is one that is no finite number.
func TestParametersHaveBounds(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	next := func(v float64) float64 { return math.Nextafter(v, inf) }
	of := func(field func(p *Params) *float64) func(v float64) func(*Params) {
		return func(v float64) func(*Params) { return func(p *Params) { *field(p) = v } }
	}
	type bound struct {
		says        string // of what is refused
		set         func(v float64) func(*Params)
		good, wrong []float64
	}
	positive := []float64{0, -1, nan, inf}
	bounds := []bound{
		{"dt", of(func(p *Params) *float64 { return &p.Dt }), []float64{1e-9, 0.25}, positive},
		{"goal_radius", of(func(p *Params) *float64 { return &p.GoalRadius }), []float64{1e-9}, positive},
		{"omega_max", of(func(p *Params) *float64 { return &p.Limits.OmegaMax }), []float64{1e-9, 2.5}, positive},
		{"half a step", of(func(p *Params) *float64 { return &p.Limits.OmegaMax }), []float64{2.5}, []float64{2.501}},
		{"du_max[0]", of(func(p *Params) *float64 { return &p.Limits.DuMax[0] }), []float64{1e-9}, positive},
		{"du_max[1]", of(func(p *Params) *float64 { return &p.Limits.DuMax[1] }), []float64{1e-9}, positive},
		{"limits v", of(func(p *Params) *float64 { return &p.Limits.VMin }), []float64{-1, 0}, []float64{1.2, nan, -inf}},
		{"limits v", of(func(p *Params) *float64 { return &p.Limits.VMax }), []float64{1e-9}, []float64{-0.5, nan, inf}},
		{"standing still", of(func(p *Params) *float64 { return &p.Limits.VMin }), []float64{0}, []float64{1e-9}},
		{"limits a", of(func(p *Params) *float64 { return &p.Limits.AMin }), []float64{-1e-9}, []float64{2, nan, -inf}},
		{"limits a", of(func(p *Params) *float64 { return &p.Limits.AMax }), []float64{1e-9}, []float64{-2, nan, inf}},
		{"d_safe", of(func(p *Params) *float64 { return &p.DSafe }), []float64{0, 1}, []float64{-1e-9, nan, inf}},
		{"eta_g", of(func(p *Params) *float64 { return &p.EtaG }), []float64{0, 1}, []float64{-1e-9, nan, inf}},
		{"workspace x", of(func(p *Params) *float64 { return &p.Workspace[0] }), []float64{9}, []float64{10, nan, -inf}},
		{"workspace y", of(func(p *Params) *float64 { return &p.Workspace[3] }), []float64{-9}, []float64{-10, nan, inf}},
		{"most 100", of(func(p *Params) *float64 { return &p.Workspace[1] }), []float64{90}, []float64{next(90)}},
		{"most 100", of(func(p *Params) *float64 { return &p.Workspace[2] }), []float64{-90}, []float64{-90.001}},
		{"parameter h", func(v float64) func(*Params) { return func(p *Params) { p.H = int(v) } }, []float64{8}, []float64{7, 9}},
		{"steps", func(v float64) func(*Params) { return func(p *Params) { p.Steps = int(v) } }, []float64{1, 100_000}, []float64{0, 100_001}},
		{"robots", func(v float64) func(*Params) { return func(p *Params) { p.Robots = int(v) } }, []float64{0, 6, 4096}, []float64{-1, 1, 5, 4097}},
		{"obstacles", func(v float64) func(*Params) { return func(p *Params) { p.Obstacles = int(v) } }, []float64{0, 15, 16384}, []float64{-1, 1, 14, 16385}},
	}
	for few, most := range map[int]float64{12: 100, 13: 1000} { // a crowd's workspace is larger
		bounds = append(bounds, bound{"workspace has a side", func(v float64) func(*Params) {
			return func(p *Params) { p.Robots, p.Workspace = few, [4]float64{0, 10, 0, v} }
		}, []float64{most}, []float64{next(most)}})
	}
	for i := range 6 {
		bounds = append(bounds, bound{fmt.Sprintf("lambda[%d]", i), of(func(p *Params) *float64 { return &p.Lambda[i] }), []float64{0, 1}, []float64{-1e-9, nan, inf}})
	}
	rays := func(set func(s *Sensing, v float64)) func(v float64) func(*Params) {
		return func(v float64) func(*Params) {
			return func(p *Params) { p.Sensing = Sensing{32, 5, 0.4}; set(&p.Sensing, v) }
		}
	}
	bounds = append(bounds,
		bound{"sensing", rays(func(s *Sensing, v float64) { s.Rays = int(v) }), []float64{8, 1024}, []float64{0, 7, 1025}},
		bound{"sensing", rays(func(s *Sensing, v float64) { s.Range = v }), []float64{1e-9, 100}, []float64{0, next(100), nan}},
		bound{"sensing", rays(func(s *Sensing, v float64) { s.LeastRadius = v }), []float64{0.2, 2}, []float64{0.1999, next(2), nan}})
	for _, b := range bounds {
		check := func(v float64, valid bool) {
			p := Default(false)
			if b.set(v)(&p); (p.Validate() == nil) != valid || !valid && !strings.Contains(p.Validate().Error(), b.says) {
				t.Errorf("%v, refused for %q: %v, want %v", v, b.says, p.Validate(), valid)
			}
		}
		for _, v := range b.good {
			check(v, true)
		}
		for _, v := range b.wrong {
			check(v, false)
		}
	}
	p := double(t).Params // a double integrator does not turn
	if p.Limits.AMin, p.Limits.AMax, p.Limits.OmegaMax = -5, 5, 5; p.Validate() != nil {
		t.Error(p.Validate())
	}
}

// Room for as many robots and obstacles as the paper has is that of a system that says nothing; what a system cannot be is refused.
func TestASystemHasRoom(t *testing.T) {
	p := Default(false)
	p.Robots, p.Obstacles = 6, 15
	named := require.Get(NewSystem("test", p, false))(t)
	if named.Params != Default(false) || named.Fingerprint() != system(t, false).Fingerprint() {
		t.Errorf("room that is named makes %+v", named.Params)
	}
	for _, c := range []struct{ robots, obstacles, context int }{{0, 0, 6*5 + 15*5}, {7, 0, 7*5 + 15*5}, {0, 16, 6*5 + 16*5}, {12, 20, 12*5 + 20*5}} {
		p := Default(true)
		p.Robots, p.Obstacles = c.robots, c.obstacles
		y := require.Get(NewSystem("test", p, true))(t)
		spec := y.Spec()
		require.OK(t, spec.Validate())
		if n := p.ContextSize(); n != c.context || n != spec.ContextSize() || spec.MeasuredSize() != 4*p.Room() || spec.ActionSize() != 2*p.Room() {
			t.Errorf("%+v: contexts of %d, %d in the specification", c, n, spec.ContextSize())
		}
		if y.scenes != Frozen(true) {
			t.Errorf("%+v: scenes of %+v are those of a crowd", c, y.scenes)
		}
		if c.robots == 0 && !strings.Contains(spec.Description, "up to six unicycles") || c.robots > 0 && !strings.Contains(spec.Description, fmt.Sprintf("up to %d unicycles", c.robots)) || !strings.HasSuffix(spec.Description, "among moving obstacles") {
			t.Errorf("%+v: it is said to be %q", c, spec.Description)
		}
		plan := []float64{1, 2}
		if y.Base(nil, nil, plan); plan[0] != 0 || plan[1] != 0 {
			t.Errorf("decoded plans are relative to %v", plan)
		}
	}
	spec := double(t).Spec()
	for i, want := range []domain.Variable{{Name: "x1", Unit: "m"}, {Name: "y1", Unit: "m"}, {Name: "vx1", Unit: "m/s"}, {Name: "vy1", Unit: "m/s"}} {
		if spec.Measured[4+i] != want {
			t.Errorf("a double integrator's state has %+v, want %+v", spec.Measured[4+i], want)
		}
	}
	if a, b := spec.Action[2], spec.Action[3]; a != (domain.Variable{Name: "ax1", Unit: "m/s²", Lo: -2, Hi: 2}) || b != (domain.Variable{Name: "ay1", Unit: "m/s²", Lo: -2, Hi: 2}) {
		t.Errorf("its actions are %+v and %+v", a, b)
	}
	p = Default(false)
	p.Limits.AMin, p.Limits.OmegaMax = -1.5, 1
	spec = require.Get(NewSystem("test", p, false))(t).Spec()
	if a, b := spec.Action[2], spec.Action[3]; a.Lo != -1.5 || a.Hi != 2 || b.Lo != -1 || b.Hi != 1 || spec.Measured[6].Name != "theta1" {
		t.Errorf("a unicycle's actions are %+v and %+v", a, b)
	}
	for _, c := range []struct {
		says   string
		moving bool
		spoil  func(p *Params)
	}{
		{"parameter dt", false, func(p *Params) { p.Dt = 0 }},
		{"obstacles that stand", true, func(p *Params) { p.Sensing = Sensing{32, 5, 0.4} }},
	} {
		p := Default(c.moving)
		c.spoil(&p)
		if _, err := NewSystem("test", p, c.moving); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	p = Default(false)
	p.Sensing = Sensing{32, 5, 0.4}
	require.Get(NewSystem("test", p, false))(t)
	p.Sensing, p.Robots = Sensing{}, 13
	crowd := require.Get(NewSystem("test", p, false))(t)
	if d := crowd.scenes; d.Robots != [2]int{13, 13} || d.Obstacles != [2]int{10, 15} || d.Farthest != 18 {
		t.Errorf("the scenes of a crowd have %v robots, %v obstacles, goals within %v m", d.Robots, d.Obstacles, d.Farthest)
	}
}

// The workspace of more robots keeps their density, and the room for obstacles grows as their number.
func TestMoreRobotsHaveMoreRoom(t *testing.T) {
	for n, want := range map[int][2]float64{13: {15, 33}, 24: {20, 60}, 150: {50, 375}} {
		p := Default(false)
		if p = p.ForRobots(n); p.Workspace != [4]float64{-want[0], want[0], -want[0], want[0]} || p.Obstacles != int(want[1]) || p.Robots != n {
			t.Errorf("%d robots: workspace %v, %d obstacles", n, p.Workspace, p.Obstacles)
		}
	}
	p := Default(false)
	for _, c := range []struct{ vmin, vmax, want float64 }{{-0.5, 1.2, 1.2}, {-3, 1.2, 3}} {
		if p.Limits.VMin, p.Limits.VMax = c.vmin, c.vmax; p.Fastest() != c.want {
			t.Errorf("speeds from %v to %v m/s: the fastest is %v", c.vmin, c.vmax, p.Fastest())
		}
	}
	if p := double(t).Params; p.Fastest() != math.Hypot(p.Limits.VMax, p.Limits.VMax) {
		t.Errorf("of both axes the fastest is %v", p.Fastest())
	}
}
