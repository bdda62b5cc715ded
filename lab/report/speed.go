package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/lab/compare"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// PeersNote says how a record of other programs' times was taken, and what is not in it.
func PeersNote(p *peerrecord.Record) string {
	text := cmp.Or(p.Note, "Both in one run; CPU time of one thread, medians of alternating rounds.")
	for _, m := range p.Missing {
		text += " Not in this run: " + m + "."
	}
	return text
}

// peersSection is a record of other programs' times beside ours.
func peersSection(p peerrecord.Record) Section {
	var peers []string
	for _, v := range p.Ratios {
		if !slices.Contains(peers, v.Peer) {
			peers = append(peers, v.Peer)
		}
	}
	s := Section{
		title:      "Beside " + strings.Join(peers, ", "),
		Note:       PeersNote(&p) + " The ratio is the peer's time over ours, with its spread over the rounds.",
		Provenance: Origin("", p.Commit, p.Device, p.Load),
	}
	for _, c := range p.Checks {
		lower := ""
		if c.Lower > 0 {
			lower = fmt.Sprintf(", in %d at lower ones", c.Lower)
		}
		s.Note += fmt.Sprintf(" %s: %d of our %d decisions without a solution; %s from our plans ends at our costs to %.1e in %d of them%s, plans as timed are within %.1e.",
			c.Case, c.Unsolved, c.Decisions, c.Peer, c.Worst, c.Compared, lower, c.Above)
	}
	columns := Columns{
		{"operation", "{Op}"}, {"case", "{Case}"}, {"peer", "{Peer}"}, {"batch", "{Batch}"},
		{"ours, µs", "{OursUS %.1f}"}, {"peer, µs", "{PeerUS %.0f}"}, {"ratio", "{Ratio times}"}, {"spread", "[{Lo times}, {Hi times}]"},
	}
	if slices.ContainsFunc(p.Ratios, func(v peerrecord.Ratio) bool { return v.Decisions > 0 }) {
		columns = append(columns, [2]string{"decisions", "{Decisions}"}, [2]string{"unsolved by the peer", "{Unsolved}"}, [2]string{"at a lower cost", "{Lower}"}, [2]string{"at a higher cost", "{Higher}"})
	}
	s.Rows = Table(columns, p.Ratios)
	return s
}

// Ratio is a ratio to three digits, or all of them before the point.
func Ratio(ratio float64) string {
	if ratio >= 100 {
		return fmt.Sprintf("%.0f", ratio)
	}
	return fmt.Sprintf("%.3g", ratio)
}

// Conformance says which tests of the kernels passed on a device.
type Conformance struct {
	Device string  `json:"device"`
	Commit string  `json:"commit"`
	Suites []Suite `json:"suites"`
}

// Suite is one run of a test program: tests by name but for those that passed.
type Suite struct {
	Name    string   `json:"step"`
	OK      bool     `json:"ok"`
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed"`
	Skipped []string `json:"skipped"`
	Seconds float64  `json:"seconds"`
}

func conformanceSection(c Conformance) Section {
	s := Section{
		title:      "Kernels held to float64 on the device",
		Provenance: Origin("", c.Commit, c.Device),
		Rows:       [][]string{{"suite", "passed", "failed", "skipped", "s"}},
	}
	for _, v := range c.Suites {
		failed := cmp.Or(strings.Join(v.Failed, ", "), "0")
		if !v.OK && len(v.Failed) == 0 {
			failed = "did not end"
		}
		s.Rows = append(s.Rows, []string{v.Name, fmt.Sprint(v.Passed), failed, cmp.Or(strings.Join(v.Skipped, ", "), "0"), fmt.Sprintf("%.0f", v.Seconds)})
	}
	return s
}

// ConditionsOf are the sets of networks of PGLib, by what their names end with.
var ConditionsOf = []struct{ End, Title string }{
	{"", "typical"}, {"__api", "heavily loaded (api)"}, {"__sad", "small angle differences (sad)"},
}

// EndOf is what the name of a network ends with.
func EndOf(name string) string {
	for _, c := range ConditionsOf[1:] {
		if strings.HasSuffix(name, c.End) {
			return c.End
		}
	}
	return ""
}

// GapOf is the relative gap to the published optimum, a dash where there is none.
func GapOf(n *optima.Network) string {
	if n.Gap == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1e", *n.Gap)
}

