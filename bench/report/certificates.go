package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
)

func certificateSection(c batchnav.Certified) section {
	s := section{
		title:   c.Certificate.Case + ": the paper's conditions on this map",
		note:    "Constants are estimated on held-out samples; a condition that does not hold says that the theorem gives no guarantee here, not that the controller failed.",
		figures: recoveryFigures(c),
		rows:    [][]string{{"condition", "claim", "left", "right", "verdict", "note"}},
	}
	for _, v := range c.Certificate.Conditions {
		verdict := string(v.Verdict)
		if v.Verdict == batchnav.DoesNot {
			verdict = strings.ToUpper(verdict)
		}
		s.rows = append(s.rows, []string{v.Name, v.Claim, v.Left.Text("%.3g"), v.Right.Text("%.3g"), verdict, v.Note})
	}
	return s
}

// certified are the certificates of all devices, one of each case.
func (d devices) certified() (all []batchnav.Certified) {
	for _, r := range d {
		for _, c := range r.Certificates {
			if !slices.ContainsFunc(all, func(o batchnav.Certified) bool { return o.Certificate.Case == c.Certificate.Case }) {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b batchnav.Certified) int { return cmp.Compare(a.Certificate.Case, b.Certificate.Case) })
	return all
}

// conditions counts the verdicts of every certificate.
func (d devices) conditions() string {
	s := section{rows: [][]string{{"case", "conditions", "hold", "do not hold", "say nothing", "not measured", "broken in closed loop", "commit"}}}
	for _, c := range d.certified() {
		n := c.Certificate.Verdicts()
		var broken []string
		for _, v := range c.Certificate.Broken() {
			broken = append(broken, v.Beyond())
		}
		s.rows = append(s.rows, []string{
			c.Certificate.Case, fmt.Sprint(len(c.Certificate.Conditions)), fmt.Sprint(n[batchnav.Holds]), fmt.Sprint(n[batchnav.DoesNot]),
			fmt.Sprint(n[batchnav.SaysNought]), fmt.Sprint(n[batchnav.Unmeasured]), cmp.Or(strings.Join(broken, "; "), "–"), c.Commit,
		})
	}
	return tables(s)
}

// conditionsBroken names the maps whose decoded actions leave the limits, and says where the certified loop breaks a margin.
func (d devices) conditionsBroken() string {
	var negative, broken []string
	for _, c := range d.certified() {
		name, k := "`"+c.Certificate.Case+"`", c.Certificate
		if k.Constants.GammaMin < 0 {
			negative = append(negative, name)
		}
		if m := k.Measured; m != nil && m.Violations > 0 {
			broken = append(broken, fmt.Sprintf("%d of %d decisions of %s", m.Violations, m.Decisions, name))
		}
	}
	text := ""
	if len(negative) > 0 {
		text += "\nThe decoded action's least margin is negative on " + strings.Join(negative, ", ") + ": there the projection keeps the limits.\n"
	}
	if len(broken) > 0 {
		text += "\nThe loop of Algorithm 2 breaks a margin in " + strings.Join(broken, ", and in ") + ".\n"
	}
	return text
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
