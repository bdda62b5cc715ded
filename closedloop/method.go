package closedloop

import (
	"math"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
)

// Method is anything that decides in closed loop. It is used by one goroutine;
// every thread of an evaluation makes its own.
type Method interface {
	// Reset starts an episode. A method that may not look at the plant uses only
	// what Decide is given.
	Reset(ep domain.Episode) error
	// Decide writes the action u for the measured state s and the context c and
	// returns what the method knows of it. An error ends the episode.
	Decide(s, c []float64, pref domain.Preference, u []float64) (Report, error)
}

// Report is a method's own record of one decision. Values that a method does not
// have are NaN and nil. Priority may be overwritten by the next decision.
type Report struct {
	Residual     float64
	Displacement float64
	Fallback     batchnav.Fallback
	Priority     []float64
	// Times are the shares of the decision; zero where there are none.
	Times batchnav.Times
}

// FallbackMethod is the bit of a Controller whose own solve did not succeed.
const FallbackMethod batchnav.Fallback = 1 << 15

// FromNavigator evaluates a navigator.
func FromNavigator(n *batchnav.Navigator) Method { return navigated{n} }

type navigated struct{ navigator *batchnav.Navigator }

func (m navigated) Reset(domain.Episode) error {
	m.navigator.Reset()
	return nil
}

func (m navigated) Decide(s, c []float64, pref domain.Preference, u []float64) (Report, error) {
	d, err := m.navigator.Decide(s, c, pref)
	if err != nil {
		return Report{}, err
	}
	copy(u, d.U)
	return Report{Residual: d.Residual, Displacement: d.Displacement, Fallback: d.Fallback, Priority: d.Sigma, Times: d.Times}, nil
}

// FromController evaluates one of a case's own methods or a baseline.
func FromController(c domain.Controller) Method { return controlled{c} }

type controlled struct{ controller domain.Controller }

func (m controlled) Reset(ep domain.Episode) error { return m.controller.Reset(ep) }

func (m controlled) Decide(s, c []float64, pref domain.Preference, u []float64) (Report, error) {
	ok, err := m.controller.Decide(s, c, pref, u)
	r := Report{Residual: math.NaN(), Displacement: math.NaN()}
	if !ok {
		r.Fallback = FallbackMethod
	}
	if m, monitored := m.controller.(domain.Monitored); monitored {
		r.Priority, r.Residual = m.Monitor()
	}
	return r, err
}

// microseconds is the unit of every latency here.
func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