// OptimalFlowsNote says how a record of optimal power flows was taken, and what second starts were worth.
func OptimalFlowsNote(r *optima.OptimalFlows) string {
	text := fmt.Sprintf("CPU time of the first solve from the flat start, without the analysis of the network. The violation is of the limits by a power flow of the dispatch. Published values and times: %s, where a time is 1 s or more, on other hardware.", cmp.Or(r.Published, "none"))
	var lower []string
	twice, flat, both := 0, 0.0, 0.0
	for i := range r.Networks {
		n := &r.Networks[i]
		if len(n.Starts) < 2 {
			continue
		}
		twice++
		flat += n.Starts[0].CPUMS
		for _, s := range n.Starts {
			both += s.CPUMS
		}
		if n.Lower() {
			lower = append(lower, n.Name)
		}
	}
	if twice == 0 {
		return text
	}
	text += fmt.Sprintf(" %d networks were also solved from the nearest feasible point: both starts of all took %.2g times the CPU time of the flat ones. A lower optimum from there counts, with iterations and time of both starts", twice, both/flat)
	if len(lower) == 0 {
		return text + ": there is none."
	}
	return text + ": " + strings.Join(lower, ", ") + "."
}

// OptimalFlowsOrigin says where a record of optimal power flows comes from.
func OptimalFlowsOrigin(r *optima.OptimalFlows) string {
	return Origin(r.Command, r.Commit, fmt.Sprintf("%s, %d threads", r.Device, r.Threads), r.Load)
}

// optimalFlowsSection is the record whole, and its figure.
func optimalFlowsSection(r optima.OptimalFlows) Section {
	return Section{title: "Optimal power flows of many networks", Note: OptimalFlowsNote(&r), Provenance: OptimalFlowsOrigin(&r), figures: []*draw.Figure{optimalFlowsFigure(&r)},
		Rows: Table(Columns{
			{"network", "{Name}"}, {"buses", "{Buses}"}, {"status", "{Status}"}, {"objective, $/h", "{Objective %.7g}"}, {"gap", "{Gap %+.1e}"},
			{"iterations", "{Iterations}"}, {"CPU time, s", "{CPUMS %.3g /1e3}"}, {"analysis, s", "{SetupMS %.3g /1e3}"},
			{"violation, pu", "{Violation %.1e}"}, {"memory, MB", "{PeakMB %.0f}"},
		}, r.Networks)}
}

// optimalFlowsFigure is time against buses, ours and as published.
func optimalFlowsFigure(r *optima.OptimalFlows) *draw.Figure {
	f := draw.New("optimal-flows", "optimal power flows: time against buses", draw.Log("size of the network", "buses"), draw.Log("CPU time", "s"))
	for k, c := range ConditionsOf {
		var xs, ys []float64
		for _, n := range r.Networks {
			if n.Optimal() && EndOf(n.Name) == c.End {
				xs, ys = append(xs, float64(n.Buses)), append(ys, n.CPUMS/1e3)
			}
		}
		f.Points(c.Title, draw.Colour(k), draw.Disc, xs, ys)
	}
	var xs, ys []float64
	for _, n := range r.Networks {
		if n.PeerMS != nil {
			xs, ys = append(xs, float64(n.Buses)), append(ys, *n.PeerMS/1e3)
		}
	}
	f.Points("published, other hardware", draw.Colour(draw.Grey), draw.Cross, xs, ys)
	f.Caption = "CPU time of one solve from the flat start, each network once; published times of 1 s or more are IPOPT's with HSL through PowerModels on other hardware."
	return f
}

// ScalingFigures are one for each axis: the cost with its intervals, and the fit.
func ScalingFigures(s *scaling.Scaling) (figures []*draw.Figure) {
	for i := range s.Curves {
		c := &s.Curves[i]
		f := draw.New("scaling-"+file(c.Axis), "cost against "+c.Axis, draw.Log(c.Axis, "count"), draw.Log("median of a call", "µs"))
		var xs, ys []float64
		for _, p := range c.Points {
			x := float64(p.X)
			xs, ys = append(xs, x), append(ys, p.Median)
			f.ErrorBar(draw.Colour(0), x, p.Interval[0], p.Interval[1])
		}
		f.Points("measured", draw.Colour(0), draw.Disc, xs, ys)
		f.Caption = strings.ToUpper(c.What[:min(1, len(c.What))]) + c.What[min(1, len(c.What)):] + "."
		for k, n := range []int{0, c.Upper()} {
			p, err := c.Cost(n)
			if err != nil || k > 0 && n == len(c.Points) {
				continue
			}
			f.Line([]string{"size^", "the largest: size^"}[k]+Number("%.2f", p.Exponent), draw.Colour(k+1), true, []float64{float64(p.From), float64(p.To)},
				[]float64{p.Constant * math.Pow(float64(p.From), p.Exponent), p.Constant * math.Pow(float64(p.To), p.Exponent)})
		}
		figures = append(figures, f)
	}
	return figures
}

// scalingSection is a record of costs along sizes.
func scalingSection(s scaling.Scaling) Section {
	return Section{
		title: "Cost against size", Note: ScalingNote(&s), Provenance: ScalingOrigin(&s), Rows: s.Rows(), figures: ScalingFigures(&s),
	}
}

