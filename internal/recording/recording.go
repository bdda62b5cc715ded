// Package recording writes traces as MCAP files that Foxglove and Rerun open: what an episode
// looks like as scene updates and frame transforms, its decisions as numbers on channels.
//
// The central type is Writer. Messages are JSON; schemas of Foxglove's own messages have the
// fields that these require, those of numbers the names of the case's variables. Times are
// the plant's: the first episode begins at one second, decision k of an episode is k periods
// behind its beginning, and the next episode begins at the next whole second but one.
package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"

	"github.com/foxglove/mcap/go/mcap"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/places"
)

// Topics, in the order of their channels.
const (
	topicEpisode     = "/episode"     // how each episode ended
	topicScene       = "/scene"       // what the episode looks like
	topicFrames      = "/tf"          // where its bodies are
	topicObservation = "/observation" // measured state before a decision
	topicAction      = "/action"      // applied action
	topicState       = "/state"       // the plant's state after it
	topicObjectives  = "/objectives"  // stage objectives
	topicSigma       = "/sigma"       // priority that the stage was scored with
	topicPriority    = "/priority"    // priority that steered the decision
	topicMargins     = "/margins"     // hard margins of the step
	topicLatency     = "/latency"     // times of the decision
	topicMonitor     = "/monitor"     // what the method says of itself
)

// Messages of the topics with fields that are the same in every case.
type (
	ended struct {
		Episode int            `json:"episode"`
		End     closedloop.End `json:"end"`
	}
	latency struct {
		Decision closedloop.Number `json:"latency_us"`
		Localize closedloop.Number `json:"localize_us"`
		Step     closedloop.Number `json:"step_us"`
		Project  closedloop.Number `json:"project_us"`
	}
	monitor struct {
		Episode      int               `json:"episode"`
		T            int               `json:"t"`
		Cost         closedloop.Number `json:"cost"` // Σ σ_i J_i
		Residual     closedloop.Number `json:"residual"`
		Displacement closedloop.Number `json:"displacement"`
		Fallback     int               `json:"fallback"`
		Failed       bool              `json:"failed"`
	}
)

// least is the key of the smallest margin.
const least = "least"

// Writer writes the episodes of a trace. It is used by one goroutine.
type Writer struct {
	out      *mcap.Writer
	header   *closedloop.Header
	plant    domain.Plant
	spec     *domain.Spec
	picture  domain.Pictured // nil: none
	network  domain.Charted  // nil: none
	places   [][2]float64
	channels map[string]uint16
	sequence map[string]uint32
	period   uint64 // ns
	begin    uint64 // of the next episode, ns
}

const second = 1_000_000_000 // ns

// NewWriter begins a file of a trace's episodes; c is the case on the trace's plant (see
// closedloop.Header.On).
func NewWriter(out io.Writer, h *closedloop.Header, c *domain.Case) (*Writer, error) {
	if c.Plant == nil {
		return nil, fmt.Errorf("case %q has no plant to replay episodes with", h.Case)
	}
	w := &Writer{
		header: h, plant: c.Plant, spec: c.Problem.Spec(), channels: map[string]uint16{}, sequence: map[string]uint32{}, begin: second,
	}
	w.period = uint64(math.Round(w.spec.StepSeconds * second))
	w.picture, _ = c.Problem.(domain.Pictured)
	if network, ok := c.Problem.(domain.Charted); ok {
		chart := network.Chart()
		w.network, w.places = network, places.Of(len(chart.Buses), chart.Branches)
	}
	var err error
	if w.out, err = mcap.NewWriter(out, &mcap.WriterOptions{Chunked: true, Compression: mcap.CompressionZSTD, IncludeCRC: true, OverrideLibrary: true}); err != nil {
		return nil, err
	}
	if err := w.out.WriteHeader(&mcap.Header{Library: "gpc"}); err != nil {
		return nil, err
	}
	about := map[string]string{
		"case": h.Case, "method": h.Method, "seed": strconv.FormatUint(h.Seed, 10), "commit": h.Commit, "device": h.Device,
		"model_sha256": h.ModelSHA256, "problem_sha256": h.ProblemSHA256, "scenes_sha256": h.ScenesSHA256, "regime": h.Regime,
	}
	if err := w.out.WriteMetadata(&mcap.Metadata{Name: "gpc", Metadata: about}); err != nil {
		return nil, err
	}
	return w, w.declare()
}

