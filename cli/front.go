package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
)

// Trades is what `gpc front --json` prints.
type Trades struct {
	Case string `json:"case"` // its name
	*batchnav.Front
	Best             *int               `json:"within"`                      // the best point within the bounds of --within; null: there are no bounds, or no such point
	TimeUs           float64            `json:"time_us"`                     // of the last of --repeat, µs
	Exact            *batchnav.Front    `json:"exact,omitempty"`             // front of the exact solver, of --exact weightings; absent without
	Learned          *batchnav.Front    `json:"same,omitempty"`              // the map's decisions under these weightings
	ExactTimeUs      float64            `json:"exact_time_us,omitempty"`     // of its solves, µs
	HypervolumeRatio *closedloop.Number `json:"hypervolume_ratio,omitempty"` // of the map's front, of the same weightings, to the exact one; NaN: there are more than three objectives
}

func (a *App) frontCommand() *cobra.Command {
	var modelFile, method, stateFile, csvFile string
	var texts []string
	var points, episode, repeat, exact int
	opt := batchnav.FrontOptions{}
	cmd := &cobra.Command{
		Use:   "front CASE [--state FILE] [--points N]",
		Short: "Decide under all weightings of the objectives at once, and show the trade-offs",
		Long: `Asks the map for its decision under many weightings of the objectives: an even lattice, and
more where neighbours differ most. It projects each first action onto the limits, and rolls each decision out under the model, followed by
the map under the same weighting. The table has the cheapest point of each objective, the knee, and the best
point within the bounds of --within. A point is dominated where another one is no dearer in any objective and
cheaper in one. The observation is the start of a test episode, or that of --state. Exit code 1: no point keeps
every limit, or none is within the bounds.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := CheckOutputs([]durable.File{{Name: "--csv", Path: csvFile}}, append(systemFiles(args[0]), durable.File{Name: "--model", Path: modelFile}, durable.File{Name: "--state", Path: stateFile})); err != nil {
				return err
			}
			c, setup, err := a.Setup(cmd, args[0], modelFile, method)
			if err != nil {
				return err
			}
			spec := c.Spec()
			if method != "" && len(spec.Switches) == 0 {
				return BadInputf("--method %s: case %s has no switched inputs, the points are its map's", method, spec.Name)
			}
			if !cmd.Flags().Changed("points") {
				points = c.FrontPoints()
			}
			bounds, err := objectiveBounds(spec, texts)
			if err != nil {
				return err
			}
			if points < spec.ObjectiveSize() {
				return BadInputf("--points %d: want at least %d, one for each objective", points, spec.ObjectiveSize())
			}
			var obs batchnav.Observation
			if exact != 0 && (exact < spec.ObjectiveSize() || exact > points) {
				return BadInputf("--exact %d: want %d weightings to the %d of --points", exact, spec.ObjectiveSize(), points)
			}
			if stateFile != "" {
				if cmd.Flags().Changed("episode") {
					return BadInputf("--state and --episode exclude each other: give one of them")
				}
				obs.S, obs.C, err = a.readState(stateFile, spec)
			} else {
				obs, err = c.Observe(a.seed, episode, domain.EpisodeOptions{Context: cmd.Context(), Preference: domain.Preference{Adaptive: true}})
			}
			if err != nil {
				return err
			}
			e, err := a.OpenEngine()
			if err != nil {
				return err
			}
			defer e.Close()
			f, err := c.Fronts(e, setup)
			if err != nil {
				return err
			}
			opt.Points, opt.Threads = points, a.CPUThreads()
			result := Trades{Case: spec.Name}
			for range repeat {
				start := time.Now()
				if result.Front, err = f.Front(cmd.Context(), obs, opt); err != nil {
					return gpc.BadInput(err)
				}
				result.TimeUs = machine.Microseconds(time.Since(start))
			}
			if exact > 0 {
				if err := result.compare(cmd.Context(), c, f, obs, exact, repeat, opt); err != nil {
					return err
				}
			}
			if result.OffMap {
				a.notice("the observation is off the map: a state or an entry of the context is beyond what it was trained on")
			}
			holds := result.Knee >= 0
			if len(texts) > 0 {
				if k := result.Front.Best(bounds); k >= 0 {
					result.Best = &k
				}
				if holds = holds && result.Best != nil; result.Best == nil {
					a.notice("no point is within the bounds of --within")
				}
			}
			if csvFile != "" {
				rows := frontRows(spec, result.Front)
				if err := durable.Create(csvFile, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(rows) }); err != nil {
					return err
				}
			}
			return a.PrintChecked(holds, &result, func(w io.Writer) { renderFront(w, spec, &result) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled map)")
	f.StringVar(&method, "method", "", "method whose plans are the points, in a case of switched inputs (default: the case's own)")
	f.StringVar(&stateFile, "state", "", "`file` with the observation, - for standard input (default: the start of --episode)")
	f.IntVar(&episode, "episode", 0, "test episode of the seed whose start is the observation")
	f.IntVar(&points, "points", batchnav.DefaultPoints, "weightings, at most")
	f.IntVar(&opt.LookAhead, "look-ahead", 0, "decisions of the roll-outs; 0: to the end of the episode or plan")
	f.StringSliceVar(&texts, "within", nil, "`bounds` OBJECTIVE=MOST of the objectives' sums: of the points within them the table has the one whose other objectives are least together")
	f.IntVar(&opt.Polish, "polish", -1, "improve points' plans by so many `iterations` of the case's own method; 0: none; -1: 10 of points that break a limit, and of all where the map was compiled for a method that polishes")
	f.IntVar(&exact, "exact", 0, "solve so many weightings of an even lattice exactly too, and compare the fronts")
	f.StringVar(&csvFile, "csv", "", "write a row for each point to this `file`")
	f.IntVar(&repeat, "repeat", 1, "decide and solve this many times and report the time of the last: the first pays for allocation and cold caches")
	return cmd
}

// objectiveBounds are those of --within, +Inf for an objective without one.
func objectiveBounds(spec *domain.Spec, list []string) ([]float64, error) {
	bounds := slices.Repeat([]float64{math.Inf(1)}, spec.ObjectiveSize())
	names := domain.Names(spec.Objectives)
	for _, text := range list {
		name, value, _ := strings.Cut(text, "=")
		most, err := strconv.ParseFloat(value, 64)
		if k := slices.Index(names, name); k < 0 {
			return nil, BadInputf("--within %s: want OBJECTIVE=MOST, with one of %s", text, strings.Join(names, ", "))
		} else if err != nil || math.IsNaN(most) {
			return nil, BadInputf("--within %s: want a number after =", text)
		} else if !math.IsInf(bounds[k], 1) {
			return nil, BadInputf("--within %s: a second bound of %s", text, name)
		} else {
			bounds[k] = most
		}
	}
	return bounds, nil
}

// compare solves the weightings of a lattice exactly, and decides them by the map.
func (r *Trades) compare(ctx context.Context, c *gpc.Case, f *batchnav.Fronts, obs batchnav.Observation, points, repeat int, opt batchnav.FrontOptions) (err error) {
	opt.Weights, opt.LookAhead, opt.Plans = dataset.Proper(c.Spec().ObjectiveSize(), points), r.LookAhead, true
	if r.Learned, err = f.Front(ctx, obs, opt); err != nil {
		return err
	}
	for range repeat {
		start := time.Now()
		if r.Exact, err = c.ExactFront(ctx, obs, opt, r.Learned); err != nil {
			return err
		}
		r.ExactTimeUs = machine.Microseconds(time.Since(start))
	}
	r.HypervolumeRatio = new(gpc.HypervolumeRatio(r.Learned, r.Exact))
	return nil
}

// frontRows has a row for each point, after that of the names.
func frontRows(spec *domain.Spec, f *batchnav.Front) [][]string {
	var head []string
	for _, v := range spec.Objectives {
		head = append(head, "weight of "+v.Name)
	}
	rows := [][]string{slices.Concat(head, domain.Names(spec.Action), domain.Names(spec.Objectives), []string{"margin", "feasible", "dominated"})}
	for _, p := range f.Points {
		var row []string
		for _, v := range slices.Concat(p.W, p.U, p.J, []float64{p.Margin}) {
			row = append(row, fmt.Sprintf("%.9g", v))
		}
		rows = append(rows, append(row, strconv.FormatBool(p.Feasible), strconv.FormatBool(p.Dominated)))
	}
	return rows
}

func renderFront(w io.Writer, spec *domain.Spec, r *Trades) {
	feasible, dominated := 0, 0
	for _, p := range r.Points {
		if p.Feasible {
			feasible++
		}
		if p.Dominated {
			dominated++
		}
	}
	fmt.Fprintf(w, "%s: %d weightings, %d keep every limit, %d of these dominated, %d polished; look-ahead %d decisions, %.2f ms\n\n", spec.Name, len(r.Points), feasible, dominated, r.Polished, r.LookAhead, r.TimeUs/1e3)
	rows := [][]string{slices.Concat([]string{"point", "weights"}, domain.Names(spec.Objectives), domain.Names(spec.Action), []string{"margin"})}
	show := func(name string, k int) {
		if k < 0 {
			return
		}
		p := &r.Points[k]
		var weights []string
		for _, v := range p.W {
			weights = append(weights, fmt.Sprintf("%.7g", v)) // which sum to 1 as a preference has to
		}
		row := []string{name, strings.Join(weights, ",")}
		for _, v := range slices.Concat(p.J, p.U) {
			row = append(row, fmt.Sprintf("%.5g", v))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.1e", p.Margin)))
	}
	for j, v := range spec.Objectives {
		least := -1
		for k, p := range r.Points {
			if p.Feasible && !p.Dominated && (least < 0 || p.J[j] < r.Points[least].J[j]) {
				least = k
			}
		}
		show("least "+v.Name, least)
	}
	show("knee", r.Knee)
	if r.Best != nil {
		show("within", *r.Best)
	}
	Table(w, rows)
	switch {
	case r.Exact != nil && len(r.Exact.Points) == 0:
		fmt.Fprintf(w, "\nexact solver: found no plan that keeps the limits, in %.2f ms\n", r.ExactTimeUs/1e3)
	case r.Exact != nil:
		fmt.Fprintf(w, "\nexact solver: %d weightings in %.2f ms; the map has %.4f of their hypervolume\n", len(r.Exact.Points), r.ExactTimeUs/1e3, *r.HypervolumeRatio)
	}
}
