// Package recording writes traces as MCAP files that Foxglove and Rerun open: what an episode
// looks like as scene updates and frame transforms, its decisions as numbers on channels.
//
// The central type is Writer. Messages are protobuf: those of Foxglove by their published names
// and numbers, those of numbers with a field for each variable of the case. Times are
// the plant's: the first episode begins at one second, decision k of an episode is k periods
// behind its beginning, and the next episode begins at the next whole second but one.
package recording

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"

	"github.com/foxglove/mcap/go/mcap"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/graphlayout"
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

// Messages of the topics with fields that are the same in every case. What is not known is NaN.
type (
	episodeEnd struct {
		Episode       int64   `pb:"1,episode"`
		Cost          float64 `pb:"2,cost"`
		OracleCost    float64 `pb:"3,oracle_cost"`
		Safe          bool    `pb:"4,safe"`
		CollisionFree bool    `pb:"5,collision_free"`
		Completed     bool    `pb:"6,completed"`
		Failed        bool    `pb:"7,failed"`
		Cause         string  `pb:"8,cause"`
	}
	latency struct {
		Decision float64 `pb:"1,latency_us"`
		Localize float64 `pb:"2,localize_us"`
		Step     float64 `pb:"3,step_us"`
		Project  float64 `pb:"4,project_us"`
	}
	monitor struct {
		Episode      int64   `pb:"1,episode"`
		T            int64   `pb:"2,t"`
		Cost         float64 `pb:"3,cost"` // Σ σ_i J_i
		Residual     float64 `pb:"4,residual"`
		Displacement float64 `pb:"5,displacement"`
		Fallback     int64   `pb:"6,fallback"`
		Failed       bool    `pb:"7,failed"`
	}
)

// least is the field of the smallest margin.
const least = "least"

// Writer writes the episodes of a trace. It is used by one goroutine.
type Writer struct {
	out          *mcap.Writer
	header       *closedloop.Header
	plant        domain.Plant
	spec         *domain.Spec
	abilities    *domain.ProblemAbilities
	busPositions [][2]float64
	channels     map[string]uint16
	numbers      map[string]numbers // by topic
	sequence     map[string]uint32
	period       uint64 // ns
	begin        uint64 // of the next episode, ns
}

const second = 1_000_000_000 // ns

// NewWriter begins a file of a trace's episodes; c is the case on the trace's plant (see
// closedloop.Header.On).
func NewWriter(out io.Writer, h *closedloop.Header, c *domain.Case) (*Writer, error) {
	if c.Plant == nil {
		return nil, fmt.Errorf("case %q has no plant to replay episodes with", h.Case)
	}
	w := &Writer{
		header: h, plant: c.Plant, spec: c.Problem.Spec(), channels: map[string]uint16{}, numbers: map[string]numbers{}, sequence: map[string]uint32{}, begin: second,
	}
	w.period = uint64(math.Round(w.spec.StepSeconds * second))
	w.abilities = domain.AbilitiesOfProblem(c.Problem)
	if w.abilities.Chart != nil {
		chart := w.abilities.Chart()
		w.busPositions = graphlayout.Of(len(chart.Buses), chart.Branches)
	}
	var err error
	if w.out, err = mcap.NewWriter(out, &mcap.WriterOptions{Chunked: true, Compression: mcap.CompressionZSTD, IncludeCRC: true, OverrideLibrary: true}); err != nil {
		return nil, err
	}
	if err := w.out.WriteHeader(&mcap.Header{Library: "gpc"}); err != nil {
		return nil, err
	}
	metadata := map[string]string{
		"case": h.Case, "method": h.Method, "seed": strconv.FormatUint(h.Seed, 10), "commit": h.Commit, "device": h.Device,
		"model_sha256": h.ModelSHA256, "problem_sha256": h.ProblemSHA256, "scenes_sha256": h.ScenesSHA256, "regime": h.Regime,
	}
	if err := w.out.WriteMetadata(&mcap.Metadata{Name: "gpc", Metadata: metadata}); err != nil {
		return nil, err
	}
	return w, w.declare()
}

