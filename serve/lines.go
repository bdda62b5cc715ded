package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/interrupt"
)

// LineOptions say how Lines reads. The zero value of each is a default.
type LineOptions struct {
	// MaxBytes of a line, without its end; 0: DefaultLineBytes. A longer one is answered by an
	// error and skipped.
	MaxBytes int
	// Drain is how long what was read may still take when the context ends; 0: DefaultDrain.
	// Then decisions are answered by the fallback.
	Drain time.Duration
}

const (
	// DefaultLineBytes are enough for the observation of the largest network that comes with
	// the program, and for several thousand buses.
	DefaultLineBytes = 1 << 20
	// DefaultDrain is less than what a command has to come to its end.
	DefaultDrain = time.Second
	// Lines at hand together are read up to groupLines at once, and read no further while
	// waitingLines are not answered.
	groupLines   = 1024
	waitingLines = 4096
)

// Lines serves JSON Lines: for every line of in one line of out, in the same order. It ends
// at the end of in, or when the context does, with what was read by then answered; neither is an error.
func (s *Server) Lines(ctx context.Context, in io.Reader, out io.Writer, opt LineOptions) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	l := &lines{source: bufio.NewReaderSize(interrupt.Reader(reading, in), 1<<16), max: cmp.Or(opt.MaxBytes, DefaultLineBytes)}
	hurry := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cmp.Or(opt.Drain, DefaultDrain), func() { close(hurry) }) })()
	pending, writeErr := make(chan *job, waitingLines), make(chan error, 1)
	go func() {
		err := s.answer(pending, out, hurry)
		stop() // nothing more is to be read
		for range pending {
		}
		writeErr <- err
	}()
	err := s.read(l, pending)
	close(pending)
	if ctx.Err() != nil || reading.Err() != nil {
		err = nil
	}
	return cmp.Or(<-writeErr, err)
}

// read asks for every line.
func (s *Server) read(l *lines, pending chan<- *job) error {
	for {
		group, end := l.group()
		read := time.Now()
		var jobs, open []*job // open: those that the dispatcher answers
		for _, text := range group {
			j, err := s.request(text, l.max, read)
			if err == nil {
				open = append(open, j)
			} else {
				s.fail(j, err)
			}
			jobs = append(jobs, j)
		}
		if len(open) > 0 {
			if err := s.enqueue(open, true); err != nil {
				for _, j := range open {
					s.fail(j, err)
				}
			}
		}
		for _, j := range jobs {
			pending <- j
		}
		switch {
		case errors.Is(end, io.EOF):
			return nil
		case end != nil:
			return fmt.Errorf("serve: %w", end)
		}
	}
}

// request is that of a line, nil for one that was too long.
func (s *Server) request(text []byte, limit int, read time.Time) (*job, error) {
	if text == nil {
		return &job{ready: make(chan struct{})}, fmt.Errorf("the line has more than %d bytes", limit)
	}
	j, err := s.line(text, read)
	if err == nil {
		err = s.prepare(j, read)
	}
	if j.ready == nil {
		j.ready = make(chan struct{})
	}
	return j, err
}

// answer writes the answers in the order of the requests, as they come. After hurry nobody is
// waited for.
func (s *Server) answer(pending <-chan *job, out io.Writer, hurry <-chan struct{}) error {
	w := bufio.NewWriterSize(out, 1<<16)
	for j := range pending {
		if !j.finished() {
			if err := w.Flush(); err != nil {
				return err
			}
			select {
			case <-j.ready:
			case <-hurry:
				s.giveUp(j)
			}
		}
		a := j.answer
		if j.err != nil {
			a.Failure = FailureOf(j.err)
		}
		text, err := finite.Marshal(a)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
		if len(pending) == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// giveUp answers a request that there is no more time for.
func (s *Server) giveUp(j *job) {
	if j.op == opDecide || j.op == opRefine {
		s.expire(j)
	} else {
		s.fail(j, ErrClosed)
	}
}

// lines reads lines of limited length.
type lines struct {
	source *bufio.Reader
	max    int
}

// group is the next line with all that are at hand behind it, and the error that ends the
// input, of which there may be lines before. One that is too long is nil.
func (l *lines) group() (group [][]byte, end error) {
	for {
		text, err := l.line()
		if err == nil {
			group = append(group, text)
		} else {
			end = err
		}
		if buffered, _ := l.source.Peek(l.source.Buffered()); end != nil || len(group) == groupLines || bytes.IndexByte(buffered, '\n') < 0 {
			return group, end
		}
	}
}

// line is the next one without its end, nil where it is too long; an error where there is none.
func (l *lines) line() ([]byte, error) {
	text, long, nonempty := []byte{}, false, false
	for {
		part, err := l.source.ReadSlice('\n')
		nonempty = nonempty || len(part) > 0
		if text = append(text, part...); len(withoutNewline(text)) > l.max {
			text, long = text[:0], true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!nonempty || !errors.Is(err, io.EOF)):
			return nil, err
		case long:
			return nil, nil
		}
		return withoutNewline(text), nil
	}
}

// withoutNewline is a line without its end.
func withoutNewline(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
}
