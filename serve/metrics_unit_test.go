package serve

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// The bucket of a value is the first whose bound it does not exceed; buckets count what is below them too.
func TestHistogramsAreCumulative(t *testing.T) {
	h := newHistogram([]float64{1, 2, 5})
	for _, v := range []float64{0.5, 1, 1.5, 2, 5, 5.5, 7} {
		h.observe(v)
	}
	var e exposition
	e.histogram("x", "text", h)
	want := "# HELP x text\n# TYPE x histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"2\"} 4\nx_bucket{le=\"5\"} 5\nx_bucket{le=\"+Inf\"} 7\nx_sum 22.5\nx_count 7\n"
	if e.String() != want {
		t.Errorf("%s\nwant %s", e.String(), want)
	}
	e.Reset()
	e.sample("y", -0.5, "a", "1\"\\\n", "b", "2")
	e.one("z", "gauge", "g", 3)
	if want := "y{a=\"1\\\"\\\\\\n\",b=\"2\"} -0.5\n# HELP z g\n# TYPE z gauge\nz 3\n"; e.String() != want {
		t.Errorf("%q, want %q", e.String(), want)
	}
}

// Buckets of batches are the powers of two, those of times 25, 50 and 100 µs and so on in every decade up to 10 s.
func TestBucketsAreThoseOfTheirUnits(t *testing.T) {
	m := newMetrics()
	for i, bound := range m.batch.bounds {
		if bound != float64(int(1)<<i) {
			t.Errorf("batch %d: %v", i, bound)
		}
	}
	for _, h := range []*histogram{m.latency, m.refinement} {
		for i, bound := range h.bounds {
			if want := []float64{25e-6, 50e-6, 100e-6}[i%3] * math.Pow(10, float64(i/3)); math.Abs(bound/want-1) > 1e-12 {
				t.Errorf("time %d: %v, want %v", i, bound, want)
			}
		}
	}
}

// A decision is counted once by whose action it is, and by each bit of its fallback; the smallest margin is that of all.
func TestAnswersAreCountedByTheirKind(t *testing.T) {
	m := newMetrics()
	smallest := func() float64 { return math.Float64frombits(m.margin.Load()) }
	for i, c := range []struct {
		d        Decision
		kind     int
		smallest float64
	}{
		{Decision{Margin: 2}, kindOwn, 2}, {Decision{Margin: 3, Fallback: uint32(domain.FallbackMethod)}, kindOwn, 2}, {Decision{Margin: math.NaN(), Fallback: uint32(domain.FallbackConservative)}, kindReplaced, 2},
		{Decision{Margin: 0, Fallback: uint32(domain.FallbackConservative), Stale: staleAge}, kindStale, 0}, {Decision{Margin: 1, Stale: staleAge, Late: true}, kindLate, 0}, {Decision{Margin: -1}, kindOwn, -1}, {Decision{Margin: 0}, kindOwn, -1},
	} {
		before := m.decisions[c.kind].Load()
		m.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &c.d}})
		if m.decisions[c.kind].Load() != before+1 || smallest() != c.smallest {
			t.Errorf("decision %d: %d of its kind, the smallest margin is %g, want %g", i, m.decisions[c.kind].Load(), smallest(), c.smallest)
		}
	}
	total, bits := int64(0), int64(0)
	for i := range m.decisions {
		total += m.decisions[i].Load()
	}
	for i := range m.fallbacks {
		bits += m.fallbacks[i].Load()
	}
	var latencies int64
	for i := range m.latency.counts {
		latencies += m.latency.counts[i].Load()
	}
	if total != 7 || bits != 3 || latencies != 7 {
		t.Errorf("%d decisions, %d bits, %d latencies", total, bits, latencies)
	}
	zero := newMetrics()
	zero.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: 0, Residual: 3, ResidualLimit: 2}}})
	zero.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: 5, Residual: 3}}})
	zero.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: 5, Residual: math.NaN(), ResidualLimit: 2}}})
	if zero.margin.Load() == 0 || math.Float64frombits(zero.margin.Load()) != 0 || math.Float64frombits(zero.residual.sum.Load()) != 1.5 {
		t.Errorf("a margin of 0 is stored as %x, ratios sum to %g", zero.margin.Load(), math.Float64frombits(zero.residual.sum.Load()))
	}
	for i, a := range []Answer{{Refinement: &Refined{}}, {Refinement: &Refined{Late: true}}, {Front: &batchnav.Front{}}, {Exact: &batchnav.Front{}}, {}} {
		r := newMetrics()
		r.countAnswer(&job{start: time.Now(), answer: a})
		want := [][3]int64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 1}, {}}[i]
		if got := [3]int64{r.refined[0].Load(), r.refined[1].Load(), r.refined[2].Load()}; got != want {
			t.Errorf("answer %d counts %v, want %v", i, got, want)
		}
	}
}

