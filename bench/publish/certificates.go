package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench/report"
)

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
	s := report.Section{Rows: [][]string{{"case", "conditions", "hold", "do not hold", "say nothing", "not measured", "broken in closed loop", "commit"}}}
	for _, c := range d.certified() {
		n := c.Certificate.Verdicts()
		var broken []string
		for _, v := range c.Certificate.Broken() {
			broken = append(broken, v.Beyond())
		}
		s.Rows = append(s.Rows, []string{
			c.Certificate.Case, fmt.Sprint(len(c.Certificate.Conditions)), fmt.Sprint(n[batchnav.Holds]), fmt.Sprint(n[batchnav.DoesNot]),
			fmt.Sprint(n[batchnav.SaysNought]), fmt.Sprint(n[batchnav.Unmeasured]), cmp.Or(strings.Join(broken, "; "), "–"), c.Commit,
		})
	}
	return report.Tables(s)
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
