package closedloop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
)

// Contender is a method of a Pairing.
type Contender struct {
	Method string
	// Episodes that a slow method runs, the first ones; 0: all.
	Episodes int
	Device   string // what computes
	Backend  string // of an engine, "" without one
	// ModelSHA256 is of its map or weights, "" without.
	ModelSHA256 string
	// Candidates and Constants are recorded as they are.
	Candidates int
	Constants  map[string]float64
	New        func() (domain.Controller, error)
	// Computing are the declared times of its decisions; nil: those of the options.
	Computing *Computing
}

// Pairing is the record of `gpc eval pair`: methods on the same episodes, one after
// another on the same machine, each beside the first.
type Pairing struct {
	Case          string             `json:"case"`                     // its name
	Seed          uint64             `json:"seed"`                     // of the scenes
	Commit        string             `json:"commit"`                   // of the program
	Device        string             `json:"device"`                   // of the latencies
	ProblemSHA256 string             `json:"problem_sha256,omitempty"` // of the problem; absent from older records, as is the next
	ISA           string             `json:"isa,omitempty"`            // instruction set
	Regime        string             `json:"regime"`                   // of the scenes
	Noise         float64            `json:"noise"`                    // of measurements
	Bias          float64            `json:"bias"`                     // of measurements
	Shift         map[string]float64 `json:"shift"`                    // factors on parameters of the plant
	Sensing
	Preference []float64 `json:"preference,omitempty"` // fixed weights of the objectives (`--preference`); absent: the adaptive priority
	// Plant and Steps are as in Header.
	Plant        *domain.OtherPlant `json:"plant,omitempty"`
	Steps        int                `json:"steps,omitempty"`         // decisions of an episode, where `--steps` asked for them; absent: the case's own number
	ScenesSHA256 string             `json:"scenes_sha256,omitempty"` // of the scenes that were given; absent: they were drawn
	Excursions   []Excursion        `json:"beyond,omitempty"`
	NoReference  []MissingReference `json:"no_reference,omitempty"`         // why the first method's episodes have nothing to compare with, a reason each; absent: all have
	Integration  *Integration       `json:"integration,omitempty"`          // a few of the first method's episodes in a plant of finer steps of integration; absent where the plant is not the model, or its system has no ODE
	SteadyState  string             `json:"steady_state_outside,omitempty"` // of a plant that runs on, what state's range the optimal steady state at the end of a plan lies outside of, or that there is none; absent: neither
	// Map is the one that methods with a map decide by.
	Map   PairedMap `json:"map"`
	Pairs []Paired  `json:"pairs"`
	Load  *Load     `json:"load,omitempty"` // of the machine during all of it; null without times (`--untimed`)
}

// Untimed leaves the times out of the record: those of a machine that did other work say nothing.
func (p *Pairing) Untimed() {
	p.Load = nil
	for i := range p.Pairs {
		p.Pairs[i].Latency, p.Pairs[i].LatencyMean, p.Pairs[i].Prepare = noLatency(), Number(math.NaN()), nil
	}
}

// PairedMap is a map with how much it was trained on.
type PairedMap struct {
	File    string `json:"file"`    // its name without folder and ending; "" for the bundled one
	Samples int    `json:"samples"` // that it was last trained on
}

