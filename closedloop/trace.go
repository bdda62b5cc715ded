package closedloop

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Limits on what a trace can make a reader hold or go on with. The longest line is a
// header or a scene with the load of every bus at every step.
const (
	MaxLineBytes    = 64 << 20
	MaxEpisodeBytes = 512 << 20
	MaxTraceBytes   = 64 << 30
	MaxVectorLength = 1 << 16
	MaxEpisodeSteps = 1 << 20
)

// traceVersion is the value of the header's "trace". Traces of bareVersion, which earlier
// programs recorded, do not hold the context of decisions.
const (
	traceVersion = 3
	bareVersion  = 2
)

// Vector is a list of numbers whose JSON has null where an entry is not finite.
type Vector []float64

// MarshalJSON implements json.Marshaler.
func (v Vector) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	numbers := make([]Number, len(v))
	for i, x := range v {
		numbers[i] = Number(x)
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON implements json.Unmarshaler; null entries are NaN.
func (v *Vector) UnmarshalJSON(b []byte) error {
	if bytes.Count(b, []byte{','}) >= MaxVectorLength {
		return fmt.Errorf("a list of more than %d entries", MaxVectorLength)
	}
	var numbers []Number
	if err := json.Unmarshal(b, &numbers); err != nil {
		return err
	}
	if numbers == nil {
		*v = nil
		return nil
	}
	*v = make(Vector, len(numbers))
	for i, x := range numbers {
		(*v)[i] = float64(x)
	}
	return nil
}

// Header is the first line of a trace (DESIGN §8): what is needed to re-simulate,
// re-score and decide again, and which run it was.
type Header struct {
	Trace  int             `json:"trace"`
	Case   string          `json:"case"`
	Method string          `json:"method"`
	Seed   uint64          `json:"seed"`
	Params json.RawMessage `json:"params"`
	// ProblemSHA256 is the domain.FingerprintOf of the problem.
	ProblemSHA256 string `json:"problem_sha256"`
	Commit        string `json:"commit"`
	Device        string `json:"device"`
	// Backend and ISA computed: the engine, "" for a method without a map, and the
	// instruction set of this CPU's kernels. On the same two a decision repeats bit for bit.
	Backend string `json:"backend,omitempty"`
	ISA     string `json:"isa"`
	// ModelSHA256 is of the map, as model.Model.Write stores it, or of the weights that the
	// method decides by; "" for one without.
	ModelSHA256 string `json:"model_sha256,omitempty"`
	// Candidates per decision where the run asked for other than the method's own number.
	Candidates int `json:"candidates,omitempty"`
	// Noise, Bias, Regime and Preference are the episodes' options, Episodes their number
	// over all shards, Shard the i/n that this file holds: the episodes with number ≡ i
	// modulo n. Shift are the factors on parameters of the case's plant that made the plant
	// of Params.
	Noise      float64            `json:"noise"`
	Bias       float64            `json:"bias,omitempty"`
	Shift      map[string]float64 `json:"shift,omitempty"`
	Regime     string             `json:"regime"`
	Preference domain.Preference  `json:"preference"`
	// ScenesSHA256 is of the files that the scenes were given in (Scenes.SHA256); "" where they
	// were drawn from the seed.
	ScenesSHA256 string `json:"scenes_sha256,omitempty"`
	// Guard looked after the decisions of the navigator's methods; absent: none.
	Guard    *domain.Guard `json:"guard,omitempty"`
	Episodes int           `json:"episodes"`
	Shard    [2]int        `json:"shard"`
	// Tolerance: a margin below −Tolerance is a violation.
	Tolerance float64  `json:"margin_tolerance"`
	Margins   []string `json:"margins"`
}

// count is how many episodes the file of a header's shard holds when it is whole.
func (h *Header) count() int {
	return (h.Episodes - h.Shard[0] + h.Shard[1] - 1) / h.Shard[1]
}

// threads at the end of a device's name are what its host gave the process.
var threads = regexp.MustCompile(`, \d+ threads$`)

// sameRun reports, in words, why a file cannot be continued by a run, "" if it can.
func (h *Header) sameRun(o *Header) string {
	fields := func(h *Header) map[string]json.RawMessage {
		of := *h
		of.Device = threads.ReplaceAllString(of.Device, "")
		text, err := json.Marshal(of)
		var all map[string]json.RawMessage
		if err != nil || json.Unmarshal(text, &all) != nil {
			return nil
		}
		return all
	}
	a, b := fields(h), fields(o)
	if a == nil || b == nil {
		return "its header cannot be compared"
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	var differ []string
	for _, name := range slices.Compact(names) {
		if x, y := a[name], b[name]; !sameJSON(x, y) {
			differ = append(differ, fmt.Sprintf("%s %.80s, this run's is %.80s", name, orNone(x), orNone(y)))
		}
	}
	if len(differ) == 0 {
		return ""
	}
	return "its header has " + strings.Join(differ, "; ")
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "absent"
	}
	return string(value)
}

// sameJSON compares two values by content.
func sameJSON(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Line is one decision of a trace.
type Line struct {
	Episode  int    `json:"episode"`
	T        int    `json:"t"`
	X        Vector `json:"x"`           // measured state, noisy where asked
	C        Vector `json:"c,omitempty"` // context, of a case that has one
	U        Vector `json:"u"`           // applied action
	S        Vector `json:"s"`           // plant's state after it
	Sigma    Vector `json:"sigma"`       // priority the stage was scored with
	J        Vector `json:"J"`           // stage objectives
	Margin   Number `json:"margin"`
	Residual Number `json:"residual"`
	Latency  Number `json:"latency_us"`
	Fallback uint16 `json:"fallback"`
	Failed   bool   `json:"failed,omitempty"` // Outcome.Failed
	// Displacement is ‖z_{t+1} − z_t‖, Priority the method's own σ, Times its shares
	// [localize, step, project] in µs; only of methods that have them.
	Displacement Number `json:"displacement"`
	Priority     Vector `json:"priority,omitempty"`
	Times        Vector `json:"times_us,omitempty"`
	// Number of the line in its file, from 1; not stored.
	Line int `json:"-"`
}

// sceneLine begins an episode, with the hash of the record before it: the header's line or
// the lines of the episode before, its seal not among them. endLine ends it, sealLine holds
// the hash of its lines, which the next record repeats.
type sceneLine struct {
	Episode int             `json:"episode"`
	Before  string          `json:"before_sha256"`
	Scene   json.RawMessage `json:"scene"`
}

type endLine struct {
	Episode int `json:"episode"`
	End     End `json:"end"`
}

type sealLine struct {
	Episode int    `json:"episode"`
	SHA256  string `json:"sha256"`
}

// End is the verdict of an episode.
type End struct {
	Cost       Number `json:"cost"`
	OracleCost Number `json:"oracle_cost"` // null without an oracle
	Safe       bool   `json:"safe"`
	// CollisionFree is whether the collision margins alone were kept, Completed
	// whether every step was taken; Failure says why not.
	CollisionFree bool   `json:"collision_free"`
	Completed     bool   `json:"completed"`
	Failure       string `json:"failure,omitempty"`
	// Margins are the smallest values of the named margins over the episode, in the
	// header's order.
	Margins Vector `json:"margins,omitempty"`
	// Reached is whether a Judged episode succeeded, AtEnd whether an Arrived one
	// was where it should be after the last step; null for others.
	Reached *bool `json:"reached,omitempty"`
	AtEnd   *bool `json:"at_end,omitempty"`
	// Failed: a state of the episode was lost (domain.Failing).
	Failed bool `json:"failed,omitempty"`
	// Cause says in one line why an episode is not safe: what an Explained one says, or the
	// first margin that was violated, or the first state that was lost.
	Cause string `json:"cause,omitempty"`
	// OracleFailure is why there is no oracle cost where the oracle was asked.
	OracleFailure string `json:"oracle_failure,omitempty"`
	// Starts are the costs that the solves of a domain.Multistart ended at, null where one
	// did not converge.
	Starts Vector `json:"starts,omitempty"`
	// Excluded scenes were drawn before this one and left out; see Drawn.
	Excluded int `json:"excluded,omitempty"`
}

// EpisodeRecord is one complete episode of a trace.
type EpisodeRecord struct {
	Episode   int
	Scene     json.RawMessage
	SceneLine int
	Lines     []Line
	End       End
	EndLine   int
	// After is the offset in bytes just behind the episode's last line.
	After int64
	// Broken says how its hashes are not those of the bytes that were read; "" if they are.
	Broken string
}

// ErrTruncated is wrapped by the error for a trace that ends inside an episode.
var ErrTruncated = errors.New("the trace ends inside an episode")

// Reader reads a trace episode by episode.
type Reader struct {
	Header Header
	in     *bufio.Reader
	line   int
	offset int64
	// complete is false when the last line read had no newline.
	complete bool
	record   hash.Hash // of the lines of the record that is read
	bytes    int64     // in them
	last     string    // hash of the record before
	episodes int       // read
}

// NewReader reads the header. Errors name the line and what was expected.
func NewReader(r io.Reader) (*Reader, error) {
	t := &Reader{in: bufio.NewReaderSize(r, 1<<16), record: sha256.New()}
	text, err := t.next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("trace: the file is empty, want a header line {\"trace\":%d,…}", traceVersion)
	}
	if err != nil {
		return nil, err
	}
	h := &t.Header
	var version struct {
		Trace int `json:"trace"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, t.errorf("header: %w (is this a trace, as eval --trace writes it?)", err)
	}
	switch {
	case version.Trace == 1:
		return nil, t.errorf("the header has \"trace\": 1: an earlier program recorded this trace, without hashes and the number of its episodes; record it again")
	case version.Trace != traceVersion && version.Trace != bareVersion:
		return nil, t.errorf("header has \"trace\": %d, this program reads versions %d and %d", version.Trace, bareVersion, traceVersion)
	}
	if err := strict(text, h); err != nil {
		return nil, t.errorf("header: %w", err)
	}
	if !t.complete {
		return nil, t.errorf("header: %w", ErrTruncated)
	}
	switch {
	case h.Case == "" || len(h.Params) == 0:
		return nil, t.errorf("header lacks \"case\" or \"params\"")
	case !(h.Tolerance >= 0):
		return nil, t.errorf("header has the margin tolerance %v, want it ≥ 0", h.Tolerance)
	case h.Shard[1] < 1 || h.Shard[0] < 0 || h.Shard[0] >= h.Shard[1]:
		return nil, t.errorf("header has the shard %d/%d, want 0 ≤ i < n", h.Shard[0], h.Shard[1])
	case h.Episodes < 1 || h.Episodes > maxEpisodes:
		return nil, t.errorf("header has %d episodes, want 1 to %d", h.Episodes, maxEpisodes)
	}
	t.seal()
	return t, nil
}

// strict decodes JSON with known fields only.
func strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// seal ends a record: its hash is the last one.
func (t *Reader) seal() {
	t.last = durable.Sum([sha256.Size]byte(t.record.Sum(nil)))
	t.record.Reset()
	t.bytes = 0
}

func (t *Reader) errorf(format string, a ...any) error {
	return fmt.Errorf("trace line %d: "+format, append([]any{t.line}, a...)...)
}

// next returns the next line without its newline; io.EOF when there is none.
func (t *Reader) next() ([]byte, error) {
	var text []byte
	t.line++
	for {
		part, err := t.in.ReadSlice('\n')
		text = append(text, part...)
		t.offset += int64(len(part))
		t.bytes += int64(len(part))
		switch {
		case len(text) > MaxLineBytes:
			return nil, t.errorf("longer than %d bytes", MaxLineBytes)
		case t.bytes > MaxEpisodeBytes:
			return nil, t.errorf("the episode has more than %d bytes", MaxEpisodeBytes)
		case t.offset > MaxTraceBytes:
			return nil, t.errorf("the trace has more than %d bytes", MaxTraceBytes)
		}
		switch {
		case err == nil:
			t.complete = true
			t.record.Write(text)
			return text[:len(text)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			t.complete = false
			if len(text) == 0 {
				return nil, io.EOF
			}
			return text, nil
		default:
			return nil, t.errorf("%w", err)
		}
	}
}

// parse decodes one line of an episode; a last line cut short is ErrTruncated.
func (t *Reader) parse(into any) error {
	text, err := t.next()
	if errors.Is(err, io.EOF) {
		return t.errorf("%w", ErrTruncated)
	}
	if err != nil {
		return err
	}
	if !t.complete {
		return t.errorf("%w (no newline)", ErrTruncated)
	}
	if err := strict(text, into); err != nil {
		return t.errorf("%w", err)
	}
	return nil
}

// Next returns the next complete episode, io.EOF after the last, or an error
// that wraps ErrTruncated where the file stops inside one.
func (t *Reader) Next() (*EpisodeRecord, error) {
	if _, err := t.in.Peek(1); errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if t.episodes == t.Header.count() {
		t.line++
		return nil, t.errorf("goes on behind the last of the %d episodes that the header counts", t.episodes)
	}
	var scene struct {
		Episode *int            `json:"episode"`
		Before  string          `json:"before_sha256"`
		Scene   json.RawMessage `json:"scene"`
	}
	if err := t.parse(&scene); err != nil {
		return nil, err
	}
	if scene.Episode == nil || len(scene.Scene) == 0 {
		return nil, t.errorf("want the first line of an episode, {\"episode\":e,\"before_sha256\":…,\"scene\":{…}}")
	}
	if *scene.Episode < 0 {
		return nil, t.errorf("episode %d, want it ≥ 0", *scene.Episode)
	}
	e := &EpisodeRecord{Episode: *scene.Episode, Scene: scene.Scene, SceneLine: t.line}
	if scene.Before != t.last {
		e.Broken = fmt.Sprintf("before_sha256 is %.64q, the record before has %s", scene.Before, t.last)
	}
	for e.EndLine == 0 {
		var l struct {
			Line
			Episode *int `json:"episode"`
			T       *int `json:"t"`
			End     *End `json:"end"`
		}
		if err := t.parse(&l); err != nil {
			return nil, err
		}
		if l.Episode == nil || *l.Episode != e.Episode {
			return nil, t.errorf("does not belong to episode %d, which has no \"end\" yet", e.Episode)
		}
		if l.End != nil {
			e.End, e.EndLine = *l.End, t.line
			continue
		}
		if l.T == nil || *l.T != len(e.Lines) {
			return nil, t.errorf("want decision t = %d of episode %d", len(e.Lines), e.Episode)
		}
		if len(e.Lines) == MaxEpisodeSteps {
			return nil, t.errorf("episode %d has more than %d decisions", e.Episode, MaxEpisodeSteps)
		}
		l.Line.Episode, l.Line.T, l.Line.Line = *l.Episode, *l.T, t.line
		e.Lines = append(e.Lines, l.Line)
	}
	t.seal()
	var seal struct {
		Episode *int   `json:"episode"`
		SHA256  string `json:"sha256"`
	}
	if err := t.parse(&seal); err != nil {
		return nil, err
	}
	if seal.Episode == nil || *seal.Episode != e.Episode || seal.SHA256 == "" {
		return nil, t.errorf("want the seal of episode %d, {\"episode\":%d,\"sha256\":…}", e.Episode, e.Episode)
	}
	t.record.Reset()
	t.bytes = 0
	if seal.SHA256 != t.last && e.Broken == "" {
		e.Broken = fmt.Sprintf("sha256 is %.64q, its lines have %s", seal.SHA256, t.last)
	}
	t.last = seal.SHA256 // what the next one has to repeat
	t.episodes++
	e.After = t.offset
	return e, nil
}