// Each metric is its own counter: of what is counted differently, every line has its number.
func TestEveryMetricHasItsNumber(t *testing.T) {
	s, _ := bare(t, Options{Waiting: 11})
	s.health = Health{Case: "cart", Method: "direct", ModelSHA256: "5", Commit: "c", Backend: "cpu", ISA: "avx2", SessionsMax: 12}
	m := &s.metrics
	want := map[string]float64{}
	number := 100.0
	next := func(name string) int64 {
		number++
		want[name] = number
		return int64(number)
	}
	s.open.Store(next("gpc_sessions"))
	m.expired.Store(next("gpc_sessions_expired_total"))
	s.late.Store(next("gpc_late_total"))
	m.outlasted.Store(next("gpc_outlasted_total"))
	s.panics.Store(next("gpc_panics_total"))
	s.asides.Store(next("gpc_aside_total"))
	m.asidesAhead.Store(next("gpc_aside_ahead_max"))
	s.watchers.count.Store(next("gpc_watchers"))
	m.dropped.Store(next("gpc_watchers_dropped_total"))
	m.connections.Store(next("gpc_connections"))
	m.turnedAway.Store(next("gpc_connections_refused_total"))
	for i, kind := range []string{"own", "replaced", "stale", "late"} {
		m.decisions[i].Store(next(`gpc_decisions_total{kind="` + kind + `"}`))
	}
	for i, kind := range []string{"own", "late", "front"} {
		m.refined[i].Store(next(`gpc_refinements_total{kind="` + kind + `"}`))
	}
	for i, reason := range []string{"input", "busy", "full", "closing", "panic", "error"} {
		m.refused[i].Store(next(`gpc_refused_total{reason="` + reason + `"}`))
	}
	reasons := 0
	for bit := range m.fallbacks {
		if f := domain.Fallback(1 << bit); f.Known() {
			reasons++
			m.fallbacks[bit].Store(next(`gpc_fallbacks_total{reason="` + f.String() + `"}`))
		} else {
			m.fallbacks[bit].Store(1)
		}
	}
	for i, h := range []*histogram{m.latency, m.refinement, m.batch, m.residual} {
		for range i + 1 {
			h.observe(0.375)
		}
	}
	want["gpc_decision_latency_seconds_count"], want["gpc_refinement_latency_seconds_count"], want["gpc_batch_sessions_count"], want["gpc_residual_ratio_count"] = 1, 2, 3, 4
	want["gpc_decision_latency_seconds_sum"], want[`gpc_decision_latency_seconds_bucket{le="0.25"}`], want[`gpc_decision_latency_seconds_bucket{le="0.5"}`] = 0.375, 0, 1
	want["gpc_sessions_max"], want["gpc_waiting_max"], want["gpc_margin_smallest"] = 12, 11, math.Inf(1)
	want[`gpc_build_info{case="cart",method="direct",model_sha256="5",commit="c",backend="cpu",isa="avx2"}`] = 1
	read := func() map[string]float64 {
		var text strings.Builder
		require.OK(t, s.WriteMetrics(&text))
		got := map[string]float64{}
		for line := range strings.Lines(text.String()) {
			var v float64
			if i := strings.LastIndexByte(line, ' '); line[0] != '#' {
				require.Get(fmt.Sscan(line[i+1:], &v))(t)
				got[line[:i]] = v
			}
		}
		return got
	}
	got := read()
	for name, v := range want {
		if now, ok := got[name]; !ok || now != v {
			t.Errorf("%s is %v, want %v", name, now, v)
		}
	}
	shown := 0
	for name := range got {
		shown += index(strings.HasPrefix(name, "gpc_fallbacks_total"))
	}
	if reasons < 10 || shown != reasons {
		t.Errorf("%d reasons are shown of %d", shown, reasons)
	}
	for _, margin := range []float64{3, -2, 5} {
		m.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: margin, Residual: math.NaN()}}})
	}
	if now := read()["gpc_margin_smallest"]; now != -2 {
		t.Errorf("the smallest margin is %v", now)
	}
	if err := s.WriteMetrics(&failing{}); err == nil || err.Error() != "no room" {
		t.Errorf("metrics that cannot be written: %v", err)
	}
	// Bounds and values are written in full.
	h := newHistogram([]float64{0.0125, 1024})
	h.observe(0.0123456789)
	var e exposition
	e.histogram("x", "text", h)
	for _, line := range []string{"x_bucket{le=\"0.0125\"} 1\n", "x_bucket{le=\"1024\"} 1\n", "x_sum 0.0123456789\n"} {
		if !strings.Contains(e.String(), line) {
			t.Errorf("%s lacks %s", e.String(), line)
		}
	}
}

// Every bit of a fallback that has a meaning is counted.
func TestEveryFallbackIsCounted(t *testing.T) {
	if last := domain.Fallback(1 << (domain.Fallbacks - 1)); !last.Known() || (last << 1).Known() || fallbackNames[domain.Fallbacks-1] == "" {
		t.Errorf("%d bits, the last is %v, the next %v", domain.Fallbacks, last, last<<1)
	}
}