// Paired is one method of a Pairing. Regret, as in Result, is over its safe episodes,
// the difference to the first method's over those in which both are safe. Every CI95 is
// half the width of the 95 % interval of a mean by Student's t; null for fewer than two
// episodes.
type Paired struct {
	Method     string `json:"method"`               // in the order asked for
	BestKnown  int    `json:"best_known,omitempty"` // episodes in which no reference costs as little, nor a method before it; absent: none
	Candidates int    `json:"candidates,omitempty"` // of a decision, where another number than the method's own was asked for
	// Constants of the online step in place of the method's own, by name.
	Constants   map[string]float64 `json:"constants,omitempty"`
	ModelSHA256 string             `json:"model_sha256,omitempty"` // of its map or weights; absent for a method without
	Backend     string             `json:"backend,omitempty"`      // that it ran on; absent for one that no engine computes
	Episodes    int                `json:"episodes"`               // run
	Safe        int                `json:"safe"`                   // of them
	Failed      int                `json:"failed"`                 // of them: through a lost state
	SafeCI95    Interval           `json:"safe_ci95"`              // interval of the share
	NoWay       int                `json:"no_way,omitempty"`       // episodes whose first decision had no plan that keeps off the limits by all that is asked for; absent for none
	SafeNoWay   int                `json:"safe_no_way,omitempty"`  // those of them that were safe all the same
	// Computing and Late are as in Result.
	Computing   *Computing `json:"computing_us,omitempty"`
	Late        int        `json:"late,omitempty"`   // decisions that came behind their period by these times; absent: 0
	Decisions   int        `json:"decisions"`        // taken
	Violations  int        `json:"violations"`       // of them: broke a margin
	Fallback    int        `json:"fallback"`         // of them: something else was executed
	RegretPct   Number     `json:"regret_pct"`       // mean over the safe episodes
	RegretCI95  Number     `json:"regret_ci95_pct"`  // half-width by Student's t
	RegretWorst Number     `json:"regret_worst_pct"` // largest
	RegretN     int        `json:"regret_n"`         // number of these episodes
	// Regret is the distribution of the same, with intervals that need no normal one.
	Regret         RegretStatistics `json:"regret"`
	DifferencePct  Number           `json:"difference_pct"`      // regret less the first method's on the same episodes, mean
	DifferenceCI95 Number           `json:"difference_ci95_pct"` // half-width
	// Difference is the distribution of the differences.
	Difference RegretStatistics `json:"difference"`
	Compared   int              `json:"compared"` // number of these episodes
	// Cost is by how much its episodes cost more than the first method's, in %: of those in which
	// both are safe, whether they have an optimum or not.
	Cost RegretStatistics `json:"cost"`
	// AboveBest is by how much its safe episodes cost more, in %, than the least of the optimum and of what any safe method
	// cost; absent from older records.
	AboveBest   *RegretStatistics `json:"above_best,omitempty"`
	MarginMean  Number            `json:"margin_mean"`          // mean over the episodes of the smallest margin
	MarginCI95  Number            `json:"margin_ci95"`          // half-width by Student's t
	MarginMin   Number            `json:"margin_min"`           // smallest of all
	Latency     Latency           `json:"latency_us"`           // null of a record without times (`--untimed`)
	LatencyMean Number            `json:"latency_mean_us"`      // mean over the decisions; null alike
	Prepare     *Quantiles        `json:"prepare_us,omitempty"` // of what a method that works between decisions does there; absent for others
	Guard       *GuardCounts      `json:"guard,omitempty"`
	// Soft is as in Result.
	Soft []SoftStatistics `json:"soft,omitempty"`
}

// Pair runs the methods on the episodes of opt, whose Method, Device and trace are not
// read. The optimum of an episode is found once for all of them. The record lacks the Map.
func Pair(ctx context.Context, c *domain.Case, methods []Contender, opt Options) (*Pairing, error) {
	if len(methods) == 0 || opt.TracePath != "" || opt.ShardCount > 1 {
		return nil, fmt.Errorf("a comparison of %d methods with trace %q and %d shards: want at least one method, no trace and no shards", len(methods), opt.TracePath, opt.ShardCount)
	}
	p := &Pairing{Case: c.Problem.Spec().Name, Seed: opt.Seed, Commit: opt.Commit, Regime: opt.Regime, Noise: opt.Noise, Bias: opt.Bias, Sensing: SensingOf(c), Preference: opt.Preference.W, Shift: c.Shift, Plant: c.Other, Steps: stepsOf(c.Plant)}
	watch, err := machine.Begin(opt.Limit)
	if err != nil {
		return nil, err
	}
	opt.Limit, opt.optima = LoadLimit{}, &optima{byEpisode: map[int]optimum{}}
	var costs []map[int]float64 // of each method, by episode, where it is safe
	total, finished := 0, 0     // episodes of all methods, and of those that are done
	for _, m := range methods {
		total += cmp.Or(m.Episodes, opt.Episodes)
	}
	for _, m := range methods {
		if m.Episodes < 0 || m.Episodes > opt.Episodes {
			return nil, fmt.Errorf("%d episodes for method %q, want at most the %d of the comparison", m.Episodes, m.Method, opt.Episodes)
		}
		options := opt
		options.Method, options.ModelSHA256 = m.Method, m.ModelSHA256
		options.Device, options.Backend = m.Device, m.Backend
		options.Computing = cmp.Or(m.Computing, opt.Computing)
		if m.Episodes > 0 {
			options.Episodes = m.Episodes
			options.Scenes = opt.Scenes.first(m.Episodes)
		}
		if opt.Progress != nil {
			options.Progress = func(episodes, _ int) { opt.Progress(finished+episodes, total) }
		}
		cost, elapsed := map[int]float64{}, 0.0
		options.Visit = func(e *EpisodeRecord) {
			for i := range e.Lines {
				elapsed += float64(e.Lines[i].Latency)
			}
			if e.End.Safe {
				cost[e.Episode] = float64(e.End.Cost)
			}
		}
		r, err := Evaluate(ctx, c, m.New, options)
		if err != nil {
			return nil, err
		}
		if p.Pairs == nil {
			p.NoReference, p.SteadyState = r.NoReference, r.SteadyState
			p.Integration, opt.Finer = r.Integration, nil
		}
		finished += options.Episodes
		costs = append(costs, cost)
		p.Device, p.ProblemSHA256, p.ISA = m.Device, r.ProblemSHA256, r.ISA
		if opt.Scenes != nil && len(r.Excursions) >= len(p.Excursions) {
			p.ScenesSHA256, p.Excursions = opt.Scenes.SHA256, r.Excursions
		}
		row := Paired{
			Method: m.Method, Candidates: m.Candidates, Constants: m.Constants, ModelSHA256: r.ModelSHA256, Backend: r.Backend, Episodes: r.Episodes, Safe: len(cost), Failed: r.Failed, SafeCI95: r.CI95.Safe, BestKnown: r.BestKnown,
			Decisions: r.Decisions, Violations: r.Violations, Fallback: r.Fallback, RegretWorst: Number(math.NaN()), Latency: r.Latency, Prepare: r.Prepare, Guard: r.Guard, Soft: r.Soft,
			MarginMean: r.MarginMean, MarginCI95: halfWidth(float64(r.MarginSEM), r.Episodes), MarginMin: r.MarginMin, LatencyMean: Number(elapsed / float64(r.Decisions)),
		}
		row.Computing, row.Late = r.Computing, r.Late
		row.NoWay, row.SafeNoWay = r.NoWay, r.SafeNoWay
		var dearer []float64
		for _, i := range slices.Sorted(maps.Keys(cost)) {
			if w, ok := costs[0][i]; ok && w > 0 {
				dearer = append(dearer, 100*(cost[i]-w)/w)
			}
		}
		row.Cost = DescribeRegret(dearer)
		p.Pairs = append(p.Pairs, row)
	}
	p.compareReferences(costs, opt.optima)
	p.besideTheBest(costs, opt.optima)
	if p.Load, err = watch.End(); err != nil {
		return nil, err
	}
	return p, nil
}

