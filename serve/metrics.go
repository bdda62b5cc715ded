package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// What a decision is counted as.
const (
	kindOwn      = iota // the method's own action
	kindReplaced        // another, by projection's failure, guard or sensors: domain.Fallback.Replaced
	kindStale           // the fallback of a session with a stale observation
	kindLate            // the fallback of a deadline
	kinds
)

var kindNames = [kinds]string{"own", "replaced", "stale", "late"}

// Why a request ended in an error.
const (
	refusedInput = iota
	refusedBusy
	refusedFull
	refusedClosing
	refusedPanic
	refusedError
	refusals
)

var refusalNames = [refusals]string{"input", "busy", "full", "closing", "panic", "error"}

// metrics are what WriteMetrics writes beyond Health.
type metrics struct {
	refining            atomic.Int64 // refinements that wait or are made
	latency, refinement *histogram   // of answered decisions and refinements, s
	batch               *histogram   // sessions
	residual            *histogram   // over its limit, where there is one
	margin              atomic.Uint64
	decisions           [kinds]atomic.Int64
	refined             [3]atomic.Int64 // in time, late, fronts
	fallbacks           [domain.Fallbacks]atomic.Int64
	refused             [refusals]atomic.Int64
	outlasted           atomic.Int64 // decisions and preparations that were not done by their deadline and went on by themselves
	expired             atomic.Int64 // sessions that gave their place to another
	asidesAhead         atomic.Int64 // most slices that began while a request waited
	dropped             atomic.Int64 // readers of a stream that were too slow
	connections         atomic.Int64 // that are open
	turnedAway          atomic.Int64 // connections beyond what may be open
}

func newMetrics() metrics {
	times := []float64{25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	return metrics{
		latency: newHistogram(times), refinement: newHistogram(times),
		batch:    newHistogram([]float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}),
		residual: newHistogram([]float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 100}),
	}
}

// countAnswer counts an answer.
func (m *metrics) countAnswer(j *job) {
	latency := time.Since(j.start).Seconds()
	if r := j.answer.Refinement; r != nil {
		m.refinement.observe(latency)
		m.refined[index(r.Late)].Add(1)
	}
	if j.answer.Front != nil || j.answer.Exact != nil {
		m.refinement.observe(latency)
		m.refined[2].Add(1)
	}
	d := j.answer.Decision
	if d == nil {
		return
	}
	m.latency.observe(latency)
	kind := kindOwn
	switch f := domain.Fallback(d.Fallback); {
	case d.Late:
		kind = kindLate
	case d.Stale != "":
		kind = kindStale
	case f.Replaced():
		kind = kindReplaced
	}
	m.decisions[kind].Add(1)
	for bit := range m.fallbacks {
		if d.Fallback&(1<<bit) != 0 {
			m.fallbacks[bit].Add(1)
		}
	}
	if ratio := d.Residual / d.ResidualLimit; d.ResidualLimit > 0 && !math.IsNaN(ratio) {
		m.residual.observe(ratio)
	}
	if margin := d.Margin; !math.IsNaN(margin) {
		for old := m.margin.Load(); old == 0 || margin < math.Float64frombits(old); old = m.margin.Load() {
			if m.margin.CompareAndSwap(old, bitsOf(margin)) {
				break
			}
		}
	}
}

// bitsOf are those of a number that are not the ones of nothing stored yet: +0 is stored as −0.
func bitsOf(x float64) uint64 {
	if x == 0 {
		x = math.Copysign(0, -1)
	}
	return math.Float64bits(x)
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// refusalOf is why a request ended in an error.
func refusalOf(err error) int {
	switch {
	case errors.Is(err, ErrBusy):
		return refusedBusy
	case errors.Is(err, ErrFull):
		return refusedFull
	case errors.Is(err, ErrClosed):
		return refusedClosing
	case panicked(err):
		return refusedPanic
	case isInput(err):
		return refusedInput
	}
	return refusedError
}

// histogram counts observations up to bounds.
type histogram struct {
	bounds []float64
	counts []atomic.Int64 // of each bound, then of what is above them
	sum    atomic.Uint64  // a float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

func (h *histogram) observe(x float64) {
	i := 0
	for i < len(h.bounds) && x > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	for old := h.sum.Load(); !h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+x)); old = h.sum.Load() {
	}
}

// exposition writes Prometheus' text format, version 0.0.4.
type exposition struct{ bytes.Buffer }

// family begins a metric.
func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample is a value; labels are names and values in turn.
func (e *exposition) sample(name string, value float64, labels ...string) {
	e.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		e.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(e, `%s="%s"`, labels[i], escaped.Replace(labels[i+1]))
	}
	if len(labels) > 0 {
		e.WriteByte('}')
	}
	fmt.Fprintf(e, " %s\n", strconv.FormatFloat(value, 'g', -1, 64))
}

