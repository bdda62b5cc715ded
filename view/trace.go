package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

const (
	// mostEpisodes of a trace are listed.
	mostEpisodes = 100_000
	// replayLimit is how long the replay of one episode may take.
	replayLimit = time.Minute
)

// Trace is a recorded trace. One episode at a time is in memory; another is read from the file.
type Trace struct {
	file        string
	c           *domain.Case
	header      closedloop.Header
	description *Description
	frames      []Frame
	warnings    []string // of the file; those of the episode come behind
}

// OpenTrace reads a trace to its end and shows the first episode. A trace that ends inside an
// episode has those before it. No other file is opened; the case is one of the catalogue's, or
// made of what the trace embeds.
func OpenTrace(ctx context.Context, k *gpc.Catalogue, file string) (*Trace, error) {
	t := &Trace{file: file}
	var first *closedloop.EpisodeRecord
	err := t.read(ctx, func(r *closedloop.Reader, e *closedloop.EpisodeRecord) error {
		if e == nil { // the header alone
			cs, _, err := k.Traced(&r.Header)
			if err != nil {
				return err
			}
			t.c, t.header = cs.Definition(), r.Header
			t.description = describe(t.c)
			return nil
		}
		if len(t.description.Episodes) == mostEpisodes {
			return fmt.Errorf("more than %d episodes, the largest number that the page lists", mostEpisodes)
		}
		if first == nil {
			first = e
		}
		if e.Damage != "" {
			t.warnings = append(t.warnings, fmt.Sprintf("episode %d was changed after it was recorded: %s", e.Episode, e.Damage))
		}
		t.description.Episodes = append(t.description.Episodes, outline(e))
		return nil
	})
	switch {
	case errors.Is(err, closedloop.ErrTruncated) && first != nil:
		t.warnings = append(t.warnings, fmt.Sprintf("%v; the %d episodes before are shown", err, len(t.description.Episodes)))
	case err != nil:
		return nil, gpc.BadInput(fmt.Errorf("%s: %w", file, err))
	case first == nil:
		return nil, gpc.BadInput(fmt.Errorf("%s: the trace has no episode", file))
	}
	d := t.description
	d.Kind, d.Method = "trace", t.header.Method
	d.Source = fmt.Sprintf("episodes: %d, seed %d, commit %s, %s", len(d.Episodes), t.header.Seed, t.header.Commit, t.header.Device)
	return t, t.show(ctx, first)
}

// read visits the header, with nil, and then every episode.
func (t *Trace) read(ctx context.Context, visit func(r *closedloop.Reader, e *closedloop.EpisodeRecord) error) error {
	f, err := os.Open(t.file)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := closedloop.NewReader(f)
	if err == nil {
		err = visit(r, nil)
	}
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var e *closedloop.EpisodeRecord
		if e, err = r.Next(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(r, e)
		}
	}
	return err
}

func outline(e *closedloop.EpisodeRecord) Episode {
	o := Episode{Episode: e.Episode, Steps: len(e.Lines), Safe: e.End.Safe, Margin: math.Inf(1), Cause: e.End.Cause}
	for i := range e.Lines {
		o.Margin = math.Min(o.Margin, float64(e.Lines[i].Margin))
	}
	o.Cause = cmp.Or(o.Cause, e.End.Failure)
	return o
}

