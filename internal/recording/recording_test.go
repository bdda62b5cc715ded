package recording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/graphlayout"
	"github.com/gpc-engine/gpc/internal/recording"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/multiagent"
	"github.com/gpc-engine/gpc/paper/opf"
)

// still is a controller that takes the problem's fallback, with a priority of its own.
type still struct{ p domain.Problem }

func (still) Reset(domain.Episode) error { return nil }

func (c still) Decide(s, x []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	c.p.Fallback(s, x, u)
	d := domain.Decided(true)
	d.Sigma = []float64{0.5, 0.25, 0.25}
	return d, nil
}

// message is one of a recording, decoded by the schema that the file has of it into JSON.
type message struct {
	topic string
	at    uint64
	data  []byte
}

// number is one of a decoded message.
type number float64

func (n *number) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*n = number(v)
	return err
}

// decoded is a message as JSON, by its schema alone.
func decoded(t *testing.T, s *mcap.Schema, data []byte) []byte {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	require.OK(t, proto.Unmarshal(s.Data, &set))
	files := require.Get(protodesc.NewFiles(&set))(t)
	m := dynamicpb.NewMessage(require.Get(files.FindDescriptorByName(protoreflect.FullName(s.Name)))(t).(protoreflect.MessageDescriptor))
	require.OK(t, proto.Unmarshal(data, m))
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		t.Fatalf("%s: %d bytes that its schema does not name", s.Name, len(unknown))
	}
	return require.Get(protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m))(t)
}

// robots is Case 2 with short episodes.
func robots(t *testing.T) domain.Case {
	t.Helper()
	c := multiagent.Moving()
	return require.Get(c.Remake(json.RawMessage(`{"steps": 7}`)))(t)
}

// recorded runs episodes of a case and reads its trace, as MCAP and as it is.
func recorded(t *testing.T, c domain.Case, episodes int) (*mcap.Info, []message, []*closedloop.EpisodeRecord) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	require.Get(closedloop.Evaluate(context.Background(), &c, func() (domain.Controller, error) { return still{c.Problem}, nil }, closedloop.Options{
		Method: "still", Episodes: episodes, Seed: 991, TracePath: trace, Preference: domain.Preference{Adaptive: true},
	}))(t)
	text := require.Get(os.ReadFile(trace))(t)
	var out bytes.Buffer
	h, n, err := recording.Write(&out, bytes.NewReader(text), func(*closedloop.Header) (*domain.Case, error) { return &c, nil })
	require.OK(t, err)
	if h.Method != "still" || n != episodes {
		t.Fatalf("wrote %d episodes by %s", n, h.Method)
	}
	reader := require.Get(mcap.NewReader(bytes.NewReader(out.Bytes())))(t)
	info := require.Get(reader.Info())(t)
	var messages []message
	stream := require.Get(mcap.NewReader(bytes.NewReader(out.Bytes())))(t)
	it := require.Get(stream.Messages(mcap.UsingIndex(false)))(t)
	for {
		schema, channel, m, err := it.NextInto(nil)
		if errors.Is(err, io.EOF) {
			break
		}
		require.OK(t, err)
		messages = append(messages, message{channel.Topic, m.LogTime, decoded(t, schema, m.Data)})
	}
	if uint64(len(messages)) != info.Statistics.MessageCount {
		t.Fatalf("%d messages, the summary counts %d", len(messages), info.Statistics.MessageCount)
	}
	r := require.Get(closedloop.NewReader(bytes.NewReader(text)))(t)
	var records []*closedloop.EpisodeRecord
	for {
		e, err := r.Next()
		if err != nil {
			break
		}
		records = append(records, e)
	}
	return info, messages, records
}

// values are the numbers of a topic's messages, in their order.
func values(t *testing.T, messages []message, topic string) (all []map[string]number, at []uint64) {
	t.Helper()
	for _, m := range messages {
		if m.topic == topic {
			var v map[string]number
			require.OK(t, json.Unmarshal(m.data, &v))
			all, at = append(all, v), append(at, m.at)
		}
	}
	return all, at
}

