package closedloop

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gpc-engine/gpc/internal/durable"
)

// episodeLog is what an evaluation keeps of its episodes: their sums and, where it has one, the trace. The file grows
// by whole episodes, each synced to disk. A crash leaves at most one cut-off episode at the end, which resuming drops.
type episodeLog struct {
	sum  *tally
	file *os.File // nil: no trace
	path string
	last string // hash of the last record
}

// add appends one complete episode to the trace, in a single write, and counts it.
func (k *episodeLog) add(e *EpisodeRecord) error {
	if k.file != nil {
		text, hash, err := e.sealed(k.last)
		if err != nil {
			return fmt.Errorf("trace %s: %w", k.path, err)
		}
		k.last = hash
		if err := k.write(text); err != nil {
			return err
		}
	}
	k.sum.add(e)
	return nil
}

// lockTrace makes this process the one writer of a trace, before any work, and refuses one that
// is there and is not to be resumed. What is no file, such as a pipe, is written without
// either; the lock is nil then.
func lockTrace(path string, resume bool) (*durable.Lock, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("trace: %w", err)
	case info.IsDir():
		return nil, durable.Refusef("trace %s is a folder", path)
	case !info.Mode().IsRegular():
		return nil, nil
	case info.Size() > 0 && !resume:
		return nil, durable.Refusef("%s exists already: resume it, remove it, or give the trace another name", path)
	}
	lock, err := durable.Acquire(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return lock, nil
}

// line is the header as the first line of its trace.
func (h *Header) line() ([]byte, error) {
	text, err := json.Marshal(h)
	return append(text, '\n'), err
}

// open starts a trace. Resuming, it checks that the trace belongs to the same run, counts its complete episodes and
// cuts off an incomplete last one. It returns the number of the last complete episode, −1 for none.
func (k *episodeLog) open(path string, h *Header, resume bool) (last int, err error) {
	text, err := h.line()
	if err != nil {
		return -1, fmt.Errorf("trace: %w", err)
	}
	if k.path = path; resume && !cutOff(path, text) {
		if last, err := k.resume(h); !errors.Is(err, os.ErrNotExist) {
			return last, err
		}
	}
	if k.file, err = os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644); err != nil {
		return -1, fmt.Errorf("trace: %w", err)
	}
	k.last = durable.Sum(sha256.Sum256(text))
	if err := k.write(text); err != nil {
		k.file.Close()
		return -1, err
	}
	return -1, nil
}

// cutOff reports whether a file holds but a part of the header that this run begins with:
// then nothing is recorded in it.
func cutOff(path string, header []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, int64(len(header))))
	return err == nil && len(content) < len(header) && bytes.HasPrefix(header, content)
}

// resume goes on in the trace of an earlier run; see open.
func (k *episodeLog) resume(h *Header) (last int, err error) {
	file, err := os.OpenFile(k.path, os.O_RDWR, 0)
	if err != nil {
		return -1, fmt.Errorf("trace: %w", err)
	}
	fail := func(err error) (int, error) {
		file.Close()
		return -1, durable.Refusef("cannot resume %s: %w", k.path, err)
	}
	r, err := newWholeTrace(file)
	if err != nil {
		return fail(err)
	}
	if difference := r.Header.sameRun(h); difference != "" {
		return fail(errors.New(difference))
	}
	last = -1
	end, hash := r.offset, r.last
	for {
		e, err := r.successor()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrTruncated) {
			break
		}
		if err != nil {
			return fail(err)
		}
		k.sum.add(e)
		last, end, hash = e.Episode, e.EndOffset, r.last
	}
	err = file.Truncate(end)
	if err == nil {
		_, err = file.Seek(end, io.SeekStart)
	}
	if err != nil {
		return fail(err)
	}
	k.file, k.last = file, hash
	return last, nil
}

// sealed are the lines of an episode after a record of that hash, and their own.
func (e *EpisodeRecord) sealed(previous string) (text []byte, hash string, err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err = enc.Encode(sceneLine{e.Episode, previous, e.Scene})
	for i := range e.Lines {
		err = cmp.Or(err, enc.Encode(&e.Lines[i]))
	}
	err = cmp.Or(err, enc.Encode(endLine{e.Episode, e.End}))
	hash = durable.Sum(sha256.Sum256(b.Bytes()))
	err = cmp.Or(err, enc.Encode(sealLine{e.Episode, hash}))
	return b.Bytes(), hash, err
}

// write writes and syncs.
func (k *episodeLog) write(b []byte) error {
	_, err := durable.Writer(k.file).Write(b)
	if err == nil {
		err = k.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// close closes the trace, if there is one.
func (k *episodeLog) close() error {
	if k.file == nil {
		return nil
	}
	if err := k.file.Close(); err != nil {
		return fmt.Errorf("trace %s: %w", k.path, err)
	}
	return nil
}
