package view

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
	"github.com/gpc-engine/gpc/tensor"
)

func system(t testing.TB, moving bool) *world.System {
	t.Helper()
	y, err := world.NewSystem("test", world.Default(moving), moving)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// seen is what the robots of a test scene see some steps on, when each has driven home
// by its base plan regardless and is going to do so.
func seen(t testing.TB, y *world.System, rng *rand.Rand) []Outlook {
	t.Helper()
	scene, err := y.Draw(world.Validation, rng.Uint64(), 0)
	if err != nil {
		t.Fatal(err)
	}
	v, h := New(y), scene.Prediction(&y.Params)
	all, paths := make([]Outlook, h.Robots), make([]*Path, h.Robots)
	for i := range all {
		all[i].Scene = h
		for j := range h.Obstacles {
			all[i].Visible = append(all[i].Visible, j)
		}
		if !y.Moving() {
			var standing []world.Disc
			for _, o := range h.Obstacles {
				standing = append(standing, world.Disc{X: o.C[0], Y: o.C[1], R: o.R + h.Radius[i] + y.Params.DSafe})
			}
			all[i].Guide = world.NewGrid(y.Params.Workspace, h.Goal[i], standing)
			all[i].Guide.Solve(h.Goal[i], nil)
		}
	}
	s, c := vectors(v)
	plan, u := make([]float64, v.spec.PlanSize()), make([]float64, world.MaxRobots*world.ActionSize)
	steps := 1 + rng.IntN(30)
	for k := range steps + 1 {
		obstacles := h.Predicted(nil, world.LookAhead)
		for i := range all {
			all[i].Obstacles = obstacles
			v.Observe(&all[i], i, s, c)
			v.Base(s, c, plan)
			copy(u[2*i:], plan[:2])
			path, state := new(Path), h.State[i]
			for n := range world.LookAhead {
				state = y.Params.Step(&state, plan[2*n], plan[2*n+1])
				path[n] = [2]float32{float32(state[0]), float32(state[1])}
			}
			paths[i] = path
			for j := range all {
				all[j].Robots = others(paths, j)
			}
		}
		if k < steps {
			h.Apply(u)
		}
	}
	return all
}

// others are those of the paths that are known, but for robot i's own.
func others(paths []*Path, i int) (all []Other) {
	for j, path := range paths {
		if j != i && path != nil {
			all = append(all, Other{j, path})
		}
	}
	return all
}

func vectors(v *View) (s, c []float64) {
	return make([]float64, v.spec.MeasuredSize()), make([]float64, v.spec.ContextSize())
}

func TestViewSizes(t *testing.T) {
	v := New(system(t, false))
	if n := v.spec.MeasuredSize(); n != viewMeasured {
		t.Errorf("spec names %d measured variables, want %d", n, viewMeasured)
	}
	if n := v.spec.ContextSize(); n != viewContext {
		t.Errorf("spec names %d context variables, want %d", n, viewContext)
	}
}

// The order of the obstacles and of the others in the scene does not matter.
func TestViewIsOfASet(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		v := New(y)
		rng := rand.New(rand.NewPCG(3, 4))
		for range 4 {
			looks := seen(t, y, rng)
			l := looks[0]
			s, c := vectors(v)
			v.Observe(&l, 0, s, c)
			h := l.Scene.Clone()
			shuffled := l
			shuffled.Scene, shuffled.Robots = h, nil
			shuffled.Obstacles = make([][]world.Obstacle, len(l.Obstacles))
			order := rng.Perm(len(h.Obstacles))
			for j, k := range order {
				h.Obstacles[j] = l.Scene.Obstacles[k]
			}
			for n, row := range l.Obstacles {
				shuffled.Obstacles[n] = make([]world.Obstacle, len(row))
				for j, k := range order {
					shuffled.Obstacles[n][j] = row[k]
				}
			}
			for j, k := range rng.Perm(h.Robots - 1) {
				j, k = j+1, k+1
				h.State[j], h.Radius[j] = l.Scene.State[k], l.Scene.Radius[k]
				shuffled.Robots = append(shuffled.Robots, Other{j, l.Robots[k-1].Path})
			}
			s2, c2 := vectors(v)
			v.Observe(&shuffled, 0, s2, c2)
			if !slices.Equal(s, s2) || !slices.Equal(c, c2) {
				t.Errorf("moving %v: the view differs after the scene was shuffled:\n%v\n%v", moving, c, c2)
			}
		}
	}
}