// busyShare is the share of the processors that others may have before times are not the
// machine's own.
const busyShare = 0.1

// busy reports whether a record is of a machine that had other work, or may have had.
func busy(s *scaling.Scaling) bool {
	return s.Load == nil || s.Load.Others+s.Load.Stolen > busyShare*float64(s.Load.CPUs)
}

// ScalingNote says how costs were fitted, and whether the machine had other work.
func ScalingNote(s *scaling.Scaling) string {
	return "Cost ∝ size^b: least squares of the logarithms of the medians, with the 95 % interval of b by Student's t; the last columns are of the larger half of the sizes, at least four, and of the work as it is counted." + otherWork(s)
}

// ScalingOrigin says where a record of costs against size comes from.
func ScalingOrigin(s *scaling.Scaling) string {
	return Origin(s.Command, s.Commit, fmt.Sprintf("%s, %s %s, %d threads", s.Device, s.Backend, s.ISA, s.Threads), s.Load)
}

// otherWork says of a busy machine's record what its times are worth.
func otherWork(s *scaling.Scaling) string {
	if !busy(s) {
		return ""
	}
	return " **The machine had other work: these times and exponents are not its own.**"
}

// DeadlineFigure is the histogram of a loop's response times and release jitter, with the
// deadline.
func DeadlineFigure(d *deadline.Deadlines) *draw.Figure {
	response, jitter := d.Times()
	title := fmt.Sprintf("%s by %s, %g times a second", d.Case, d.Method, d.Rate)
	f := draw.Histogram("deadline-"+file(d.Case, d.Method), title, draw.Log("time behind the release", "µs"), []string{"response", "jitter"}, [][]float64{response, jitter})
	f.Line("deadline", draw.Limit, true, []float64{d.Deadline, d.Deadline}, []float64{0, f.Plot.Y.Max})
	f.Caption = fmt.Sprintf("%d of %d deadlines missed. %s.", d.Missed, d.Releases, d.Load)
	return f
}

// HardwareFigures are those of a comparison of benchmarks and its records: roofline, latency
// against batch of every operation, and histograms of the latencies of its largest batch.
func HardwareFigures(c *compare.Comparison, records []compare.NamedRecord) []*draw.Figure {
	labels := c.Labels()
	figures := append([]*draw.Figure{rooflineFigure(labels, c, records)}, batchFigures(labels, records)...)
	return slices.DeleteFunc(append(figures, histogramFigures(labels, c, records)...), func(f *draw.Figure) bool { return f == nil })
}

// rooflineFigure is the rate of every row against its operations a byte, under the ceilings of
// multiply-adds and of memory; nil where no record counts bytes.
func rooflineFigure(labels []string, c *compare.Comparison, records []compare.NamedRecord) *draw.Figure {
	f := draw.New("roofline", "Rates under the ceilings of multiply-adds and memory", draw.Log("operations for each byte that has to move", "FLOP/B"), draw.Log("rate", "GFLOP/s"))
	least, most := math.Inf(1), 0.0
	for k, r := range records {
		var xs, ys []float64
		largest := map[string]int{} // batch by operation and case
		for _, res := range r.Results {
			if res.Bytes > 0 && res.GFlops > 0 {
				largest[res.Op+res.Case] = max(largest[res.Op+res.Case], res.Batch)
			}
		}
		for _, res := range r.Results {
			if !(res.Bytes > 0 && res.GFlops > 0) {
				continue
			}
			x := 1e9 * res.GFlop / res.Bytes
			least, most = min(least, x), max(most, x)
			if k == 0 && res.Batch == largest[res.Op+res.Case] {
				f.Point(strings.TrimSuffix(res.Op+" "+res.Case, " -"), draw.Colour(k), draw.Disc, x, res.GFlops)
				continue
			}
			xs, ys = append(xs, x), append(ys, res.GFlops)
		}
		f.Points(labels[k], draw.Colour(k), draw.Disc, xs, ys)
	}
	if !(most > 0) {
		return nil
	}
	for k := range records {
		peak, bandwidth := c.Records[k].Peak, c.Records[k].Bandwidth
		if !(peak > 0) {
			continue
		}
		left := least / 2
		ridge := left
		if bandwidth > 0 {
			ridge = max(left, peak/bandwidth)
		}
		f.Line("", draw.Colour(k), true, []float64{left, ridge, max(2*most, 2*ridge)}, []float64{min(peak, bandwidthOr(bandwidth, peak/left)*left), peak, peak})
	}
	f.Caption = "Dashed: what memory and multiply-adds allow. A call counts operands, results and weights once; small batches come from the caches, so that they may stand above the slope. " +
		"Jacobian, metric and step leave inactive units out and may pass the ceiling. Named: the first record's largest batches."
	return f
}

