package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/thread"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/paper"
)

const (
	canarySteps = 50               // observations that the canary goes through again and again
	patience    = 10 * time.Second // for an answer unless options say otherwise, far beyond every deadline
	idleGap     = time.Millisecond // of a server that is idle, between an answer and the next request
	dueAtMost   = 1 << 16          // requests that wait for a connection
)

// load is a server with what is asked of it.
type load struct {
	ctx     context.Context
	o       options
	cmd     *exec.Cmd
	log     *bytes.Buffer // what the server says once it listens
	logged  chan error
	address string
	asks    [][]byte // bodies without the brace that begins them, the canary's observations
	want    []string // what the canary is decided on the idle server
}

// newLoad starts a server on CPUs, nil for any.
func newLoad(ctx context.Context, o options, cpus []int) (*load, error) {
	cases := paper.Cases()
	c, err := cases.Find(o.name)
	if err != nil {
		return nil, err
	}
	ep, err := c.Definition().Plant.Episode(991, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		return nil, err
	}
	l := &load{ctx: ctx, o: o, log: &bytes.Buffer{}, logged: make(chan error, 1)}
	spec := c.Spec()
	s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for range canarySteps {
		ep.Observe(s, cx)
		text, err := json.Marshal(map[string]any{"s": s, "c": cx, "deadline_ms": o.deadline.Seconds() * 1e3})
		if err != nil {
			return nil, err
		}
		l.asks = append(l.asks, text[1:])
		c.Definition().Problem.Fallback(s, cx, u)
		if _, err := ep.Apply(u); err != nil || ep.Done() {
			break
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l.cmd = exec.Command(self, "serve", o.name, "--method", o.method, "--listen", "127.0.0.1:0", "--log", "json", "--sessions", fmt.Sprint(o.connections+8),
		"--waiting", o.waiting, "--connections", fmt.Sprint(o.connections+o.halfOpen+64))
	l.cmd.Env = append(os.Environ(), environment+"=1")
	out, err := l.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	start := l.cmd.Start
	if cpus != nil {
		start = func() error { return onCPUs(cpus, l.cmd.Start) }
	}
	if err := start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for l.address == "" && lines.Scan() {
		var said struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "listening" {
			l.address = said.Address
		}
		fmt.Fprintln(l.log, lines.Text())
	}
	go func() {
		for lines.Scan() {
			fmt.Fprintln(l.log, lines.Text())
		}
		l.logged <- lines.Err()
	}()
	if l.address == "" {
		return nil, errors.Join(errors.New("the server does not listen"), l.end())
	}
	return l, nil
}

// end ends the server, which has to drain and exit with 0.
func (l *load) end() error {
	l.cmd.Process.Signal(syscall.SIGTERM)
	err := <-l.logged
	if wait := l.cmd.Wait(); wait != nil {
		err = fmt.Errorf("the server ends with %w: %s", wait, l.log)
	}
	return err
}

// dueRequest is a request with the time of thread.Now that it is due at.
type dueRequest struct {
	number int
	due    time.Duration
}

// outcome is what came of one. Its times count from when it was due, whatever it waited for: a
// server that is slow to answer has no fewer requests for it.
type outcome struct {
	status       int // 0: lost
	late         bool
	behind, took time.Duration // until it was sent, and answered
}

// pace makes requests due at the times that next says, until the context ends or next says so.
func pace(ctx context.Context, to chan<- dueRequest, next func() (at time.Duration, more bool)) error {
	defer close(to)
	runtime.LockOSThread() // and the thread ends with the goroutine, as it sleeps like no other
	if err := punctual(); err != nil {
		return err
	}
	for i := 0; ctx.Err() == nil; i++ {
		at, more := next()
		if !more {
			return nil
		}
		if err := thread.SleepUntil(at); err != nil {
			return err
		}
		select {
		case to <- dueRequest{i, at}:
		case <-ctx.Done():
		}
	}
	return nil
}

// ask sends what is due until the context ends over n connections, each a session, and notes what
// comes of it: on each connection one after another.
func (l *load) ask(ctx context.Context, n int, name string, next <-chan dueRequest, note func(connection int, o outcome)) error {
	return l.each(n, func(k int, w *wire) error {
		defer func() { w.Close() }()
		session := fmt.Sprint(name, k)
		for a := range next {
			if ctx.Err() != nil {
				continue // what was not sent by then is missing from what was due
			}
			text := l.decide(session, a.number)
			o := outcome{behind: thread.Now() - a.due}
			status, body, err := w.ask(text)
			if o.took = thread.Now() - a.due; err == nil {
				o.status, o.late = status, bytes.Contains(body, []byte(`"late":true`))
			}
			note(k, o)
			if err != nil {
				w.Close()
				again, err := l.dial()
				if err != nil {
					return err
				}
				w = again
			}
		}
		return nil
	})
}

// idle asks requests one after another, and remembers what the canary is decided.
func (l *load) idle(lasts time.Duration) (peerrecord.Times, error) {
	w, err := l.dial()
	if err != nil {
		return peerrecord.Times{}, err
	}
	l.want, err = l.canary(w, nil)
	w.Close()
	if err != nil {
		return peerrecord.Times{}, err
	}
	ctx, stop := context.WithTimeout(l.ctx, lasts)
	defer stop()
	next, answered, paced := make(chan dueRequest, 1), make(chan outcome, 1), make(chan error, 1)
	var took []time.Duration
	var wrong error
	go func() {
		first := true
		paced <- pace(ctx, next, func() (time.Duration, bool) {
			if first {
				first = false
				return thread.Now() + idleGap, true
			}
			select {
			case o := <-answered:
				if took = append(took, o.took); o.status != http.StatusOK {
					wrong = fmt.Errorf("the idle server answers with status %d", o.status)
				}
				return thread.Now() + idleGap, wrong == nil // it is woken up by each
			case <-ctx.Done():
				return 0, false
			}
		})
	}()
	err = l.ask(ctx, 1, "idle ", next, func(_ int, o outcome) { answered <- o })
	stop()
	err = errors.Join(<-paced, err, wrong, l.ctx.Err())
	return timesOf(took), err
}

// waitingMax is how many requests the server lets wait now.
func (l *load) waitingMax() (n int, err error) {
	r, err := http.NewRequestWithContext(l.ctx, http.MethodGet, "http://"+l.address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	r.Close = true
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\ngpc_waiting_max ")
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(line)
}

// canary goes through its observations from a reset on. refused is called where a request is, and
// then it is asked again; nil: nothing is refused.
func (l *load) canary(w *wire, refused func()) (decided []string, err error) {
	asks := [][]byte{request("/v1/reset", []byte(`{"session":"canary"}`))}
	for i := range l.asks {
		asks = append(asks, l.decide("canary", i))
	}
	for i, ask := range asks {
		status, body, err := w.ask(ask)
		for err == nil && status == 429 && refused != nil && l.ctx.Err() == nil {
			refused()
			status, body, err = w.ask(ask)
		}
		if err != nil || status != 200 {
			return nil, fmt.Errorf("the canary is answered %d %s: %v", status, body, err)
		}
		if i == 0 {
			continue
		}
		var d struct {
			U    json.RawMessage
			Late bool
		}
		if err := json.Unmarshal(body, &d); err != nil {
			return nil, err
		}
		if d.Late { // from here on it would be another loop
			return decided, nil
		}
		decided = append(decided, string(d.U))
	}
	return decided, nil
}

// capacity is how many decisions a second so many connections get that ask as soon as they are
// answered.
func (l *load) capacity(connections int, lasts time.Duration) (float64, error) {
	var decided atomic.Int64
	start := time.Now()
	err := l.each(connections, func(n int, w *wire) error {
		defer w.Close()
		session := fmt.Sprint("load ", n)
		for i := 0; time.Since(start) < lasts && l.ctx.Err() == nil; i++ {
			status, body, err := w.ask(l.decide(session, i))
			if err != nil || status != 200 && status != 429 {
				return fmt.Errorf("answered %d %s: %v", status, body, err)
			}
			if status == 200 {
				decided.Add(1)
			}
		}
		return nil
	})
	return float64(decided.Load()) / time.Since(start).Seconds(), errors.Join(err, l.ctx.Err())
}

// over offers a rate, with trouble beside it.
func (l *load) over(rate float64, r *peerrecord.Served) error {
	ctx, stop := context.WithTimeout(l.ctx, l.o.lasts)
	defer stop()
	start := time.Now()
	var beside sync.WaitGroup
	var watched, resident error
	var counts [5]atomic.Int64
	beside.Go(func() { l.trouble(ctx, &counts) })
	beside.Go(func() { l.silent(ctx, &counts) })
	beside.Go(func() { watched = l.watch(ctx, r) })
	beside.Go(func() { resident = l.remember(ctx, start, &r.Memory) })
	r.Load.Rate = rate
	next, paced := make(chan dueRequest, dueAtMost), make(chan error, 1)
	go func() {
		began, i := thread.Now(), -1
		paced <- pace(ctx, next, func() (time.Duration, bool) {
			i++
			return began + time.Duration(float64(i)/rate*1e9), true
		})
	}()
	type noted struct {
		peerrecord.OfferedLoad
		answers, refusals, behind []time.Duration
	}
	all := make([]noted, l.o.connections)
	err := l.ask(ctx, l.o.connections, "load ", next, func(k int, o outcome) {
		mine := &all[k]
		mine.Sent++
		mine.behind = append(mine.behind, o.behind)
		switch o.status {
		case 0:
			mine.Lost++
			return
		case http.StatusOK:
			mine.Accepted++
			mine.answers = append(mine.answers, o.took)
			if o.late {
				mine.Late++
			}
		case http.StatusTooManyRequests:
			mine.Refused++
			mine.refusals = append(mine.refusals, o.took)
		default:
			mine.Wrong++
		}
		if o.took > l.o.deadline {
			mine.Overdue++
		}
	})
	err = errors.Join(err, <-paced)
	beside.Wait()
	var accepted, refused, behind []time.Duration
	sum := &r.Load
	for _, n := range all {
		sum.Sent, sum.Accepted, sum.Late, sum.Refused = sum.Sent+n.Sent, sum.Accepted+n.Accepted, sum.Late+n.Late, sum.Refused+n.Refused
		sum.Lost, sum.Wrong, sum.Overdue = sum.Lost+n.Lost, sum.Wrong+n.Wrong, sum.Overdue+n.Overdue
		accepted, refused, behind = append(accepted, n.answers...), append(refused, n.refusals...), append(behind, n.behind...)
	}
	sum.Answers, sum.Refusals, sum.Behind = timesOf(accepted), timesOf(refused), timesOf(behind)
	r.Trouble = peerrecord.Trouble{Large: int(counts[large].Load()), Malformed: int(counts[malformed].Load()), Disconnected: int(counts[disconnected].Load()), Reopened: int(counts[reopened].Load()), Wrong: int(counts[wrong].Load())}
	return errors.Join(err, watched, resident, l.ctx.Err())
}

// watch lets the canary go through its observations until the end, and compares.
func (l *load) watch(ctx context.Context, r *peerrecord.Served) error {
	for ctx.Err() == nil {
		w, err := l.dial()
		if err != nil {
			return err
		}
		decided, err := l.canary(w, func() { time.Sleep(time.Millisecond) })
		w.Close()
		if err != nil {
			return err
		}
		r.Canary += len(decided)
		for i, u := range decided {
			if u != l.want[i] {
				r.CanaryDiffering++
			}
		}
	}
	return nil
}

// remember reads the server's resident memory.
func (l *load) remember(ctx context.Context, start time.Time, m *peerrecord.ResidentMemory) error {
	gap := min(time.Second, l.o.lasts/20)
	for {
		select {
		case <-time.After(gap):
		case <-ctx.Done():
			return nil
		}
		now, err := residentOf(l.cmd.Process.Pid)
		if err != nil {
			return err
		}
		if m.End, m.Most = now, max(m.Most, now); m.Start == 0 && time.Since(start) > l.o.lasts/10 {
			m.Start = now
		}
	}
}

// residentOf is what of a process is resident, bytes.
func residentOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm is %q", pid, text)
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}

// timesOf sorts latencies.
func timesOf(took []time.Duration) peerrecord.Times {
	if len(took) == 0 {
		return peerrecord.Times{}
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))]) / 1e3 }
	return peerrecord.Times{N: len(took), P50: at(0.5), P99: at(0.99), Max: at(1)}
}