// A view that is moved and turned as a whole is the same view.
func TestViewHasNoFrame(t *testing.T) {
	y := system(t, true)
	v := New(y)
	rng := rand.New(rand.NewPCG(5, 6))
	looks := seen(t, y, rng)
	l := looks[1]
	s, c := vectors(v)
	v.Observe(&l, 1, s, c)
	turn := 0.7
	sin, cos := math.Sincos(turn)
	move := func(p [2]float64) [2]float64 { return [2]float64{cos*p[0] - sin*p[1] + 3, sin*p[0] + cos*p[1] - 2} }
	h := l.Scene.Clone()
	moved := l
	moved.Scene, moved.Robots = h, nil
	for j := range h.Obstacles {
		h.Obstacles[j].C = move(h.Obstacles[j].C)
	}
	moved.Obstacles = make([][]world.Obstacle, len(l.Obstacles))
	for n, row := range l.Obstacles {
		moved.Obstacles[n] = slices.Clone(row)
		for j := range row {
			moved.Obstacles[n][j].C = move(row[j].C)
		}
	}
	for j := range h.Robots {
		at := move([2]float64{h.State[j][0], h.State[j][1]})
		h.State[j][0], h.State[j][1] = at[0], at[1]
		h.State[j][2] += turn
		h.Goal[j] = move(h.Goal[j])
	}
	for _, o := range l.Robots {
		path := *o.Path
		for k := range path {
			at := move([2]float64{float64(path[k][0]), float64(path[k][1])})
			path[k] = [2]float32{float32(at[0]), float32(at[1])}
		}
		moved.Robots = append(moved.Robots, Other{o.Robot, &path})
	}
	s2, c2 := vectors(v)
	v.Observe(&moved, 1, s2, c2)
	for n, x := range slices.Concat(s, c) {
		if d := math.Abs(x - slices.Concat(s2, c2)[n]); !(d < 2e-5) {
			t.Errorf("entry %d is %v, in another frame %v off", n, x, d)
		}
	}
}

// Step agrees with the plant where nothing bends within a knot: the robot's own
// motion, and the bodies' positions.
func TestViewStepIsThePlants(t *testing.T) {
	y := system(t, true)
	v := New(y)
	rng := rand.New(rand.NewPCG(7, 8))
	for range 6 {
		looks := seen(t, y, rng)
		l := looks[0]
		l.Robots = nil
		s, c := vectors(v)
		v.Observe(&l, 0, s, c)
		u := make([]float64, world.MaxRobots*world.ActionSize)
		u[0], u[1] = l.Scene.Previous[0][0]+0.4, l.Scene.Previous[0][1]-0.3
		y.Params.Limits.Nearest(u[:2], l.Scene.Previous[0][:])
		sNext, cNext := vectors(v)
		v.Step(s, c, u[:2], sNext, cNext)
		h := l.Scene.Clone()
		h.Apply(u)
		next := Outlook{Scene: h, Visible: l.Visible, Obstacles: h.Predicted(nil, world.LookAhead)}
		want, context := vectors(v)
		v.Observe(&next, 0, want, context)
		for _, k := range []int{viewSpeed, viewDistance, viewGoal, viewGoal + 1, viewClearance} {
			if d := math.Abs(want[k] - sNext[k]); !(d < 1e-6) {
				t.Errorf("%s is %v after the step, the plant says %v", v.spec.Measured[k].Name, sNext[k], want[k])
			}
		}
		m := make([]float64, 1)
		v.Margins(s, c, u[:2], m)
		if got := math.Min(m[0], viewReach); !(math.Abs(got-want[viewClearance]) < 1e-6) {
			t.Errorf("margin after the action is %v, the plant says %v", got, want[viewClearance])
		}
	}
}

