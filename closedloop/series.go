package closedloop

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/domain"
)

// Series follows episodes over their decisions. At each point along them it has the mean over the episodes that came
// that far, and the 10 and 90 % quantiles.
type Series struct {
	// Interval is how many decisions a point is the mean of; point k has those from k·Interval on.
	Interval int    `json:"every"`    // decisions that each point along the episodes is the mean of
	Episodes int    `json:"episodes"` // that are counted: of the first 200
	Total    Band   `json:"total"`    // Σ J_i
	Weighted Band   `json:"weighted"` // Σ σ_i J_i with σ as the plant scores the decision
	J        []Band `json:"j"`        // each objective
	Sigma    []Band `json:"sigma"`    // each entry of σ
}

// Band is a quantity along the points.
type Band struct {
	Mean Vector `json:"mean"` // over episodes; null where none has a number
	P10  Vector `json:"p10"`  // the 10 % quantile
	P90  Vector `json:"p90"`  // the 90 % quantile
}

// Bounds of a Series, so that a record of it stays small.
const (
	seriesPoints   = 50
	seriesEpisodes = 200 // those of the slower methods of a case
	meanDigits     = 8   // so that means are told apart
	quantileDigits = 4
)

// series collects what a Series describes: for each quantity and point the episodes' means.
type series struct {
	interval, objectives int
	episodes             int
	values               [][][]float64 // [quantity][point], see quantities
}

func newSeries(spec *domain.Spec, steps int) *series {
	return &series{interval: max(1, (steps+seriesPoints-1)/seriesPoints), objectives: spec.ObjectiveSize()}
}

// add counts an episode; a decision without all its objectives ends it.
func (a *series) add(e *EpisodeRecord) {
	if e.Episode >= seriesEpisodes || len(e.Lines) == 0 {
		return
	}
	a.episodes++
	m := a.objectives
	sum, count := make([]float64, 2+2*m), 0
	for t := range e.Lines {
		l := &e.Lines[t]
		if len(l.J) != m || len(l.Sigma) != m {
			break
		}
		for i := range m {
			sum[0] += l.J[i]
			sum[1] += l.Sigma[i] * l.J[i]
			sum[2+i] += l.J[i]
			sum[2+m+i] += l.Sigma[i]
		}
		if count++; count == a.interval || t == len(e.Lines)-1 {
			a.addMeans(t/a.interval, sum, float64(count))
			clear(sum)
			count = 0
		}
	}
}

// addMeans adds an episode's means at a point, but for what is no number.
func (a *series) addMeans(point int, sum []float64, count float64) {
	if a.values == nil {
		a.values = make([][][]float64, len(sum))
	}
	for q, v := range sum {
		for len(a.values[q]) <= point {
			a.values[q] = append(a.values[q], nil)
		}
		if mean := v / count; finite(mean) {
			a.values[q][point] = append(a.values[q][point], mean)
		}
	}
}

// result is nil where there is nothing to describe.
func (a *series) result() *Series {
	if a.values == nil {
		return nil
	}
	s := &Series{Interval: a.interval, Episodes: a.episodes, Total: bandOf(a.values[0]), Weighted: bandOf(a.values[1])}
	for i := range a.objectives {
		s.J = append(s.J, bandOf(a.values[2+i]))
		s.Sigma = append(s.Sigma, bandOf(a.values[2+a.objectives+i]))
	}
	return s
}

func bandOf(points [][]float64) (b Band) {
	for _, curve := range points {
		v := slices.Sorted(slices.Values(curve))
		if len(v) == 0 {
			undefined := math.NaN()
			b.Mean, b.P10, b.P90 = append(b.Mean, undefined), append(b.P10, undefined), append(b.P90, undefined)
			continue
		}
		quantile := func(p float64) float64 { return rounded(stat.Quantile(p, stat.Empirical, v, nil), quantileDigits) }
		b.Mean, b.P10, b.P90 = append(b.Mean, rounded(stat.Mean(v, nil), meanDigits)), append(b.P10, quantile(0.1)), append(b.P90, quantile(0.9))
	}
	return b
}

// rounded is v to that number of digits.
func rounded(v float64, digits int) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return r
}
