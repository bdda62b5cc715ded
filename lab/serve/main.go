// Command serve drives gpc serve beyond what it can do and says what comes of it: whether every
// request is answered by its deadline, how long those that are accepted take beside an idle server,
// whether memory stays where it is, and whether a session decides the same while all around it go
// wrong.
//
//	go run ./lab/serve --for 10m --out lab/results/NAME/serve.json
//
// The central type is load. The server is a process of its own: this binary, told by its
// environment to be the program that cmd/gpc is. Exit code 1: something of the record's Broken was.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/paper"
)

const (
	// environment tells the binary to be gpc.
	environment = "GPC_BENCH_SERVE"
	// processors of Go's scheduler for the generator on its own CPU: one holds the goroutine that
	// paces while that sleeps in the kernel.
	processors = 4
	// warming are the connections that ask before capacity is measured.
	warming = 8
)

// options are the flags.
type options struct {
	name, method, out string
	lasts, measure    time.Duration // of the load; of what it is compared with
	deadline          time.Duration
	connections       int    // of the load
	waiting           string // --waiting of the server
	halfOpen          int    // connections that say nothing
	shared            bool   // server and generator run on the same CPUs
	patience          time.Duration
}

func main() {
	if os.Getenv(environment) != "" {
		os.Exit(be())
	}
	var o options
	flag.StringVar(&o.name, "case", "opf30", "case")
	flag.StringVar(&o.method, "method", "navigator", "method")
	flag.StringVar(&o.out, "out", "", "write the record to this file (JSON)")
	flag.DurationVar(&o.lasts, "for", 10*time.Minute, "how long the load lasts")
	flag.DurationVar(&o.measure, "measure", 10*time.Second, "how long the idle server is measured, and its capacity")
	flag.DurationVar(&o.deadline, "deadline", 50*time.Millisecond, "of each request")
	flag.IntVar(&o.connections, "connections", 64, "connections of the load")
	flag.StringVar(&o.waiting, "waiting", "measured", "requests that the server lets wait, as gpc serve takes them")
	flag.BoolVar(&o.shared, "shared", false, "server and generator share all CPUs, so that each takes them from the other")
	flag.IntVar(&o.halfOpen, "half-open", 500, "connections that say nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, o, os.Stderr)
	if err == nil && o.out != "" {
		var text []byte
		if text, err = finite.Marshal(r); err == nil {
			err = durable.WriteFile(o.out, append(text, '\n'), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
	print(os.Stdout, r)
	if len(r.Broken) > 0 {
		os.Exit(1)
	}
}

// be is the program that is driven.
func be() int { return cli.Main(&cli.App{Catalogue: paper.Cases()}) }

// run is the whole of it.
func run(ctx context.Context, o options, log io.Writer) (r *peerrecord.Served, err error) {
	if o.lasts <= 0 || o.measure <= 0 || o.deadline <= 0 || o.connections < 1 || o.halfOpen < 0 {
		return nil, errors.New("want times and numbers above 0")
	}
	o.patience = cmp.Or(o.patience, patience)
	say := func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return nil, err
	}
	r = &peerrecord.Served{Case: o.name, Method: o.method, Commit: version.Build(), Device: gpc.Host(), Connections: o.connections, Waiting: o.waiting, HalfOpen: o.halfOpen, DeadlineMs: float64(o.deadline) / 1e6, Broken: []string{}}
	if all := allowedCPUs(); len(all) > 1 && !o.shared {
		last := len(all) - 1
		r.ServerCPUs, r.GeneratorCPUs = all[:last], all[last:]
		if err := bindProcess(r.GeneratorCPUs); err != nil {
			return nil, err
		}
		// Those that wait in the kernel hold none of these up.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		defer bindProcess(all)
	}
	l, err := newLoad(ctx, o, r.ServerCPUs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.end()) }()
	say("idle: one request after another for %v", o.measure)
	if r.Idle, err = l.idle(o.measure); err != nil {
		return nil, err
	}
	if _, err = l.capacity(min(o.connections, warming), o.measure/4); err != nil { // the server measures its batches
		return nil, err
	}
	if r.WaitingMax[0], err = l.waitingMax(); err != nil {
		return nil, err
	}
	// One more than it lets in keeps it busy while an answer is on its way; many more have refusals made.
	for n := min(r.WaitingMax[0], o.connections); n <= min(4*r.WaitingMax[0], o.connections); n *= 2 {
		say("capacity: %d connections for %v", n, o.measure/3)
		capacity, err := l.capacity(n, o.measure/3)
		if err != nil {
			return nil, err
		}
		if capacity > r.Capacity {
			r.Capacity, r.CapacityConnections = capacity, n
		}
	}
	say("load: %.0f requests a second, twice the capacity, for %v", 2*r.Capacity, o.lasts)
	if err := l.over(2*r.Capacity, r); err != nil {
		return nil, err
	}
	if r.WaitingMax[1], err = l.waitingMax(); err != nil {
		return nil, err
	}
	r.Load.Seconds = o.lasts.Seconds()
	r.P99Ratio = r.Load.Answers.P99 / r.Idle.P99
	for _, holds := range []struct {
		what string
		ok   bool
	}{
		{"what is due is sent", float64(r.Load.Sent) > 0.99*r.Load.Rate*r.Load.Seconds}, {"every request is answered", r.Load.Lost == 0}, {"every answer is there by its deadline", r.Load.Overdue == 0}, {"every answer is a decision or a refusal", r.Load.Wrong == 0},
		{"accepted requests take at most twice the time of an idle server at the 99th percentile", r.P99Ratio <= 2},
		{"resident memory grows by less than a tenth from the first tenth of the load on", float64(r.Memory.End) < 1.1*float64(r.Memory.Start)},
		{"a session decides as on the idle server", r.Canary > 0 && r.CanaryDiffering == 0}, {"what is wrong is answered as such", r.Trouble.Wrong == 0},
	} {
		if !holds.ok {
			r.Broken = append(r.Broken, holds.what)
		}
	}
	r.Machine, err = watch.End()
	return r, err
}

// print writes the record as a table.
func print(w io.Writer, r *peerrecord.Served) {
	cli.Table(w, r.Rows())
	fmt.Fprintf(w, "%s; %v\n", r.Device, r.Machine)
}