// decode is encode's inverse.
func TestViewCodec(t *testing.T) {
	y := system(t, true)
	v := New(y)
	looks := seen(t, y, rand.New(rand.NewPCG(9, 10)))
	for i := range looks {
		s, c := vectors(v)
		v.Observe(&looks[i], i, s, c)
		var e sight
		v.decode(s, c, &e)
		s2, c2 := vectors(v)
		v.encode(&e, s2, c2)
		for n, x := range slices.Concat(s, c) {
			if d := math.Abs(x - slices.Concat(s2, c2)[n]); !(d < 1e-9) {
				t.Errorf("robot %d: entry %d is %v, decoded and encoded again %v off", i, n, x, d)
			}
		}
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	y := system(t, false)
	v := New(y)
	looks := seen(t, y, rand.New(rand.NewPCG(11, 12)))
	s, c := vectors(v)
	plan := make([]float64, v.spec.PlanSize())
	if n := testing.AllocsPerRun(20, func() {
		v.Observe(&looks[0], 0, s, c)
		v.Base(s, c, plan)
	}); n != 0 {
		t.Errorf("observing allocates %v times", n)
	}
}

func TestScoringAllocatesNothing(t *testing.T) {
	v := New(system(t, true))
	looks := seen(t, v.system, rand.New(rand.NewPCG(11, 12)))
	s, c := vectors(v)
	v.Observe(&looks[0], 0, s, c)
	const rows = 3
	b := domain.PlanBatch{
		S: s, C: c, Preference: domain.Preference{Adaptive: true}, Plans: tensor.New(rows, v.spec.PlanSize()), Steps: v.spec.Plan,
		Projected: make([]float64, rows*v.spec.PlanSize()), Cost: make([]float64, rows), Margin: make([]float64, rows),
	}
	if n := testing.AllocsPerRun(20, func() {
		if err := v.ScorePlans(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("scoring allocates %v times", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, moving := range []bool{false, true} {
		y := system(b, moving)
		v := New(y)
		looks := seen(b, y, rand.New(rand.NewPCG(11, 12)))
		s, c := vectors(v)
		plan := make([]float64, v.spec.PlanSize())
		b.Run(y.Spec().Name, func(b *testing.B) {
			for b.Loop() {
				v.Observe(&looks[0], 0, s, c)
			}
		})
		b.Run(y.Spec().Name+"/base", func(b *testing.B) {
			for b.Loop() {
				v.Base(s, c, plan)
			}
		})
	}
}

// The batch of gradients and the derivatives of the stage are those of the
// objectives at states of a closed loop, where bodies are near.
func TestViewGradientIsTheDerivative(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	inside := 0
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		v := New(y)
		looks := seen(t, y, rng)
		for i := range looks {
			s, c := vectors(v)
			v.Observe(&looks[i], i, s, c)
			// The nearest body is drawn into the buffer, so that its terms act.
			c[viewBodyAt+bodyKnots], c[viewBodyAt+bodyKnots+1] = compress([2]float64{c[viewBodyAt] + 0.02, 0.3})
			c[viewBodyAt+bodyKnots+2], c[viewBodyAt+bodyKnots+3] = c[viewBodyAt+bodyKnots], c[viewBodyAt+bodyKnots+1]
			u := []float64{c[viewPrevious] + 0.3, c[viewPrevious+1] - 0.7}
			sigma := []float64{0.2, 0.5, 0.3}
			J := make([]float64, 3)
			value := func() float64 {
				v.Objectives(s, u, c, J)
				return sigma[0]*J[0] + sigma[1]*J[1] + sigma[2]*J[2]
			}
			gs, gu := make([]float64, len(s)), make([]float64, 2)
			v.Gradient(s, u, c, sigma, gs, gu)
			value()
			if J[1] > 0.1 {
				inside++
			}
			for _, part := range []struct{ x, g []float64 }{{s, gs}, {u, gu}} {
				for k := range part.x {
					const step = 1e-6
					x := part.x[k]
					part.x[k] = x + step
					up := value()
					part.x[k] = x - step
					want := (up - value()) / (2 * step)
					part.x[k] = x
					if d := math.Abs(want - part.g[k]); !(d <= 1e-5*(1+math.Abs(want))) {
						t.Errorf("derivative %d is %v, central difference %v", k, part.g[k], want)
					}
				}
			}
		}
	}
	if inside < 6 {
		t.Errorf("a body was inside the buffer in %d views only", inside)
	}
}

// A plan is projected as its actions are, one after another.
func TestProjectPlan(t *testing.T) {
	y := system(t, true)
	v := New(y)
	rng := rand.New(rand.NewPCG(17, 18))
	looks := seen(t, y, rng)
	s, c := vectors(v)
	v.Observe(&looks[0], 0, s, c)
	plan := make([]float64, v.spec.PlanSize())
	for k := range plan {
		plan[k] = 3 * rng.NormFloat64()
	}
	whole := slices.Clone(plan)
	v.ProjectPlan(s, c, whole)
	sNext, cNext := vectors(v)
	for k := 0; k < len(plan); k += 2 {
		v.Project(s, c, plan[k:k+2])
		v.Step(s, c, plan[k:k+2], sNext, cNext)
		s, sNext, c, cNext = sNext, s, cNext, c
	}
	if !slices.Equal(plan, whole) {
		t.Errorf("the whole plan is projected to %v, action by action to %v", whole, plan)
	}
}

// A mirrored sample is one of the mirrored scene: its objectives, margins and base
// plan are the same.
func TestMirror(t *testing.T) {
	y := system(t, true)
	v := New(y)
	rng := rand.New(rand.NewPCG(19, 20))
	looks := seen(t, y, rng)
	row := domain.Sample{U: make([]float64, v.spec.PlanSize())}
	row.S, row.C = vectors(v)
	v.Observe(&looks[0], 0, row.S, row.C)
	for k := range row.U {
		row.U[k] = rng.NormFloat64()
	}
	row.Target = row.U
	m := v.Mirror(&row)
	J, K := make([]float64, 3), make([]float64, 3)
	v.Objectives(row.S, row.U, row.C, J)
	v.Objectives(m.S, m.U, m.C, K)
	base, turned := make([]float64, v.spec.PlanSize()), make([]float64, v.spec.PlanSize())
	v.Base(row.S, row.C, base)
	v.Base(m.S, m.C, turned)
	FlipPlan(turned)
	for k, x := range slices.Concat(J, base) {
		if d := math.Abs(x - slices.Concat(K, turned)[k]); !(d < 1e-9) {
			t.Errorf("entry %d is %v, mirrored %v off", k, x, d)
		}
	}
	s, c := vectors(v)
	var e sight
	v.decode(m.S, m.C, &e)
	v.encode(&e, s, c)
	for k, x := range slices.Concat(s, c) {
		if d := math.Abs(x - slices.Concat(m.S, m.C)[k]); !(d < 1e-9) {
			t.Errorf("entry %d of the mirrored view is %v, derived anew %v off", k, x, d)
		}
	}
}
