package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// ofGPUs are the records of devices on which the CUDA path ran, the first the one with whole jobs.
func (d devices) ofGPUs() (all devices) {
	for _, r := range d {
		if len(report.Of[report.Conformance](r)) > 0 {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b *report.Records) int {
		return len(report.Of[peerrecord.WholeJobs](b)) - len(report.Of[peerrecord.WholeJobs](a))
	})
	return all
}

// gpuName is a device as tables head it: the folder of its records.
func gpuName(r *report.Records) string { return strings.ToUpper(r.Device) }

// gpuTests counts the tests of every suite on every device.
func (d devices) gpuTests() string {
	s := report.Section{Rows: [][]string{{"device", "suite", "passed", "failed", "skipped", "s"}}}
	for _, r := range d.ofGPUs() {
		passed, failed := 0, 0
		for _, c := range report.Of[report.Conformance](r) {
			for _, v := range c.Suites {
				passed, failed = passed+v.Passed, failed+len(v.Failed)
				s.Rows = append(s.Rows, []string{gpuName(r), v.Name, fmt.Sprint(v.Passed), cmp.Or(backticked(v.Failed), "–"), cmp.Or(backticked(v.Skipped), "–"), fmt.Sprintf("%.0f", v.Seconds)})
			}
			s.Rows = append(s.Rows, []string{gpuName(r), fmt.Sprintf("all, commit `%s`", c.Commit), fmt.Sprintf("%d of %d", passed, passed+failed), fmt.Sprint(failed), "", ""})
		}
	}
	return report.Tables(s)
}

func backticked(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// gpuChecks are the sanitizers, and the decisions that were compared with the CPU's.
func gpuChecks(w *peerrecord.WholeJobs) string {
	tools := report.Section{Provenance: jobsOrigin(w), Rows: [][]string{{"compute-sanitizer", "errors", "over"}}}
	for _, v := range w.Sanitizers {
		tools.Rows = append(tools.Rows, []string{"`" + v.Tool + "`", fmt.Sprint(v.Found), v.Over})
	}
	same := report.Section{Rows: [][]string{{"case", "methods, the same seeds", "beside the CPU"}}}
	for _, v := range w.Decisions {
		same.Rows = append(same.Rows, []string{v.Case, backticked(v.Methods), v.Result})
	}
	return report.Tables(tools, same)
}

func jobsOrigin(w *peerrecord.WholeJobs) string {
	return report.Origin("", w.Commit, fmt.Sprintf("%s, driver %s, beside %s", w.Device, w.Driver, w.Host))
}

// wholeJobs are jobs beside the host's cores and beside what pages had forecast.
func wholeJobs(w *peerrecord.WholeJobs) string {
	s := report.Section{Provenance: jobsOrigin(w), Rows: [][]string{{"job", "GPU, ms", "TF32, ms", "p99, ms", "forecast, ms", "of the forecast", "cores, ms", "times the cores", "where the time goes"}}}
	later := report.Section{
		Provenance: report.Origin("", w.Later, fmt.Sprintf("%s, driver %s; medians, some of one run", w.Device, w.Driver)),
		Rows:       [][]string{{"job", "first, ms", "later, ms", "p99, ms", "TF32, ms", "times faster", "where the time goes later"}},
	}
	model := report.Section{
		Provenance: "[The model](#the-model) is no time of a GPU: the host's part and what crosses are not in it, and it has the kernels of now.",
		Rows:       [][]string{{"job", "wanted, ms", "measured, ms", "launches, by the model, ms", "measured / model"}},
	}
	or := func(v float64, text string) string {
		if v == 0 {
			return "–"
		}
		return text
	}
	for _, j := range w.Jobs {
		of := "–"
		if f := j.Forecast; f[1] > 0 {
			took := cmp.Or(j.TF32MS, j.MS[0])
			of = fmt.Sprintf("%s to %s", report.Ratio(took/f[1]), report.Ratio(took/f[0]))
		}
		ratio := "–"
		if j.CoresMS > 0 {
			ratio = fmt.Sprintf("%.2g", j.CoresMS/j.MS[1])
		}
		if l := j.Later; l != nil {
			faster := "–"
			if j.MS[1] > 0 {
				faster = report.Ratio(j.MS[1] / l.MS)
			}
			later.Rows = append(later.Rows, []string{j.Job, or(j.MS[1], span(j.MS)), fmt.Sprint(l.MS), or(l.P99MS, fmt.Sprint(l.P99MS)), or(l.TF32MS, fmt.Sprint(l.TF32MS)), faster, l.Because})
		}
		if f := report.JobForecast(j.Counted); f > 0 {
			ms := j.Latest()
			model.Rows = append(model.Rows, []string{j.Job, or(j.WantedMS, fmt.Sprint(j.WantedMS)), fmt.Sprint(ms), report.Ratio(f), report.Ratio(ms / f)})
		}
		if j.MS[1] == 0 {
			continue
		}
		s.Rows = append(s.Rows, []string{j.Job, span(j.MS), or(j.TF32MS, fmt.Sprint(j.TF32MS)), or(j.P99MS, fmt.Sprint(j.P99MS)), or(j.Forecast[1], span(j.Forecast)), of, or(j.CoresMS, fmt.Sprint(j.CoresMS)), ratio, j.Because})
	}
	return report.Tables(s, later, model)
}

func span[T comparable](v [2]T) string {
	if v[0] == v[1] {
		return fmt.Sprint(v[0])
	}
	return fmt.Sprintf("%v to %v", v[0], v[1])
}

// gpuOperations are the medians of every operation that bench timed, a column a device.
func (d devices) gpuOperations() string {
	type key struct {
		op, of, size, precision string
		batch                   int
	}
	gpus := d.ofGPUs()
	s := report.Section{Rows: [][]string{{"operation", "case", "size", "rows", "precision"}}}
	var keys []key
	var commits []string
	found := map[key][]string{}
	for i, r := range gpus {
		s.Rows[0] = append(s.Rows[0], gpuName(r)+", p50 / p99 µs")
		for _, record := range report.Of[bench.Record](r) {
			commits = append(commits, record.Commit)
			for _, v := range record.Results {
				if v.Launch != nil || v.Backend != "cuda" || v.Op == "localize-brute" {
					continue
				}
				k := key{v.Op, v.Case, v.Size, v.Precision, v.Batch}
				if found[k] == nil {
					keys, found[k] = append(keys, k), make([]string, len(gpus))
				}
				found[k][i] = fmt.Sprintf("%.4g / %.4g", v.P50, v.P99)
			}
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.of, b.of), cmp.Compare(a.size, b.size), cmp.Compare(a.precision, b.precision), cmp.Compare(a.batch, b.batch))
	})
	for _, k := range keys {
		row := []string{k.op, cmp.Or(k.of, "–"), cmp.Or(k.size, "–"), fmt.Sprint(k.batch), k.precision}
		for _, cell := range found[k] {
			row = append(row, cmp.Or(cell, "–"))
		}
		s.Rows = append(s.Rows, row)
	}
	s.Provenance = fmt.Sprintf("Commit %s.", report.Distinct(commits))
	return report.Tables(s)
}