// declare writes schemas and channels.
func (w *Writer) declare() error {
	type channel struct {
		topic, pkg, name string
		messages         []*descriptorpb.DescriptorProto
		metadata         map[string]string
	}
	message := func(topic, pkg string, t reflect.Type) channel {
		return channel{topic: topic, pkg: pkg, name: names[t], messages: described(pkg, t)}
	}
	numeric := func(topic, name string, variables []domain.Variable) channel {
		n := numbersOf(name, variables)
		w.numbers[topic] = n
		return channel{topic, "gpc", name, []*descriptorpb.DescriptorProto{n.descriptor()}, n.descriptions}
	}
	channels := []channel{message(topicEpisode, "gpc", reflect.TypeFor[episodeEnd]())}
	if w.abilities.Picture != nil || w.abilities.Chart != nil {
		channels = append(channels, message(topicScene, "foxglove", reflect.TypeFor[sceneUpdate]()))
	}
	if w.abilities.Picture != nil {
		channels = append(channels, message(topicFrames, "foxglove", reflect.TypeFor[frameTransforms]()))
	}
	channels = append(channels,
		numeric(topicObservation, "Observation", w.spec.Measured), numeric(topicAction, "Action", w.spec.Action), numeric(topicState, "State", w.spec.Measured),
		numeric(topicObjectives, "Objectives", w.spec.Objectives), numeric(topicSigma, "Sigma", w.spec.Objectives), numeric(topicPriority, "Priority", w.spec.Objectives),
		numeric(topicMargins, "Margins", append([]domain.Variable{{Name: least}}, w.spec.Margins...)),
		message(topicLatency, "gpc", reflect.TypeFor[latency]()), message(topicMonitor, "gpc", reflect.TypeFor[monitor]()),
	)
	for i, c := range channels {
		data, err := schema(c.pkg, c.name, c.messages...)
		if err != nil {
			return err
		}
		id := uint16(i + 1)
		if err := w.out.WriteSchema(&mcap.Schema{ID: id, Name: c.pkg + "." + c.name, Encoding: encoding, Data: data}); err != nil {
			return err
		}
		if err := w.out.WriteChannel(&mcap.Channel{ID: id, SchemaID: id, Topic: c.topic, MessageEncoding: encoding, Metadata: c.metadata}); err != nil {
			return err
		}
		w.channels[c.topic] = id
	}
	return nil
}

// encoding of schemas and messages.
const encoding = "protobuf"

// message writes one message, which is a struct; a topic without a channel has none.
func (w *Writer) message(topic string, ns uint64, v any) error {
	return w.write(topic, ns, appendMessage(nil, reflect.ValueOf(v)))
}

// values writes a message of the numbers of a topic's variables, of a shorter list the leading ones.
func (w *Writer) values(topic string, ns uint64, v []float64) error {
	n := w.numbers[topic]
	return w.write(topic, ns, n.message(v))
}

func (w *Writer) write(topic string, ns uint64, data []byte) error {
	id, ok := w.channels[topic]
	if !ok {
		return nil
	}
	m := &mcap.Message{ChannelID: id, Sequence: w.sequence[topic], LogTime: ns, PublishTime: ns, Data: data}
	w.sequence[topic]++
	return w.out.WriteMessage(m)
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
	if err := w.message(topicScene, ns, sceneUpdate{Deletions: []deletion{{Time: stampOf(ns), Type: everything}}}); err != nil {
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
		if err := w.values(topicState, ns, l.S); err != nil {
			return err
		}
		ep.Observe(s, c)
		if err := w.look(s, c, ns); err != nil {
			return err
		}
	}
	if err := w.message(topicEpisode, ns, episodeEnd{
		int64(e.Episode), float64(e.End.Cost), float64(e.End.OracleCost), e.End.Safe, e.End.CollisionFree, e.End.Completed, e.End.Failed, cmp.Or(e.End.Failure, e.End.Cause),
	}); err != nil {
		return err
	}
	w.begin = (ns/second + 2) * second
	return nil
}

// decision writes the numbers of one decision.
func (w *Writer) decision(l *closedloop.Line, out *domain.Outcome, ns uint64) error {
	nan := math.NaN()
	times, cost := latency{float64(l.Latency), nan, nan, nan}, 0.0
	if len(l.Times) == 3 {
		times.Localize, times.Step, times.Project = l.Times[0], l.Times[1], l.Times[2]
	}
	for i, j := range l.J[:min(len(l.J), len(l.Sigma))] {
		cost += l.Sigma[i] * j
	}
	status := monitor{int64(l.Episode), int64(l.T), cost, float64(l.Residual), float64(l.Displacement), int64(l.Fallback), l.Failed}
	errs := []error{
		w.values(topicObservation, ns, l.X), w.values(topicAction, ns, l.U), w.values(topicObjectives, ns, l.J), w.values(topicSigma, ns, l.Sigma),
		w.values(topicMargins, ns, append([]float64{float64(l.Margin)}, out.Named...)), w.message(topicLatency, ns, times), w.message(topicMonitor, ns, status),
	}
	if l.Priority != nil {
		errs = append(errs, w.values(topicPriority, ns, l.Priority))
	}
	return errors.Join(errs...)
}

// look writes the picture of a state.
func (w *Writer) look(s, c []float64, ns uint64) error {
	if w.abilities.Picture == nil {
		return nil
	}
	entities, frames, err := pictured(w.abilities.Picture(s, c), ns)
	if err != nil {
		return err
	}
	if len(frames) > 0 {
		if err := w.message(topicFrames, ns, frameTransforms{frames}); err != nil {
			return err
		}
	}
	return w.message(topicScene, ns, sceneUpdate{Entities: entities})
}

// operate writes a network under an action. Where that has no power flow it stays as it was.
func (w *Writer) operate(s, c, u []float64, ns uint64) error {
	if w.abilities.Chart == nil {
		return nil
	}
	p, ok := w.abilities.Operate(s, c, u)
	if !ok {
		return nil
	}
	return w.message(topicScene, ns, sceneUpdate{Entities: charted(w.abilities.Chart(), w.busPositions, p, ns)})
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
