package world

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// double is the system of moving obstacles with double integrators.
func double(t testing.TB) *System {
	t.Helper()
	p := Default(true)
	p.Dynamics, p.Limits.VMin = DoubleIntegrator, -p.Limits.VMax
	return require.Get(NewSystem("test", p, true))(t)
}

// Under a constant acceleration a double integrator is where it is by ½at², along both axes, until the speed is at its
// limit along one of them.
func TestADoubleIntegratorAccelerates(t *testing.T) {
	p := &double(t).Params
	s := [StateSize]float64{1, -2, 0.3, -0.1}
	for k := 1; k <= 4; k++ {
		s = p.Step(&s, 1, -0.5)
		at := p.Dt * float64(k)
		for c, want := range []float64{1 + 0.3*at + at*at/2, -2 - 0.1*at - at*at/4, 0.3 + at, -0.1 - at/2} {
			if math.Abs(s[c]-want) > 1e-12 {
				t.Errorf("step %d, component %d: %v, want %v", k, c, s[c], want)
			}
		}
	}
	for range 20 {
		s = p.Step(&s, 2, 0)
	}
	if s[2] != p.Limits.VMax || math.Abs(s[3]+0.5) > 1e-12 {
		t.Errorf("velocity %v, %v", s[2], s[3])
	}
	x := s[0]
	if s = p.Step(&s, 2, 0); math.Abs(s[0]-x-p.Dt*p.Limits.VMax) > 1e-12 {
		t.Errorf("a period at full speed is %v m", s[0]-x)
	}
}

// From full speed along both axes it stops in the way that its accelerations allow, and no period later.
func TestADoubleIntegratorBrakes(t *testing.T) {
	y := double(t)
	y.Params.Limits.DuMax = [2]float64{4, 4}
	p := &y.Params
	scene := Scene{Robots: []Robot{{R: 0.3, Theta: math.Pi / 4, V: math.Sqrt2 * p.Limits.VMax, Goal: [2]float64{5, 5}}}}
	require.OK(t, scene.Validate(p))
	h := scene.Prediction(p)
	spec := y.Spec()
	s, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for range int(math.Ceil(p.Limits.VMax / (p.Limits.AMax * p.Dt))) {
		h.Encode(s, c)
		y.Fallback(s, c, u)
		if excess := p.Limits.Excess(u[:2], h.Previous[0][:]); excess > 1e-12 {
			t.Fatalf("action %v leaves its limits by %g", u[:2], excess)
		}
		h.Apply(u)
	}
	for k := range 2 {
		if want := p.Limits.VMax * p.Limits.VMax / (2 * p.Limits.AMax); math.Abs(h.State[0][k]-want) > 1e-9 || math.Abs(h.State[0][2+k]) > 1e-12 {
			t.Errorf("axis %d: it stands after %v m at %v m/s, want %v m", k, h.State[0][k], h.State[0][2+k], want)
		}
	}
}

// A scene's velocity is given by direction and size, within the limits of each axis; limits are the same on both.
func TestDoubleIntegratorsAreRefusedByName(t *testing.T) {
	y := double(t)
	at := func(theta, v float64) *Scene {
		return &Scene{Robots: []Robot{{R: 0.3, Theta: theta, V: v, Goal: [2]float64{5, 0}}}}
	}
	if h := at(math.Pi/2, 1).Prediction(&y.Params); math.Abs(h.State[0][2]) > 1e-12 || math.Abs(h.State[0][3]-1) > 1e-12 {
		t.Errorf("a robot that moves along y begins with %v", h.State[0])
	}
	if err := at(0, 1.3).Validate(&y.Params); err == nil || !strings.Contains(err.Error(), "speed is 1.3") {
		t.Errorf("too fast along x: %v", err)
	}
	for says, spoil := range map[string]func(p *Params){
		"v_min = −v_max":  func(p *Params) { p.Limits.VMin = -0.5 },
		"a_min = −a_max":  func(p *Params) { p.Limits.AMin = -1 },
		"omega_max":       func(p *Params) { p.Limits.OmegaMax = 1 },
		`dynamics is "x"`: func(p *Params) { p.Dynamics = "x" },
	} {
		p := y.Params
		if spoil(&p); p.Validate() == nil || !strings.Contains(p.Validate().Error(), says) {
			t.Errorf("%s: %v", says, p.Validate())
		}
	}
}