// gpuPeers are other programs on the same GPU.
func (d devices) gpuPeers() string {
	s := report.Section{Rows: [][]string{{"device", "operation", "rows", "beside", "gpc, µs", "the other, µs", "ratio [spread of the rounds]"}}}
	for _, r := range d.ofGPUs() {
		for _, record := range report.Of[peerrecord.Record](r) {
			for _, v := range record.Ratios {
				s.Rows = append(s.Rows, []string{gpuName(r), v.Op + ", " + v.Case, fmt.Sprint(v.Batch), v.Peer, fmt.Sprintf("%.0f", v.OursUS), fmt.Sprintf("%.0f", v.PeerUS), fmt.Sprintf("%s [%s, %s]", report.Ratio(v.Ratio), report.Ratio(v.Lo), report.Ratio(v.Hi))})
			}
		}
	}
	return report.Tables(s)
}

// gpuLaunches are the launches of a step and a training update beside their limit and their forecast.
func (d devices) gpuLaunches() string {
	type key struct {
		of, kernel, precision string
		place, batch          int
	}
	gpus := d.ofGPUs()
	s := report.Section{Rows: [][]string{{"operation", "rows", "precision", "", "kernel", "limit, µs", "forecast, µs"}}}
	at := map[key]int{}
	for i, r := range gpus {
		s.Rows[0] = append(s.Rows[0], gpuName(r)+", p50 µs", "of the forecast")
		for _, record := range report.Of[bench.Record](r) {
			for _, v := range record.Results {
				l := v.Launch
				if l == nil {
					continue
				}
				k := key{l.Of, l.Kernel, v.Precision, l.Place, v.Batch}
				f := report.Forecast(&v)
				if _, ok := at[k]; !ok {
					at[k] = len(s.Rows)
					row := []string{l.Of, fmt.Sprint(v.Batch), v.Precision, fmt.Sprint(l.Place), "`" + l.Kernel + "`", fmt.Sprintf("%.1f", l.Limit), fmt.Sprintf("%.1f", f)}
					s.Rows = append(s.Rows, append(row, slices.Repeat([]string{"–"}, 2*len(gpus))...))
				}
				row := s.Rows[at[k]]
				row[7+2*i] = fmt.Sprintf("%.1f", v.P50)
				if f > 0 {
					row[8+2*i] = fmt.Sprintf("%.2f", v.P50/f)
				}
			}
		}
	}
	return report.Tables(s)
}
