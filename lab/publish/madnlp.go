package publish

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

//go:embed madnlp.csv
var madnlpTable string

// Columns of madnlp.csv after the network: published seconds of a solver to a tolerance.
const (
	madnlpLoose = iota
	madnlpTight
	ma27Loose
	ma27Tight
	publishedColumns
)

// publishedFlow is a network with the times of madnlp.csv, 0 where a solver found no optimum, and ours of a first solve, all s.
type publishedFlow struct {
	network *optima.Network
	times   [publishedColumns]float64
	ours    float64
}

// publishedFlows are the networks of a text like madnlp.csv that the record has an optimum of, by their sizes, and how many it has not.
func publishedFlows(text string, r *optima.OptimalFlows) (flows []publishedFlow, missing int, err error) {
	lines := csv.NewReader(strings.NewReader(text))
	lines.Comment, lines.FieldsPerRecord = '#', 1+publishedColumns
	rows, err := lines.ReadAll()
	if err != nil {
		return nil, 0, err
	}
	for _, row := range rows[1:] {
		f := publishedFlow{network: r.Of(row[0])}
		for i, cell := range row[1:] {
			if cell == "" {
				continue
			}
			if f.times[i], err = strconv.ParseFloat(cell, 64); err != nil || !(f.times[i] > 0) {
				return nil, 0, fmt.Errorf("%s: a time of %q s", row[0], cell)
			}
		}
		var solved bool
		if f.ours, solved = firstSeconds(f.network); !solved {
			missing++
			continue
		}
		flows = append(flows, f)
	}
	slices.SortStableFunc(flows, func(a, b publishedFlow) int { return a.network.Buses - b.network.Buses })
	return flows, missing, nil
}

// firstSeconds is the wall time of the analysis of a network and its solve from the flat start, if that has an optimum.
func firstSeconds(n *optima.Network) (s float64, solved bool) {
	switch {
	case n == nil:
		return 0, false
	case len(n.Starts) > 0:
		return (n.SetupMS + n.Starts[0].WallMS) / 1e3, n.Starts[0].Objective != nil
	}
	return (n.SetupMS + n.WallMS) / 1e3, n.Optimal()
}

// publishedRatios are a column's times over ours where both have an optimum, how many of them are above 1, and names of the networks
// where the published time is the shorter one, and where there is none.
type publishedRatios struct {
	ratios           []float64
	faster           int
	slower, unsolved []string
}

func ratiosOf(flows []publishedFlow, column int) (p publishedRatios) {
	for _, f := range flows {
		name := fmt.Sprintf("`%s`", f.network.Name)
		switch ratio := f.times[column] / f.ours; {
		case ratio == 0:
			p.unsolved = append(p.unsolved, name)
			continue
		case ratio > 1:
			p.faster++
			p.ratios = append(p.ratios, ratio)
		default:
			p.slower = append(p.slower, name)
			p.ratios = append(p.ratios, ratio)
		}
	}
	return p
}

func (p *publishedRatios) mean() string {
	if len(p.ratios) == 0 {
		return "–"
	}
	return report.Ratio(peerrecord.GeometricMean(p.ratios))
}

// sentence says how a published solver stands beside ours to a tolerance.
func (p *publishedRatios) sentence(solver, tolerance string) string {
	text := fmt.Sprintf("At %s %s takes %s times as long as `gpc` in the geometric mean of the %d networks that it solves; `gpc` is faster on %d", tolerance, solver, p.mean(), len(p.ratios), p.faster)
	if len(p.slower) > 0 {
		text += " and slower on " + strings.Join(p.slower, ", ")
	}
	if len(p.unsolved) > 0 {
		text += "; it has no optimum of " + strings.Join(p.unsolved, ", ")
	}
	return text + "."
}

// onceGPUsGain is from how many buses on a GPU's time depends on the network: below, it is that of starting its kernels.
const onceGPUsGain = 1000

// largePublished is from how many buses on a network has a row of its own beside published times.
const largePublished = 5000

