package closedloop

import (
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
)

// Finer is a case in a plant that is integrated in Factor times the steps of its own.
type Finer struct {
	Case   *domain.Case
	Factor int
}

// finerEpisodes are driven in the finer plant.
const finerEpisodes = 4

// Integration says what the integrator of a plant is worth: the same episodes in the plant, and in one of finer steps.
type Integration struct {
	Episodes  int    `json:"episodes"`   // driven in both plants
	Factor    int    `json:"factor"`     // of the substeps of the finer one
	CostPct   Number `json:"cost_pct"`   // of the mean cost in the finer plant above that in the plant, %
	Safe      Number `json:"safe"`       // share in the plant
	SafeFiner Number `json:"safe_finer"` // share in the finer one
	// MarginFiner is ordinarily a little below zero where plans touch a limit.
	MarginFiner Number `json:"margin_min_finer"` // least margin of all episodes in the finer one
}

func (i *Integration) String() string {
	text := fmt.Sprintf("integration: %s %%", i.CostPct.Text("%.2g"))
	if i.Safe != i.SafeFiner {
		text += fmt.Sprintf(", safe %s, and %s with steps of 1/%d, where a margin comes to %s", i.Safe.Text("%.2g"), i.SafeFiner.Text("%.2g"), i.Factor, i.MarginFiner.Text("%.2g"))
	}
	return text
}

// check drives the first episodes of a result in the finer plant.
func (f *Finer) check(ctx context.Context, r *Result, factory func() (domain.Controller, error), opt Options) (*Integration, error) {
	opt.Episodes, opt.WithoutOptima, opt.Finer = min(opt.Episodes, finerEpisodes), true, nil
	opt.Progress, opt.Visit = nil, nil
	opt.TracePath, opt.Resume, opt.Limit = "", false, LoadLimit{}
	better, err := Evaluate(ctx, f.Case, factory, opt)
	if err != nil {
		return nil, err
	}
	opt.Episodes = better.Episodes // fewer where a budget ended them
	mean := func(o *Outcomes) (cost, safe Number) {
		first := o.list()[:min(opt.Episodes, len(o.Episode))]
		for _, e := range first {
			cost += Number(e.cost / float64(len(first)))
			if e.safe {
				safe += 1 / Number(opt.Episodes)
			}
		}
		return cost, safe
	}
	i := &Integration{Episodes: opt.Episodes, Factor: f.Factor, MarginFiner: better.MarginMin}
	var cost, costFiner Number
	cost, i.Safe = mean(r.Outcomes)
	costFiner, i.SafeFiner = mean(better.Outcomes)
	i.CostPct = 100 * (costFiner - cost) / cost
	return i, nil
}