// bandwidthOr is a bandwidth, or what stands for one that was not recorded.
func bandwidthOr(bandwidth, other float64) float64 {
	if bandwidth > 0 {
		return bandwidth
	}
	return other
}

// batchFigures are the medians of each operation and case against the batch, where a record
// has two batches or more.
func batchFigures(labels []string, records []compare.NamedRecord) (figures []*draw.Figure) {
	for _, of := range operations(records) {
		f := draw.New("latency-"+file(of.op, of.name), of.title()+": latency against batch", draw.Log("batch", "rows"), draw.Log("median of a call", "µs"))
		drawn := false
		for k, r := range records {
			for _, size := range of.sizes(r) {
				var xs, ys []float64
				for _, batch := range of.batches(r, size) {
					fastest := math.Inf(1) // of several numbers of threads
					for _, res := range r.Results {
						if of.is(&res) && res.Batch == batch && sizeWithoutBatch(&res) == size {
							fastest = min(fastest, res.P50)
						}
					}
					xs, ys = append(xs, float64(batch)), append(ys, fastest)
				}
				if len(xs) < 2 {
					continue
				}
				drawn = true
				label := ""
				if f.Entries() < draw.MaxEntries {
					label = labels[k]
					if len(of.sizes(r)) > 1 {
						label += ", " + size
					}
				}
				f.Line(label, draw.Colour(k), len(of.sizes(r)) > 1 && size != of.sizes(r)[0], xs, ys)
				f.Points("", draw.Colour(k), draw.Disc, xs, ys)
			}
		}
		if drawn {
			f.Caption = "The fastest number of threads of each batch."
			figures = append(figures, f)
		}
	}
	return figures
}

// operation is one of a record's, on a case.
type operation struct{ op, name string }

func (o operation) is(r *bench.Result) bool { return r.Op == o.op && r.Case == o.name }

func (o operation) title() string { return strings.TrimSuffix(o.op+" "+o.name, " -") }

// file is a name of several parts for a file.
func file(parts ...string) string {
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}
	return strings.Trim(strings.Map(clean, strings.ToLower(strings.Join(parts, "-"))), "-")
}

// operations are those of all records, in their order.
func operations(records []compare.NamedRecord) (all []operation) {
	for _, r := range records {
		for _, res := range r.Results {
			if o := (operation{res.Op, res.Case}); !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}

// sizeWithoutBatch is a row's size without its batch, which products begin with.
func sizeWithoutBatch(r *bench.Result) string {
	return strings.TrimPrefix(r.Size, fmt.Sprintf("%d×", r.Batch))
}

func (o operation) sizes(r compare.NamedRecord) (sizes []string) {
	for _, res := range r.Results {
		if s := sizeWithoutBatch(&res); o.is(&res) && !slices.Contains(sizes, s) {
			sizes = append(sizes, s)
		}
	}
	return sizes
}

func (o operation) batches(r compare.NamedRecord, size string) (batches []int) {
	for _, res := range r.Results {
		if o.is(&res) && sizeWithoutBatch(&res) == size {
			batches = append(batches, res.Batch)
		}
	}
	slices.Sort(batches)
	return slices.Compact(batches)
}

// histogramFigures are of the recorded latencies of each operation's largest batch on a case.
func histogramFigures(labels []string, c *compare.Comparison, records []compare.NamedRecord) (figures []*draw.Figure) {
	last := map[operation]int{}
	for i, row := range c.Rows {
		o := operation{row.Op, row.Case}
		if at, ok := last[o]; !ok || row.Batch >= c.Rows[at].Batch {
			last[o] = i
		}
	}
	for _, o := range operations(records) {
		row := &c.Rows[last[o]]
		var all [][]float64
		var of []string
		for k, t := range row.Times {
			if t != nil && t.N > 1 {
				all, of = append(all, t.Latencies()), append(of, labels[k])
			}
		}
		if f := draw.Histogram("histogram-"+file(o.op, o.name), o.title()+": latencies", draw.Log("latency of a call", "µs"), of, all); f != nil {
			f.Caption = row.Name() + ": the calls that the records hold, spread over each measurement."
			figures = append(figures, f)
		}
	}
	return figures
}

func benchmarkSection(b bench.Record) Section {
	title := "Latency and throughput"
	if _, what, _ := strings.Cut(b.Command, " bench "); !strings.HasPrefix(what, "-") {
		what, _, _ = strings.Cut(what, " --max-load")
		title = strings.TrimSpace(title + " " + strings.TrimSuffix(what, " --json"))
	}
	return Section{
		title:      title,
		Note:       "The ceiling is the best sustained multiply-add loop of the same instruction set in the same run. Rates count every unit of a network; jacobian, metric and step leave the inactive ReLU units out, so that their fraction by this count can pass 1.",
		Provenance: Origin(b.Command, b.Commit, b.Device, b.Load),
		Rows:       withForecasts(b.Results),
	}
}
