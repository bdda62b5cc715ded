// Command serve drives gpc serve beyond what it can do and says what comes of it: whether every
// request is answered by its deadline, how long those that are accepted take beside an idle server,
// whether memory stays where it is, and whether a session decides the same while all around it go
// wrong.
//
//	go run ./bench/serve --for 10m --out bench/results/NAME/serve.json
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
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
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
}

// record is what is written.
type record struct {
	Case        string `json:"case"`
	Method      string `json:"method"`
	Commit      string `json:"commit"`
	Device      string `json:"device"`
	Connections int    `json:"connections"` // of the load, each a session
	// Waiting is what the server was told, WaitingMax how many requests it let wait when its
	// capacity was measured, and at the end.
	Waiting    string `json:"waiting"`
	WaitingMax [2]int `json:"waiting_max"`
	// CPUs that the server had and those of the generator; null: they shared all.
	ServerCPUs    []int   `json:"server_cpus"`
	GeneratorCPUs []int   `json:"generator_cpus"`
	HalfOpen      int     `json:"half_open"` // connections that say nothing
	DeadlineMs    float64 `json:"deadline_ms"`
	// Idle is one request after another, alone; Capacity what connections get decided that ask as
	// soon as they are answered: the most of those that WaitingMax, twice and four times as many get.
	Idle                times   `json:"idle"`
	Capacity            float64 `json:"capacity_per_s"`
	CapacityConnections int     `json:"capacity_connections"`
	Load                offered `json:"load"`
	// Trouble is what went on beside the load.
	Trouble trouble `json:"trouble"`
	// Of the session that was to decide as on the idle server: its decisions, and those that differ.
	Canary          int           `json:"canary"`
	CanaryDiffering int           `json:"canary_differing"`
	Memory          memory        `json:"memory"`
	P99Ratio        float64       `json:"p99_ratio"` // accepted under load over idle
	Broken          []string      `json:"broken"`    // what did not hold
	Machine         *machine.Load `json:"machine,omitempty"`
}

// times are latencies by the client's clock, from when a request was due, µs.
type times struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	Max float64 `json:"max_us"`
}

// offered is a load at a rate that does not depend on the answers.
type offered struct {
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"offered_per_s"`
	Sent     int     `json:"sent"`
	Accepted int     `json:"accepted"` // answered by a decision
	Late     int     `json:"late"`     // of these, by the fallback of the deadline
	Refused  int     `json:"refused"`  // 429
	Lost     int     `json:"lost"`     // without an answer
	Wrong    int     `json:"wrong"`    // any other answer
	Overdue  int     `json:"overdue"`  // answers that were there only after the deadline
	Answers  times   `json:"accepted_times"`
	Refusals times   `json:"refused_times"`
	Behind   times   `json:"behind_times"` // until a request that was due was sent
}

// trouble counts attempts, and those that were not answered as they should be.
type trouble struct {
	Large        int `json:"large"` // bodies of 2 MiB: 413
	Malformed    int `json:"malformed"`
	Disconnected int `json:"disconnected"`
	Reopened     int `json:"half_open_reopened"` // that the server had closed
	Wrong        int `json:"wrong"`
}

// memory is what of the server is resident, bytes: when the load has lasted a tenth, at its end, and
// at most.
type memory struct {
	Start int `json:"start"`
	End   int `json:"end"`
	Most  int `json:"most"`
}

func main() {
	if os.Getenv(environment) != "" {
		os.Exit(be())
	}
	var o options
	flag.StringVar(&o.name, "case", "opf30", "case")
	flag.StringVar(&o.method, "method", "gpc", "method")
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
func run(ctx context.Context, o options, log io.Writer) (r *record, err error) {
	if o.lasts <= 0 || o.measure <= 0 || o.deadline <= 0 || o.connections < 1 || o.halfOpen < 0 {
		return nil, errors.New("want times and numbers above 0")
	}
	say := func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }
	watch, err := machine.Begin(machine.Limit{})
	if err != nil {
		return nil, err
	}
	r = &record{Case: o.name, Method: o.method, Commit: version.Build(), Device: gpc.Host(), Connections: o.connections, Waiting: o.waiting, HalfOpen: o.halfOpen, DeadlineMs: float64(o.deadline) / 1e6, Broken: []string{}}
	if all := machine.CPUs(); len(all) > 1 && !o.shared {
		last := len(all) - 1
		r.ServerCPUs, r.GeneratorCPUs = all[:last], all[last:]
		if err := machine.Bind(r.GeneratorCPUs); err != nil {
			return nil, err
		}
		// Those that wait in the kernel hold none of these up.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		defer machine.Bind(all)
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
func print(w io.Writer, r *record) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", what, fmt.Sprintf(format, args...)) }
	row("case, method", "%s, %s", r.Case, r.Method)
	row("device", "%s; %v", r.Device, r.Machine)
	row("idle", "p50 %.0f µs, p99 %.0f µs over %d", r.Idle.P50, r.Idle.P99, r.Idle.N)
	row("CPUs", "server %v, generator %v", r.ServerCPUs, r.GeneratorCPUs)
	row("capacity", "%.0f decisions/s over %d connections; --waiting %s: %d, at the end %d", r.Capacity, r.CapacityConnections, r.Waiting, r.WaitingMax[0], r.WaitingMax[1])
	row("offered", "%.0f requests/s for %.0f s over %d connections: %d sent, %.2f of what was to be", r.Load.Rate, r.Load.Seconds, r.Connections, r.Load.Sent, float64(r.Load.Sent)/(r.Load.Rate*r.Load.Seconds))
	row("answered", "%d decisions (%d late), %d refused, %d otherwise, %d lost, %d after the deadline of %.0f ms", r.Load.Accepted, r.Load.Late, r.Load.Refused, r.Load.Wrong, r.Load.Lost, r.Load.Overdue, r.DeadlineMs)
	row("accepted", "p50 %.0f µs, p99 %.0f µs (%.2f × idle), at most %.0f µs", r.Load.Answers.P50, r.Load.Answers.P99, r.P99Ratio, r.Load.Answers.Max)
	row("refused", "p50 %.0f µs, p99 %.0f µs, at most %.0f µs", r.Load.Refusals.P50, r.Load.Refusals.P99, r.Load.Refusals.Max)
	row("sent behind time", "p50 %.0f µs, p99 %.0f µs, at most %.0f µs", r.Load.Behind.P50, r.Load.Behind.P99, r.Load.Behind.Max)
	row("resident memory", "%.1f MiB after a tenth, %.1f MiB at the end, %.1f MiB at most", mib(r.Memory.Start), mib(r.Memory.End), mib(r.Memory.Most))
	row("beside it", "%d half-open connections (%d opened again), %d bodies of 2 MiB, %d malformed, %d disconnected in the middle; %d answered wrong", r.HalfOpen, r.Trouble.Reopened, r.Trouble.Large, r.Trouble.Malformed, r.Trouble.Disconnected, r.Trouble.Wrong)
	row("another session", "%d decisions, %d other than on the idle server", r.Canary, r.CanaryDiffering)
	row("does not hold", "%s", cmp.Or(strings.Join(r.Broken, "; "), "–"))
	t.Flush()
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }
