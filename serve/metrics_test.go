package serve_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

func metrics(t testing.TB, s *serve.Server) string {
	t.Helper()
	var text strings.Builder
	require.OK(t, s.WriteMetrics(&text))
	return text.String()
}

// Prometheus reads the metrics, and they count what was answered.
func TestMetrics(t *testing.T) {
	held := newGate()
	s, h := web(t, serve.Options{Sessions: 2}, serve.HTTPOptions{}, held)
	for _, line := range []string{
		`{"op":"decide","session":"a","s":[0.1,0.1],"c":[0],"observed_ms":2}`, `{"op":"decide","session":"a","s":[0.2,0.1],"c":[0],"observed_ms":1}`,
		`{"op":"decide","session":"b","s":[null,0.1],"c":[0]}`, fmt.Sprintf(`{"op":"decide","session":"b","s":[%v,0.1],"c":[0],"deadline_ms":200}`, slow),
		`{"op":"decide","session":"c","s":[0.1,0.1],"c":[0]}`, `{"op":"decide","s":[0.1],"c":[0]}`, `{"op":"refine","s":[0.1,0.1],"c":[0],"candidates":16}`,
	} {
		if said(t, s, serve.LineOptions{}, line)[0]["late"] == true {
			held.open()
		}
	}
	batches := 2 + float64(len(held.arrived)) // the one that was late had one too, where it had begun
	status, _, head := exchange(t, "GET", h.URL+"/metrics", "")
	kind := head.Get("Content-Type")
	if status != 200 || !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Fatalf("%d %s", status, kind)
	}
	text := metrics(t, s)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := require.Get(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
	value := func(name string, labels ...string) float64 {
		f := families[name]
		if f == nil || f.GetHelp() == "" || !strings.HasPrefix(name, "gpc_") {
			t.Errorf("there is no metric %s", name)
			return math.NaN()
		}
		for _, m := range f.GetMetric() {
			same := true
			for i := 0; i < len(labels); i += 2 {
				has := false
				for _, l := range m.GetLabel() {
					has = has || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				same = same && has
			}
			if !same {
				continue
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				return m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				return m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				return float64(m.GetHistogram().GetSampleCount())
			}
		}
		t.Errorf("%s has no %q", name, labels)
		return math.NaN()
	}
	for _, want := range []struct {
		value  float64
		name   string
		labels []string
	}{
		{1, "gpc_build_info", []string{"case", "cart", "method", "navigator"}}, {2, "gpc_sessions", nil}, {2, "gpc_sessions_max", nil}, {0, "gpc_waiting", nil}, {2, "gpc_waiting_max", nil},
		{1, "gpc_decisions_total", []string{"kind", "own"}}, {1, "gpc_decisions_total", []string{"kind", "replaced"}}, {1, "gpc_decisions_total", []string{"kind", "stale"}},
		{1, "gpc_decisions_total", []string{"kind", "late"}}, {1, "gpc_refinements_total", []string{"kind", "own"}}, {0, "gpc_refinements_total", []string{"kind", "late"}},
		{1, "gpc_fallbacks_total", []string{"reason", "observation"}}, {3, "gpc_fallbacks_total", []string{"reason", "conservative"}}, {1, "gpc_late_total", nil},
		{1, "gpc_refused_total", []string{"reason", "full"}}, {1, "gpc_refused_total", []string{"reason", "input"}}, {0, "gpc_refused_total", []string{"reason", "busy"}},
		{4, "gpc_decision_latency_seconds", nil}, {1, "gpc_refinement_latency_seconds", nil}, {batches, "gpc_batch_sessions", nil}, {0, "gpc_watchers", nil}, {0, "gpc_panics_total", nil},
	} {
		if got := value(want.name, want.labels...); got != want.value {
			t.Errorf("%s%q is %v, want %v", want.name, want.labels, got, want.value)
		}
	}
	if margin := value("gpc_margin_smallest"); !(margin >= 0 && margin < 1) {
		t.Errorf("the smallest margin is %v", margin)
	}
	latency := families["gpc_decision_latency_seconds"].GetMetric()[0].GetHistogram()
	if sum := latency.GetSampleSum(); !(sum > 0) || math.IsInf(sum, 0) {
		t.Errorf("the latencies sum to %v", sum)
	}
	last := uint64(0)
	for _, b := range latency.GetBucket() {
		if b.GetCumulativeCount() < last {
			t.Errorf("the bucket up to %v has fewer than the one before", b.GetUpperBound())
		}
		last = b.GetCumulativeCount()
	}
	if last != latency.GetSampleCount() {
		t.Errorf("the last bucket has %d of %d", last, latency.GetSampleCount())
	}
}

// The ratio of a residual to its limit is counted where there is one; of an observation that is no number there is none.
func TestResidualsAreCountedWhereTheyAre(t *testing.T) {
	s := server(t, serve.Options{})
	for i, want := range []int{1, 1, 2, 3} {
		line := decide(t, "", []float64{0.1, 0.1}, []float64{0})
		if i == 1 {
			line = `{"op":"decide","session":"other","s":[null,0.1],"c":[0]}`
		}
		said(t, s, serve.LineOptions{}, line)
		if text := metrics(t, s); !strings.Contains(text, fmt.Sprintf("\ngpc_residual_ratio_count %d\n", want)) || !strings.Contains(text, fmt.Sprintf("\ngpc_residual_ratio_bucket{le=\"+Inf\"} %d\n", want)) || strings.Contains(text, "gpc_residual_ratio_sum NaN") {
			t.Errorf("after %d decisions, want %d residuals:\n%s", i+1, want, text)
		}
	}
}