// compareReferences compares methods by episode with the references, which a later method may have improved.
func (p *Pairing) compareReferences(costs []map[int]float64, reference *optima) {
	for k := range p.Pairs {
		row := &p.Pairs[k]
		var all, difference []float64
		for _, i := range slices.Sorted(maps.Keys(costs[k])) {
			oracle := float64(reference.byEpisode[i].cost)
			v, ok := regret(costs[k][i], oracle)
			if !ok {
				continue
			}
			if all = append(all, v); row.RegretN == 0 || v > float64(row.RegretWorst) {
				row.RegretWorst = Number(v)
			}
			row.RegretN++
			if w, ok := costs[0][i]; ok {
				first, _ := regret(w, oracle)
				difference = append(difference, v-first)
			}
		}
		row.Regret = DescribeRegret(slices.Clone(all))
		row.RegretPct, row.RegretCI95 = MeanAndInterval(all)
		row.DifferencePct, row.DifferenceCI95 = MeanAndInterval(difference)
		row.Compared, row.Difference = len(difference), DescribeRegret(difference)
	}
}

// besideTheBest sets what each method costs by episode beside the least that is known.
func (p *Pairing) besideTheBest(costs []map[int]float64, reference *optima) {
	best := map[int]float64{}
	for i, o := range reference.byEpisode {
		if cost := float64(o.cost); !math.IsNaN(cost) {
			best[i] = cost
		}
	}
	for _, method := range costs {
		for i, cost := range method {
			if least, ok := best[i]; !ok || cost < least {
				best[i] = cost
			}
		}
	}
	for k, method := range costs {
		var regret []float64
		for i, cost := range method {
			if best[i] > 0 {
				regret = append(regret, 100*(cost/best[i]-1))
			}
		}
		p.Pairs[k].AboveBest = new(DescribeRegret(regret))
	}
}

// MeanAndInterval returns the mean and half the width of its 95 % interval by Student's
// t; NaN where undefined.
func MeanAndInterval(v []float64) (mean, half Number) {
	m, sem := meanAndError(v)
	return Number(m), halfWidth(sem, len(v))
}

// halfWidth is half of a mean's 95 % interval from its standard error over n values; NaN for
// fewer than two.
func halfWidth(sem float64, n int) Number {
	if n < 2 {
		return Number(math.NaN())
	}
	return Number(distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile((1+confidence)/2) * sem)
}