// declare writes schemas and channels.
func (w *Writer) declare() error {
	of := func(v any) object { return schemaOf(reflect.TypeOf(v)) }
	margins := append([]domain.Variable{{Name: least}}, w.spec.Margins...)
	channels := []struct {
		topic, schema string
		of            object
	}{
		{topicEpisode, "gpc.Episode", of(ended{})},
		{topicScene, "foxglove.SceneUpdate", of(sceneUpdate{})},
		{topicFrames, "foxglove.FrameTransforms", of(frameTransforms{})},
		{topicObservation, "gpc.Observation", named(w.spec.Measured)},
		{topicAction, "gpc.Action", named(w.spec.Action)},
		{topicState, "gpc.State", named(w.spec.Measured)},
		{topicObjectives, "gpc.Objectives", named(w.spec.Objectives)},
		{topicSigma, "gpc.Sigma", named(w.spec.Objectives)},
		{topicPriority, "gpc.Priority", named(w.spec.Objectives)},
		{topicMargins, "gpc.Margins", named(margins)},
		{topicLatency, "gpc.Latency", of(latency{})},
		{topicMonitor, "gpc.Monitor", of(monitor{})},
	}
	for i, c := range channels {
		if c.topic == topicScene && w.picture == nil && w.network == nil || c.topic == topicFrames && w.picture == nil {
			continue
		}
		data, err := titled(c.schema, c.of)
		if err != nil {
			return err
		}
		id := uint16(i + 1)
		if err := w.out.WriteSchema(&mcap.Schema{ID: id, Name: c.schema, Encoding: "jsonschema", Data: data}); err != nil {
			return err
		}
		if err := w.out.WriteChannel(&mcap.Channel{ID: id, SchemaID: id, Topic: c.topic, MessageEncoding: "json"}); err != nil {
			return err
		}
		w.channels[c.topic] = id
	}
	return nil
}

