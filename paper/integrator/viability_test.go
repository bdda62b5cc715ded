package integrator

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// Whoever steers at the ellipse with all there is, or anywhere, is kept out of it to the end of the episode: the
// look-ahead is long enough for the slew bound.
func TestProjectionLeavesAWayOut(t *testing.T) {
	const episodes, seed = 60, 9001
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, y := range systems(t) {
		plant := &Plant{system: y}
		for i := range episodes {
			ep, err := plant.Episode(seed, i, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
			if err != nil {
				t.Fatal(err)
			}
			aside := rng.NormFloat64() * float64(i%3) / 4 // straight at its centre, or past it
			sin, cos := math.Sincos(aside)
			s, c, u := make([]float64, 4), make([]float64, contextSize), make([]float64, 2)
			for k := 0; !ep.Done(); k++ {
				ep.Observe(s, c)
				f := y.flight(s, c)
				n1, n2 := f.gradient()
				size := y.Params.UMax / math.Hypot(n1, n2)
				u[0], u[1] = -size*(n1*cos-n2*sin), -size*(n1*sin+n2*cos)
				kept := y.Project(s, c, u)
				out, err := ep.Apply(u)
				if err != nil {
					t.Fatal(err)
				}
				if !kept || !(out.Margin >= -1e-9) {
					t.Fatalf("%s, episode %d, %.2f rad aside: kept %t at decision %d, margin %g", y.spec.Name, i, aside, kept, k, out.Margin)
				}
			}
		}
	}
}

// What leaves the ellipse behind stays outside it when it holds its action, however the ellipse moves on.
func TestLeavingIsForGood(t *testing.T) {
	y := systems(t)[0]
	rng := rand.New(rand.NewPCG(9001, 3))
	s, c, u := make([]float64, 4), make([]float64, contextSize), make([]float64, 2)
	left := 0
	for range 20000 {
		randomPoint(rng, s, c, u)
		angle := 2 * math.Pi * rng.Float64()
		e, out := &y.Params.Ellipse, 1+0.02*rng.Float64()
		c[contextRate] *= float64(1 - 2*rng.IntN(2))
		s[0] = e.C0[0] + e.Rho[0]*c[contextP] + out*e.A*math.Cos(angle)
		s[1] = e.C0[1] + e.Rho[1]*c[contextP] + out*e.B*math.Sin(angle)
		s[2], s[3] = 0.2*rng.NormFloat64(), 0.2*rng.NormFloat64() // about as fast as the ellipse
		f := y.flight(s, c)
		if !f.recedes() {
			continue
		}
		left++
		for k := range 40 {
			f.step(f.u1, f.u2)
			if psi := e.clearance(f.q1, f.q2, f.p); !(psi >= 1) {
				t.Fatalf("ψ is %g %d steps after %v was left with context %v", psi, k+1, s, c)
			}
		}
	}
	if left < 1000 {
		t.Fatalf("%d of the draws leave the ellipse", left)
	}
}