// publishedNote says what is compared.
const publishedNote = "Seconds of wall time of a first solve, the analysis of the network counted, from a flat start. `gpc` has one core and ends at 1e-8 and balances of 1e-9 pu in every column. The others are published, on other hardware and with other tests of convergence: MadNLP with cuDSS on an NVIDIA Quadro GV100, IPOPT with MA27 on an Intel Xeon Gold 6130, both with ExaModels' derivatives, the second of two calls in a process ([arXiv 2508.16094](https://arxiv.org/abs/2508.16094), full tables). Building the model, and reading the file, are left out on all sides. None of it was measured here, nor a newer GPU."

// besidePublished are published times of a GPU beside ours.
func besidePublished(r *optima.OptimalFlows) string {
	flows, missing, err := publishedFlows(madnlpTable, r)
	if err != nil {
		return fmt.Sprintf("The published times cannot be read: %v.\n", err)
	}
	if len(flows) == 0 {
		return noRecord
	}
	tight, loose := ratiosOf(flows, madnlpTight), ratiosOf(flows, madnlpLoose)
	sizes := report.Section{Note: publishedNote + " " + tight.sentence("MadNLP", "1e-8") + " " + loose.sentence("MadNLP", "1e-4"), Rows: publishedSizes(flows)}
	if missing > 0 {
		sizes.Note += fmt.Sprintf(" %d published networks are left out: `gpc` has no optimum of them.", missing)
	}
	large := report.Section{Note: fmt.Sprintf("Networks of %d buses or more:", largePublished), Provenance: report.OptimalFlowsOrigin(r), Rows: largePublishedRows(flows)}
	return report.Tables(sizes, large)
}

// shownColumns are those of madnlp.csv that tables show.
var shownColumns = []int{madnlpTight, madnlpLoose, ma27Tight}

// publishedSizes has a row for networks of like sizes, and one of all.
func publishedSizes(flows []publishedFlow) [][]string {
	rows := [][]string{{"buses", "networks", "MadNLP to 1e-8 / `gpc`", "`gpc` faster", "MadNLP to 1e-4 / `gpc`", "`gpc` faster", "IPOPT with MA27 to 1e-8 / `gpc`", "`gpc` faster"}}
	for least, bounds := 0, []int{onceGPUsGain, largePublished, 20000, math.MaxInt}; len(bounds) > 0; least, bounds = bounds[0], bounds[1:] {
		title := fmt.Sprintf("%d to %d", least, bounds[0]-1)
		if len(bounds) == 1 {
			title = fmt.Sprintf("from %d", least)
		}
		var of []publishedFlow
		for _, f := range flows {
			if n := f.network.Buses; n >= least && n < bounds[0] {
				of = append(of, f)
			}
		}
		rows = append(rows, publishedSize(title, of))
	}
	return append(rows, publishedSize("all", flows))
}

// largePublishedRows has the times of every large network.
func largePublishedRows(flows []publishedFlow) [][]string {
	rows := [][]string{{"network", "buses", "`gpc`, s", "MadNLP to 1e-8, s", "MadNLP to 1e-4, s", "IPOPT with MA27 to 1e-8, s"}}
	for _, f := range flows {
		if f.network.Buses < largePublished {
			continue
		}
		row := []string{f.network.Name, fmt.Sprint(f.network.Buses), fmt.Sprintf("%.3g", f.ours)}
		for _, column := range shownColumns {
			cell := "no optimum"
			if f.times[column] > 0 {
				cell = fmt.Sprintf("%.3g", f.times[column])
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// publishedSize is the row of networks of like sizes: each column's mean ratio, and where we are faster.
func publishedSize(title string, of []publishedFlow) []string {
	row := []string{title, fmt.Sprint(len(of))}
	for _, column := range shownColumns {
		p := ratiosOf(of, column)
		row = append(row, p.mean(), fmt.Sprintf("%d of %d", p.faster, len(p.ratios)))
	}
	return row
}
