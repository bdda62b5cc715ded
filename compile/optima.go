package compile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// optima caches the reference optima of starts that are driven from more than once: the held-out ones, in every round
// and by every method. A file of the folder keeps them for the runs that continue.
type optima struct {
	solve func(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error)
	part  func(ctx context.Context) context.Context // of a reference
	mu    sync.Mutex
	cache map[string]optimum // by Start
	file  *os.File           // nil: none
	err   error              // the first of writing it
}

// optimum is a line of the file, after the hash of its text.
type optimum struct {
	Start   string            `json:"start"` // hash of what was solved
	Cost    closedloop.Number `json:"cost"`
	Failure string            `json:"failure,omitempty"`
}

// open reads the file of earlier runs to its last whole line, and continues there.
func (o *optima) open(path string) (err error) {
	if o.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return err
	}
	end := int64(0)
	for lines := bufio.NewReader(o.file); ; {
		line, err := lines.ReadBytes('\n')
		sum, text, _ := bytes.Cut(line, []byte(" "))
		var entry optimum
		if err != nil || string(sum) != durable.Sum(sha256.Sum256(text)) || json.Unmarshal(text, &entry) != nil {
			break // a process was killed in this line
		}
		end += int64(len(line))
		o.cache[entry.Start] = entry
	}
	if err := o.file.Truncate(end); err != nil {
		return err
	}
	_, err = o.file.Seek(end, io.SeekStart)
	return err
}

// keep appends an optimum to the file.
func (o *optima) keep(entry optimum) {
	if o.cache[entry.Start] = entry; o.file == nil || o.err != nil {
		return
	}
	text, err := json.Marshal(entry)
	text = append(text, '\n')
	if err == nil {
		_, err = fmt.Fprintf(o.file, "%s %s", durable.Sum(sha256.Sum256(text)), text)
	}
	o.err = err
}

// lookUp is solve with a cache, without the plan. What ctx ended is not kept.
func (o *optima) lookUp(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
	var key []byte
	for _, part := range [][]float64{s, c, pref.W, {float64(steps)}} {
		for _, v := range part {
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(v))
		}
	}
	start := durable.Sum(sha256.Sum256(key))
	o.mu.Lock()
	entry, ok := o.cache[start]
	o.mu.Unlock()
	if !ok {
		part := o.part(ctx)
		cost, _, err := o.solve(part, s, c, steps, pref)
		if err != nil && ctx.Err() != nil {
			return math.NaN(), nil, ctx.Err() // it says nothing of the start
		} else if err != nil && part.Err() != nil {
			err = context.DeadlineExceeded
		}
		entry = optimum{Start: start, Cost: closedloop.Number(cost)}
		if err != nil {
			entry.Failure = err.Error()
		}
		o.mu.Lock()
		o.keep(entry)
		o.mu.Unlock()
	}
	if entry.Failure != "" {
		return float64(entry.Cost), nil, errors.New(entry.Failure)
	}
	return float64(entry.Cost), nil, nil
}