// message writes one message; a topic without a channel has none.
func (w *Writer) message(topic string, ns uint64, v any) error {
	id, ok := w.channels[topic]
	if !ok {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	m := &mcap.Message{ChannelID: id, Sequence: w.sequence[topic], LogTime: ns, PublishTime: ns, Data: data}
	w.sequence[topic]++
	return w.out.WriteMessage(m)
}

// byName is a message of values under the names of their variables; of a shorter list the
// leading ones.
func byName(variables []domain.Variable, values closedloop.Vector) map[string]closedloop.Number {
	m := make(map[string]closedloop.Number, len(values))
	for i, v := range values[:min(len(values), len(variables))] {
		m[variables[i].Name] = closedloop.Number(v)
	}
	return m
}

// Episode writes one episode. It is replayed for what a trace does not hold: what it looks
// like, and each hard margin.
func (w *Writer) Episode(e *closedloop.EpisodeRecord) error {
	ep, err := w.plant.Replay(w.header.Params, e.Scene)
	if err != nil {
		return fmt.Errorf("trace line %d: %w", e.SceneLine, err)
	}
	s, c := make([]float64, w.spec.MeasuredSize()), make([]float64, w.spec.ContextSize())
	u := make([]float64, w.spec.ActionSize())
	ns := w.begin
	if err := w.message(topicScene, ns, sceneUpdate{[]deletion{{Time: stampOf(ns), Type: everything}}, []entity{}}); err != nil {
		return err
	}
	ep.Observe(s, c)
	if err := w.look(s, c, ns); err != nil {
		return err
	}
	for k := range e.Lines {
		l := &e.Lines[k]
		if len(l.U) > len(u) {
			return fmt.Errorf("trace line %d: u has %d entries, the case %d", l.Line, len(l.U), len(u))
		}
		copy(u, l.U)
		if err := w.operate(s, c, u, ns); err != nil {
			return err
		}
		out, err := ep.Apply(u)
		if err != nil {
			return fmt.Errorf("trace line %d: %w", l.Line, err)
		}
		if err := w.decision(l, &out, ns); err != nil {
			return err
		}
		ns += w.period
		if err := w.message(topicState, ns, byName(w.spec.Measured, l.S)); err != nil {
			return err
		}
		ep.Observe(s, c)
		if err := w.look(s, c, ns); err != nil {
			return err
		}
	}
	if err := w.message(topicEpisode, ns, ended{e.Episode, e.End}); err != nil {
		return err
	}
	w.begin = (ns/second + 2) * second
	return nil
}

// decision writes the numbers of one decision.
func (w *Writer) decision(l *closedloop.Line, out *domain.Outcome, ns uint64) error {
	margins := byName(w.spec.Margins, out.Named)
	margins[least] = l.Margin
	none := closedloop.Number(math.NaN())
	times, cost := latency{l.Latency, none, none, none}, 0.0
	if len(l.Times) == 3 {
		times.Localize, times.Step, times.Project = closedloop.Number(l.Times[0]), closedloop.Number(l.Times[1]), closedloop.Number(l.Times[2])
	}
	for i, j := range l.J[:min(len(l.J), len(l.Sigma))] {
		cost += l.Sigma[i] * j
	}
	about := monitor{l.Episode, l.T, closedloop.Number(cost), l.Residual, l.Displacement, int(l.Fallback), l.Failed}
	errs := []error{
		w.message(topicObservation, ns, byName(w.spec.Measured, l.X)), w.message(topicAction, ns, byName(w.spec.Action, l.U)),
		w.message(topicObjectives, ns, byName(w.spec.Objectives, l.J)), w.message(topicSigma, ns, byName(w.spec.Objectives, l.Sigma)),
		w.message(topicMargins, ns, margins), w.message(topicLatency, ns, times), w.message(topicMonitor, ns, about),
	}
	if l.Priority != nil {
		errs = append(errs, w.message(topicPriority, ns, byName(w.spec.Objectives, l.Priority)))
	}
	return errors.Join(errs...)
}

// look writes the picture of a state.
func (w *Writer) look(s, c []float64, ns uint64) error {
	if w.picture == nil {
		return nil
	}
	entities, frames, err := pictured(w.picture.Picture(s, c), ns)
	if err != nil {
		return err
	}
	if len(frames) > 0 {
		if err := w.message(topicFrames, ns, frameTransforms{frames}); err != nil {
			return err
		}
	}
	return w.message(topicScene, ns, sceneUpdate{[]deletion{}, entities})
}

// operate writes a network under an action. Where that has no power flow it stays as it was.
func (w *Writer) operate(s, c, u []float64, ns uint64) error {
	if w.network == nil {
		return nil
	}
	p, ok := w.network.Operate(s, c, u)
	if !ok {
		return nil
	}
	return w.message(topicScene, ns, sceneUpdate{[]deletion{}, charted(w.network.Chart(), w.places, p, ns)})
}

// Close ends the file.
func (w *Writer) Close() error { return w.out.Close() }

// Write writes a whole trace; open makes the case of its header.
func Write(out io.Writer, in io.Reader, open func(h *closedloop.Header) (*domain.Case, error)) (h *closedloop.Header, episodes int, err error) {
	r, err := closedloop.NewReader(in)
	if err != nil {
		return nil, 0, err
	}
	c, err := open(&r.Header)
	if err != nil {
		return nil, 0, fmt.Errorf("trace line 1: %w", err)
	}
	w, err := NewWriter(out, &r.Header, c)
	if err != nil {
		return nil, 0, err
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Episode(e)
		}
		if err != nil {
			return nil, 0, err
		}
		episodes++
	}
	return &r.Header, episodes, w.Close()
}
