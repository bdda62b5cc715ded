package closedloop

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/option"
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

// EpisodeRecord is one complete episode of a trace.
type EpisodeRecord struct {
	Episode   int
	Scene     json.RawMessage
	SceneLine int
	Lines     []Line
	End       End
	EndLine   int
	// EndOffset is the offset in bytes just after the episode's last line.
	EndOffset int64
	// Damage says how its hashes are not those of the bytes that were read; "" if they are.
	Damage string
}

// ErrTruncated is wrapped by the error for a trace that ends inside an episode.
var ErrTruncated = errors.New("the trace ends inside an episode")

// Reader reads a trace episode by episode.
type Reader struct {
	Header Header
	source *bufio.Reader
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
	t := &Reader{source: bufio.NewReaderSize(r, 1<<16), record: sha256.New()}
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
		return nil, option.Errorf("trace line %d: header: %w (is this a trace, as an evaluation with {TracePath} writes it?)", t.line, err)
	}
	switch {
	case version.Trace == 1:
		return nil, t.errorf("the header has \"trace\": 1: an earlier program recorded this trace, without hashes and the number of its episodes; record it again")
	case version.Trace != traceVersion && version.Trace != bareVersion:
		return nil, t.errorf("header has \"trace\": %d, this program reads versions %d and %d", version.Trace, bareVersion, traceVersion)
	}
	if err := jsonin.Known(text, h); err != nil {
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
	case h.Shard[0] < 0 || h.Shard[0] >= h.Shard[1]:
		return nil, t.errorf("header has the shard %d/%d, want 0 ≤ i < n", h.Shard[0], h.Shard[1])
	case h.Episodes < 1 || h.Episodes > maxEpisodes:
		return nil, t.errorf("header has %d episodes, want 1 to %d", h.Episodes, maxEpisodes)
	}
	t.seal()
	return t, nil
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
		part, err := t.source.ReadSlice('\n')
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
func (t *Reader) parse(target any) error {
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
	if err := jsonin.Known(text, target); err != nil {
		return t.errorf("%w", err)
	}
	return nil
}

// Next returns the next complete episode, io.EOF after the last, or an error
// that wraps ErrTruncated where the file stops inside one.
func (t *Reader) Next() (*EpisodeRecord, error) {
	switch _, err := t.source.Peek(1); {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil: // an interrupt, for one
		return nil, err
	}
	if t.episodes == t.Header.count() {
		t.line++
		return nil, t.errorf("continues after the last of the %d episodes that the header counts", t.episodes)
	}
	var scene struct {
		Episode  *int            `json:"episode"`
		Previous string          `json:"before_sha256"`
		Scene    json.RawMessage `json:"scene"`
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
	if scene.Previous != t.last {
		e.Damage = fmt.Sprintf("before_sha256 is %.64q, the record before has %s", scene.Previous, t.last)
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
		if math.IsNaN(float64(l.Margin)) && len(t.Header.Margins) == 0 {
			l.Margin = Number(math.Inf(1)) // without a hard limit there is no margin, which is null
		}
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
	if seal.SHA256 != t.last && e.Damage == "" {
		e.Damage = fmt.Sprintf("sha256 is %.64q, its lines have %s", seal.SHA256, t.last)
	}
	t.last = seal.SHA256 // what the next one has to repeat
	t.episodes++
	e.EndOffset = t.offset
	return e, nil
}