// A recording opens by the reader of MCAP's own library: it has the schemas and channels that the page
// names, as many messages as there are decisions, times that rise with the plant's clock, and the
// trace's values.
func TestARecordingHoldsTheTrace(t *testing.T) {
	c := robots(t)
	spec := c.Problem.Spec()
	info, messages, records := recorded(t, c, 2)
	const steps, episodes = 7, 2
	counts := info.ChannelCounts()
	for topic, want := range map[string]uint64{
		"/episode": episodes, "/scene": episodes * (steps + 2), "/tf": episodes * (steps + 1), "/observation": episodes * steps, "/action": episodes * steps,
		"/state": episodes * steps, "/objectives": episodes * steps, "/sigma": episodes * steps, "/priority": episodes * steps, "/margins": episodes * steps,
		"/latency": episodes * steps, "/monitor": episodes * steps,
	} {
		if counts[topic] != want {
			t.Errorf("%s has %d messages, want %d", topic, counts[topic], want)
		}
	}
	page := require.Get(pages.ReadKeys("../../docs/reference/formats.md"))(t)
	var topics []string
	for _, ch := range info.Channels {
		topics = append(topics, ch.Topic)
		s := info.Schemas[ch.SchemaID]
		if s.Encoding != "protobuf" || ch.MessageEncoding != "protobuf" || ch.Topic == "/scene" && s.Name != "foxglove.SceneUpdate" || ch.Topic == "/tf" && s.Name != "foxglove.FrameTransforms" {
			t.Errorf("%s: schema %s in %s, messages are %s", ch.Topic, s.Name, s.Encoding, ch.MessageEncoding)
		}
		if about := ch.Metadata["x0"]; (ch.Topic == "/state") != (about == "x0 [m]") && ch.Topic != "/observation" {
			t.Errorf("%s: x0 is %q", ch.Topic, about)
		}
	}
	for _, d := range page.Against("mcap", topics) {
		t.Error(d)
	}
	last, period := uint64(0), uint64(math.Round(spec.StepSeconds*1e9))
	for _, m := range messages {
		if m.at < last {
			t.Fatalf("%s at %d ns stands behind %d", m.topic, m.at, last)
		}
		last = m.at
	}
	var lines []closedloop.Line
	for _, e := range records {
		lines = append(lines, e.Lines...)
	}
	same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	check := func(topic string, variables []domain.Variable, of func(l *closedloop.Line) closedloop.Vector, after uint64) {
		all, at := values(t, messages, topic)
		for k, v := range all {
			l := &lines[k]
			begin := uint64(1e9)
			if l.Episode == 1 {
				begin = (1e9+steps*period)/1e9*1e9 + 2e9
			}
			if at[k] != begin+(uint64(l.T)+after)*period {
				t.Fatalf("%s %d of episode %d is at %d ns", topic, l.T, l.Episode, at[k])
			}
			want := of(l)
			if len(v) != len(variables) {
				t.Fatalf("%s has %d values of %d variables", topic, len(v), len(variables))
			}
			for i, variable := range variables {
				x := math.NaN() // of a robot that is not there
				if i < len(want) {
					x = want[i]
				}
				if got, ok := v[variable.Name]; !ok || !same(float64(got), x) {
					t.Fatalf("%s %d: %s is %v, the trace has %v", topic, k, variable.Name, got, x)
				}
			}
		}
	}
	check("/observation", spec.Measured, func(l *closedloop.Line) closedloop.Vector { return l.X }, 0)
	check("/action", spec.Action, func(l *closedloop.Line) closedloop.Vector { return l.U }, 0)
	check("/state", spec.Measured, func(l *closedloop.Line) closedloop.Vector { return l.S }, 1)
	check("/objectives", spec.Objectives, func(l *closedloop.Line) closedloop.Vector { return l.J }, 0)
	check("/sigma", spec.Objectives, func(l *closedloop.Line) closedloop.Vector { return l.Sigma }, 0)
	check("/priority", spec.Objectives, func(l *closedloop.Line) closedloop.Vector { return l.Priority }, 0)
	margins, _ := values(t, messages, "/margins")
	for k, v := range margins {
		low := math.Inf(1)
		for _, m := range spec.Margins {
			low = math.Min(low, float64(v[strings.ReplaceAll(m.Name, " ", "_")]))
		}
		if float64(v["least"]) != float64(lines[k].Margin) || low != float64(lines[k].Margin) {
			t.Fatalf("margins %v, the trace's least is %v", v, lines[k].Margin)
		}
	}
	times, _ := values(t, messages, "/latency")
	for k, v := range times {
		if float64(v["latency_us"]) != float64(lines[k].Latency) {
			t.Fatalf("latency %v, the trace has %v", v["latency_us"], lines[k].Latency)
		}
	}
}