// escaped is a label's value.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// histogram is a whole metric.
func (e *exposition) histogram(name, help string, h *histogram) {
	e.family(name, "histogram", help)
	var n int64
	for i, bound := range h.bounds {
		n += h.counts[i].Load()
		e.sample(name+"_bucket", float64(n), "le", strconv.FormatFloat(bound, 'g', -1, 64))
	}
	n += h.counts[len(h.bounds)].Load()
	e.sample(name+"_bucket", float64(n), "le", "+Inf")
	e.sample(name+"_sum", math.Float64frombits(h.sum.Load()))
	e.sample(name+"_count", float64(n))
}

// one is a metric of one value.
func (e *exposition) one(name, kind, help string, value float64) {
	e.family(name, kind, help)
	e.sample(name, value)
}

// labelled is a counter by one label.
func (e *exposition) labelled(name, help, label string, names []string, counts []atomic.Int64) {
	e.family(name, "counter", help)
	for i := range counts {
		if names[i] != "" {
			e.sample(name, float64(counts[i].Load()), label, names[i])
		}
	}
}

// fallbackNames are those of the bits of a domain.Fallback, "" for one that has no meaning.
var fallbackNames = func() (names [domain.Fallbacks]string) {
	for bit := range names {
		if f := domain.Fallback(1 << bit); f.Known() {
			names[bit] = f.String()
		}
	}
	return names
}()

// WriteMetrics writes the server's metrics in Prometheus' text format.
func (s *Server) WriteMetrics(w io.Writer) error {
	var e exposition
	h, m := s.Health(), &s.metrics
	e.family("gpc_build_info", "gauge", "What decides; the value is 1.")
	e.sample("gpc_build_info", 1, "case", h.Case, "method", h.Method, "model_sha256", h.ModelSHA256, "commit", h.Commit, "backend", h.Backend, "isa", h.ISA)
	e.one("gpc_uptime_seconds", "gauge", "Since the start.", h.UptimeS)
	e.one("gpc_sessions", "gauge", "Sessions that are open.", float64(h.Sessions))
	e.one("gpc_sessions_max", "gauge", "Sessions that may be open.", float64(h.SessionsMax))
	e.one("gpc_sessions_expired_total", "counter", "Idle sessions that gave their place to another.", float64(m.expired.Load()))
	e.one("gpc_waiting", "gauge", "Requests that wait or are being answered.", float64(s.queued.Load()+m.refining.Load()))
	e.one("gpc_waiting_max", "gauge", "Requests but refinements that may wait or be answered at once.", float64(s.waitingMax()))
	e.labelled("gpc_decisions_total", "Decisions that were answered, by whose action it is.", "kind", kindNames[:], m.decisions[:])
	e.labelled("gpc_refinements_total", "Refinements and fronts that were answered.", "kind", []string{"own", "late", "front"}, m.refined[:])
	e.labelled("gpc_fallbacks_total", "Decisions by the bits of their fallback.", "reason", fallbackNames[:], m.fallbacks[:])
	e.one("gpc_late_total", "counter", "Requests answered by their deadline.", float64(h.Late))
	e.one("gpc_outlasted_total", "counter", "Decisions that were computed beyond their deadline, beside those of other sessions.", float64(m.outlasted.Load()))
	e.labelled("gpc_refused_total", "Requests that ended in an error.", "reason", refusalNames[:], m.refused[:])
	e.one("gpc_panics_total", "counter", "Sessions that ended in a panic.", float64(h.Panics))
	e.histogram("gpc_decision_latency_seconds", "From when a request for a decision was read to its answer.", m.latency)
	e.histogram("gpc_refinement_latency_seconds", "The same of refinements.", m.refinement)
	e.histogram("gpc_batch_sessions", "Sessions that were decided together.", m.batch)
	e.histogram("gpc_residual_ratio", "Residual of a decision over its limit; above 1 the observation is off the map.", m.residual)
	e.family("gpc_margin_smallest", "gauge", "Smallest hard margin of any decision since the start.")
	smallest := math.Inf(1)
	if bits := m.margin.Load(); bits != 0 {
		smallest = math.Float64frombits(bits)
	}
	e.sample("gpc_margin_smallest", smallest)
	e.one("gpc_aside_total", "counter", "Slices of time for those who look on, such as the page.", float64(s.asides.Load()))
	e.one("gpc_aside_ahead_max", "gauge", "Most slices that began while a decision waited.", float64(m.asidesAhead.Load()))
	e.one("gpc_watchers", "gauge", "Readers of streams.", float64(s.watchers.count.Load()))
	e.one("gpc_watchers_dropped_total", "counter", "Readers of streams that were too slow.", float64(m.dropped.Load()))
	e.one("gpc_connections", "gauge", "Connections that are open.", float64(m.connections.Load()))
	e.one("gpc_connections_refused_total", "counter", "Connections beyond what may be open.", float64(m.turnedAway.Load()))
	_, err := w.Write(e.Bytes())
	return err
}