// show makes the frames of an episode: the numbers are the trace's, the pictures those of its
// replay.
func (t *Trace) show(ctx context.Context, e *closedloop.EpisodeRecord) error {
	spec := t.c.Problem.Spec()
	start := Frame{Episode: e.Episode, Preference: t.header.Preference, Margin: math.NaN(), Residual: math.NaN(), Moved: math.NaN(), LatencyUs: math.NaN(), Cost: math.NaN(), Best: math.NaN(), Fallback: domain.Fallback(0).String()}
	if len(e.Lines) > 0 {
		start.S = padded(e.Lines[0].X, spec.MeasuredSize())
	}
	frames := []Frame{start}
	for i := range e.Lines {
		l := &e.Lines[i]
		if len(l.U) > spec.ActionSize() || len(l.S) > spec.MeasuredSize() || len(l.J) > spec.ObjectiveSize() || len(l.Sigma) > spec.ObjectiveSize() || len(l.Priority) > spec.ObjectiveSize() {
			return gpc.BadInput(fmt.Errorf("%s: line %d: the sizes of its vectors are not those of case %s", t.file, l.Line, spec.Name))
		}
		bits := domain.Fallback(l.Fallback)
		frames = append(frames, Frame{
			K: i + 1, Episode: e.Episode, T: i + 1, S: padded(l.S, spec.MeasuredSize()), U: padded(l.U, spec.ActionSize()), J: l.J, Sigma: l.Sigma, Priority: l.Priority,
			Preference: t.header.Preference, Margin: float64(l.Margin), Residual: float64(l.Residual), Moved: float64(l.Displacement),
			LatencyUs: float64(l.Latency), Cost: math.NaN(), Best: math.NaN(), Fallback: bits.String(), Replaced: bits.Replaced(), Failed: l.Failed,
		})
	}
	warnings := slices.Clone(t.warnings)
	if err := t.replay(ctx, e, frames); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		warnings = append(warnings, fmt.Sprintf("episode %d cannot be replayed, so that there is no picture of it: %v", e.Episode, err))
	}
	var room map[string]float64
	for k := range frames {
		frames[k].widen(room, spec)
		room = frames[k].Room
	}
	for k := range frames {
		frames[k].Room = room
	}
	d := *t.description
	d.Warnings, d.Steps = append(slices.Clone(describe(t.c).Warnings), warnings...), len(e.Lines)
	t.description, t.frames = &d, frames
	return nil
}

// replay fills in what the trace does not hold.
func (t *Trace) replay(ctx context.Context, e *closedloop.EpisodeRecord, frames []Frame) error {
	if t.c.Plant == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, replayLimit)
	defer stop()
	ep, err := t.c.Plant.Replay(t.header.Params, e.Scene)
	if err != nil {
		return err
	}
	p, spec := t.c.Problem, t.c.Problem.Spec()
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	for k := range frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		if k > 0 {
			f := &frames[k]
			f.Grid = operate(p, s, c, f.U)
			out, err := ep.Apply(f.U)
			if err != nil {
				return fmt.Errorf("decision %d: %w", k-1, err)
			}
			f.Margins = out.Named
		}
		ep.Observe(s, c)
		frames[k].Shapes = picture(p, s, c)
	}
	return nil
}

// padded is a vector of n entries, those behind v zero.
func padded(v []float64, n int) []float64 {
	w := make([]float64, n)
	copy(w, v)
	return w
}

// Describe implements Source.
func (t *Trace) Describe() *Description { return t.description }

// Range implements Source.
func (t *Trace) Range() (first, last int) { return 0, len(t.frames) - 1 }

// Frame implements Source.
func (t *Trace) Frame(k int) *Frame { return &t.frames[k] }

// Advance implements Source: all is there.
func (t *Trace) Advance(context.Context) error { return io.EOF }

// Steer implements Source.
func (t *Trace) Steer(domain.Preference) error { return ErrRecorded }

// Preference implements Source.
func (t *Trace) Preference() domain.Preference { return t.header.Preference }

// Preview implements Source.
func (t *Trace) Preview(context.Context) (*Frame, error) { return nil, nil }

// Fan implements Source.
func (t *Trace) Fan(bool) func(context.Context) (*Fan, error) { return nil }

// Reset implements Source: another episode is read from the file.
func (t *Trace) Reset(ctx context.Context, episode int) error {
	list := t.description.Episodes
	index := slices.IndexFunc(list, func(e Episode) bool { return e.Episode == episode })
	if episode < 0 {
		now := slices.IndexFunc(list, func(e Episode) bool { return e.Episode == t.frames[0].Episode })
		index = (now + 1) % len(list)
	}
	if index < 0 {
		return jsonin.Errorf("episode", "the trace has no episode %d", episode)
	}
	stop := errors.New("found")
	var record *closedloop.EpisodeRecord
	err := t.read(ctx, func(_ *closedloop.Reader, e *closedloop.EpisodeRecord) error {
		if e != nil && e.Episode == list[index].Episode {
			record = e
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		return fmt.Errorf("%s: episode %d cannot be read any more: %w", t.file, list[index].Episode, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return t.show(ctx, record)
}
