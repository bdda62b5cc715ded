package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	largeBody    = 2 << 20
	troubleGap   = 20 * time.Millisecond // between one trouble and the next
	headPatience = 5 * time.Second       // how long the server waits for a head
)

// What trouble counts.
const (
	large = iota
	malformed
	disconnected
	reopened
	wrong
)

// trouble sends what is wrong, one kind after another.
func (l *load) trouble(ctx context.Context, counts *[5]atomic.Int64) {
	whole, body := l.decide("trouble", 0), bytes.Repeat([]byte(" "), largeBody)
	for i := 0; ctx.Err() == nil; i++ {
		w, err := l.dial()
		if err != nil {
			return // the end, or no room: both are counted where they matter
		}
		kind := i % 3
		switch kind {
		case large:
			// The server answers before it has read all and closes: the answer may be lost behind that.
			w.SetDeadline(time.Now().Add(w.patience))
			go w.Write(request("/v1/decide", body))
			if status, err := w.from.ReadString('\n'); err == nil && !strings.Contains(status, " 413 ") && !strings.Contains(status, " 429 ") {
				counts[wrong].Add(1)
			}
		case malformed:
			if status, _, err := w.ask(request("/v1/decide", []byte(`{"session":"trouble","s":[`))); err != nil || status != 400 && status != 429 {
				counts[wrong].Add(1)
			}
		case disconnected:
			w.Write(whole[:rand.IntN(len(whole)+1)])
		}
		counts[kind].Add(1)
		w.Close()
		select {
		case <-time.After(troubleGap):
		case <-ctx.Done():
		}
	}
}

// silent holds connections that send half a head, or nothing, and opens those again that the server
// has closed. They begin one after another: all at once they would be closed and come back so, ever again.
func (l *load) silent(ctx context.Context, counts *[5]atomic.Int64) {
	var wait sync.WaitGroup
	for i := range l.o.halfOpen {
		wait.Go(func() {
			select {
			case <-time.After(min(headPatience, l.o.lasts/2) * time.Duration(i) / time.Duration(l.o.halfOpen)):
			case <-ctx.Done():
			}
			for first := true; ctx.Err() == nil; first = false {
				w, err := l.dial()
				if err != nil {
					return
				}
				if !first {
					counts[reopened].Add(1)
				}
				if i%2 == 0 {
					io.WriteString(w, "POST /v1/decide HTTP/1.1\r\nHost: localh")
				}
				stop := context.AfterFunc(ctx, func() { w.Close() })
				io.Copy(io.Discard, w)
				stop()
				w.Close()
			}
		})
	}
	wait.Wait()
}