// The scene of robots has every body in a frame of its own, where the plant has it.
func TestSceneOfRobots(t *testing.T) {
	c := robots(t)
	_, messages, records := recorded(t, c, 1)
	type transforms struct {
		Transforms []struct {
			Parent      string `json:"parent_frame_id"`
			Child       string `json:"child_frame_id"`
			Translation struct{ X, Y float64 }
			Rotation    struct{ Z, W float64 }
		}
	}
	step := -1
	for _, m := range messages {
		if m.topic != "/tf" {
			continue
		}
		var v transforms
		require.OK(t, json.Unmarshal(m.data, &v))
		if step++; step == 0 {
			continue
		}
		s := records[0].Lines[step-1].S
		if len(v.Transforms) != len(s)/4 {
			t.Fatalf("%d frames of %d robots", len(v.Transforms), len(s)/4)
		}
		for i, f := range v.Transforms {
			heading := 2 * math.Atan2(f.Rotation.Z, f.Rotation.W)
			if f.Parent != "world" || f.Translation.X != s[4*i] || f.Translation.Y != s[4*i+1] || math.Abs(math.Remainder(heading-s[4*i+2], 2*math.Pi)) > 1e-9 {
				t.Fatalf("step %d: frame %+v of the robot %v", step, f, s[4*i:4*i+4])
			}
		}
	}
	var scene struct {
		Entities []struct {
			ID        string
			Frame     string `json:"frame_id"`
			Cylinders []struct{ Size struct{ X float64 } }
		}
	}
	for _, m := range messages {
		if m.topic == "/scene" {
			require.OK(t, json.Unmarshal(m.data, &scene))
		}
	}
	bodies := 0
	for _, e := range scene.Entities {
		if strings.HasPrefix(e.ID, "body ") {
			if bodies++; e.Frame != e.ID || len(e.Cylinders) != 1 {
				t.Errorf("body %+v", e)
			}
		}
	}
	if bodies != len(records[0].Lines[0].S)/4 {
		t.Errorf("%d bodies", bodies)
	}
}

// The scene of a network has its lines coloured by loading: what is beyond its limit is red.
func TestSceneOfANetwork(t *testing.T) {
	c := opf.Thirty()
	info, messages, _ := recorded(t, c, 1)
	if counts := info.ChannelCounts(); counts["/scene"] != 301 || counts["/tf"] != 0 {
		t.Errorf("%v", counts)
	}
	chart := domain.AbilitiesOfProblem(c.Problem).Chart()
	at := graphlayout.Of(len(chart.Buses), chart.Branches)
	var found bool
	for _, m := range messages {
		if m.topic != "/scene" {
			continue
		}
		var scene struct {
			Entities []struct {
				ID       string
				Metadata []struct{ Key, Value string }
				Lines    []struct {
					Points []struct{ X, Y float64 }
					Colors []struct{ R, G, B float64 }
				}
			}
		}
		require.OK(t, json.Unmarshal(m.data, &scene))
		index := slices.IndexFunc(scene.Entities, func(e struct {
			ID       string
			Metadata []struct{ Key, Value string }
			Lines    []struct {
				Points []struct{ X, Y float64 }
				Colors []struct{ R, G, B float64 }
			}
		}) bool {
			return e.ID == "branches"
		})
		if index < 0 {
			continue // the deletion of what was there
		}
		found = true
		lines := scene.Entities[index]
		loadings := strings.Fields(lines.Metadata[0].Value)
		if len(loadings) != len(chart.Branches) || len(lines.Lines[0].Points) != 2*len(chart.Branches) {
			t.Fatalf("%d loadings of %d lines", len(loadings), len(chart.Branches))
		}
		for k, text := range loadings {
			var v float64
			require.OK(t, json.Unmarshal([]byte(text), &v))
			c, p := lines.Lines[0].Colors[2*k], lines.Lines[0].Points[2*k]
			if red := c.G < 0.15; red != (v >= 0.98) && math.Abs(v-0.98) > 0.02 {
				t.Errorf("line %d at loading %v is coloured %+v", k, v, c)
			}
			if from := at[chart.Branches[k].From]; p.X != from[0] || p.Y != from[1] {
				t.Errorf("line %d begins at %v, its node is at %v", k, p, from)
			}
		}
	}
	if !found {
		t.Error("no scene has lines")
	}
}

// Writing the same trace twice gives the same bytes.
func TestARecordingIsReproducible(t *testing.T) {
	c := robots(t)
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	require.Get(closedloop.Evaluate(context.Background(), &c, func() (domain.Controller, error) { return still{c.Problem}, nil }, closedloop.Options{
		Method: "still", Episodes: 1, Seed: 991, TracePath: trace, Preference: domain.Preference{Adaptive: true},
	}))(t)
	text := require.Get(os.ReadFile(trace))(t)
	var sizes [2]bytes.Buffer
	for i := range sizes {
		_, _, err := recording.Write(&sizes[i], bytes.NewReader(text), func(*closedloop.Header) (*domain.Case, error) { return &c, nil })
		require.OK(t, err)
	}
	if !bytes.Equal(sizes[0].Bytes(), sizes[1].Bytes()) {
		t.Error("two recordings of one trace differ")
	}
	if _, _, err := recording.Write(&sizes[0], bytes.NewReader(text[:len(text)-20]), func(*closedloop.Header) (*domain.Case, error) { return &c, nil }); err == nil {
		t.Error("a trace that is cut off is taken")
	}
}
