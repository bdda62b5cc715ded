package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
)

func certificateSection(c batchnav.Certified) Section {
	s := Section{
		title:   c.Certificate.Case + ": the paper's conditions on this map",
		Note:    "Constants are estimated on held-out samples; a condition that does not hold says that the theorem gives no guarantee here, not that the controller failed.",
		figures: recoveryFigures(c),
		Rows:    [][]string{{"condition", "claim", "left", "right", "verdict", "note"}},
	}
	for _, v := range c.Certificate.Conditions {
		verdict := string(v.Verdict)
		if v.Verdict == batchnav.DoesNot {
			verdict = strings.ToUpper(verdict)
		}
		s.Rows = append(s.Rows, []string{v.Name, v.Claim, v.Left.Text("%.3g"), v.Right.Text("%.3g"), verdict, v.Note})
	}
	return s
}

// recoveryShown is how many steps of a recovery are drawn.
const recoveryShown = 40

// recoveryFigures show Φ after a perturbation off M* and the predicted
// contraction.
func recoveryFigures(c batchnav.Certified) []*Figure {
	r, name := c.Recovery, c.Certificate.Case
	if r == nil {
		return nil
	}
	f := newFigure(name+"-recovery", name+": recovery from a perturbation off M*", axis{"latent steps", "count"}, axis{"Φ", "squared scales of the state"})
	f.logY()
	xs := make([]float64, min(recoveryShown, len(r.Median)))
	floor := math.Inf(1)
	for i := range xs {
		xs[i] = float64(i)
		floor = math.Min(floor, float64(r.Median[i]))
	}
	// The prediction goes on falling where the flow has come to rest.
	predicted := slices.Clone(r.Predicted)
	for i, v := range predicted {
		if float64(v) < floor/10 {
			predicted[i] = batchnav.Number(math.NaN())
		}
	}
	for i, s := range []struct {
		label  string
		v      []batchnav.Number
		dashed bool
	}{{"median", r.Median, false}, {"95th percentile", r.P95, false}, {"largest", r.Max, false}, {"predicted", predicted, true}} {
		f.line(s.label, colour(i), s.dashed, xs, numbers(s.v)[:len(xs)])
	}
	f.caption = "Φ = ‖x − D_s(z)‖², how far the decoded state is from the measured one, step by step, where the step begins beside the map; dashed, what the certified contraction predicts."
	return []*Figure{f}
}

func numbers(v []batchnav.Number) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// checkCertified says what of a recovery is shorter than its median.
func checkCertified(c *batchnav.Certified) error {
	if r := c.Recovery; r != nil {
		n := len(r.Median)
		if len(r.P95) < n || len(r.Max) < n || len(r.Predicted) < n {
			return fmt.Errorf("recovery has %d values of median, %d of p95, %d of max and %d of predicted, want as many of each", n, len(r.P95), len(r.Max), len(r.Predicted))
		}
	}
	if c.Certificate == nil {
		return errors.New("certificate is missing")
	}
	return nil
}
