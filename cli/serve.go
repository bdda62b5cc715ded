package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/serve"
)

// saveEvery is how often gpc serve writes its sessions to a state file, savePatience how long the
// last time may take.
const (
	saveEvery    = time.Second
	savePatience = 200 * time.Millisecond
)

// garbage is GOGC of gpc serve where the environment has none. A decision over HTTP leaves some
// 20 KB, and what is kept is small: at 100 a busy server collects several times a second.
const garbage = 400

// leastMemory is the least limit of gpc serve's memory: an idle server of opf30 with GOGC 400 stays below it.
const leastMemory = 192 << 20

// memory is the limit of Go's memory, which the collector keeps whatever GOGC says: three times what is
// in use when the server is ready.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return max(leastMemory, 3*int64(m.HeapAlloc))
}

// serving are the flags of gpc serve.
type serving struct {
	modelFile, method, tokenFile, stateFile, log string
	stdin, ui                                    bool
	weights                                      []float64
	options                                      serve.Options
	lines                                        serve.LineOptions
	doors                                        serve.ListenOptions
	http                                         serve.HTTPOptions
	measured, crowd                              alteration
}

// waitingFlag is the flag --waiting of serve.Options.Waiting.
type waitingFlag int

// measured stands in the place of a number, in a flag of the type countOrMeasured.
const (
	measured        = "measured"
	countOrMeasured = "N|" + measured
)

func (w *waitingFlag) String() string {
	if *w == serve.Measured {
		return measured
	}
	return strconv.Itoa(int(*w))
}

func (w *waitingFlag) Set(text string) error {
	if text == measured {
		*w = serve.Measured
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("want a number, or %q", measured)
	}
	*w = waitingFlag(n)
	return nil
}

func (*waitingFlag) Type() string { return countOrMeasured }

func (a *App) serveCommand() *cobra.Command {
	var f serving
	cmd := &cobra.Command{
		Use:   "serve CASE --stdin | --listen HOST:PORT [--ui] | --unix PATH",
		Short: "Serve decisions to many control loops, over HTTP or as JSON Lines",
		Long: `Answers requests for decisions. With --stdin gpc reads one request a line from
standard input and writes one answer a line, in the same order:

  {"op":"decide","session":"a","s":[…],"c":[…],"preference":[…],"deadline_ms":5}
  {"op":"refine","s":[…],"c":[…],"candidates":4096,"deadline_ms":20}
  {"op":"front","s":[…],"c":[…],"points":1000}         all trade-offs
  {"op":"preference","session":"a","preference":[…]}   null: adaptive weights
  {"op":"clear","session":"a"}                         after a stale observation
  {"op":"reset","session":"a"}                         a new episode begins
  {"op":"health"}

s is the measured state, c the context; gpc cases --json names their entries. A
session is one control loop, by any name you choose. Requests of several sessions
that arrive together are decided as one batch. A wrong request is answered by
{"error":…,"field":…}.

With --listen or --unix the same objects without op are the bodies of POST
/v1/decide, /v1/refine, /v1/front, /v1/preference, /v1/clear and /v1/reset. There
are GET /health, /ready, /metrics and /v1/stream?session=NAME; GET /openapi.json
describes them all. An address that other machines reach needs --token-file. --ui adds a web
page at /, to watch and steer a simulated plant (docs/how-to/view.md).

The end of the input, Ctrl-C and SIGTERM end the program with exit code 0, after
all open requests are answered. docs/reference/serve.md explains every field.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.serve(cmd, args[0], &f) },
	}
	f.measured, f.crowd = measuredFlags(cmd), robotsFlag(cmd)
	set := cmd.Flags()
	set.BoolVar(&f.stdin, "stdin", false, "read requests from standard input, write answers to standard output")
	set.StringVar(&f.doors.Address, "listen", "", "serve HTTP at this address, such as 127.0.0.1:8080; port 0 takes any free port")
	set.BoolVar(&f.ui, "ui", false, "with --listen: add a web page to watch and steer a simulated plant")
	set.StringVar(&f.doors.Unix, "unix", "", "serve HTTP at a Unix socket of this path, which only its owner may open")
	set.StringVar(&f.tokenFile, "token-file", "", "file with the token that every HTTP request must send (Authorization: Bearer …)")
	set.StringVar(&f.doors.TLSCert, "tls-cert", "", "PEM file of the TLS certificate for --listen")
	set.StringVar(&f.doors.TLSKey, "tls-key", "", "PEM file of the private key of --tls-cert")
	set.IntVar(&f.doors.Connections, "connections", serve.DefaultConnections, "largest number of open connections")
	set.IntVar(&f.http.MaxBytes, "body-bytes", serve.DefaultLineBytes, "largest body of a request, bytes")
	set.Var((*waitingFlag)(&f.options.Waiting), "waiting", "largest number of HTTP requests at once, further ones get status 429: a number, or \"measured\" to measure how many are answered almost without waiting (default: as many as sessions)")
	set.StringVar(&f.modelFile, "model", "", "model file, or the weights of a learned policy (default: the bundled map)")
	set.StringVar(&f.method, "method", "", "method that decides (default: the one the map was compiled for, or the first that gpc methods CASE lists)")
	set.Float64SliceVar(&f.weights, "preference", nil, "`weights` w1,w2,… of the objectives, for sessions that state none (default: the case's adaptive weights)")
	set.IntVar(&f.options.Sessions, "sessions", serve.DefaultSessions, "largest number of open sessions")
	set.DurationVar(&f.options.SessionIdle, "session-idle", serve.DefaultSessionIdle, "when no session is free, a new session replaces one that was idle for this long, such as 10m; 0: never")
	set.DurationVar(&f.options.Deadline, "deadline", 0, "time limit of an answer where the request states no deadline_ms, such as 5ms; after it the answer is the last plan or the fallback; 0: no limit (default: the period of the case, for decisions)")
	set.DurationVar(&f.options.MaxAge, "max-age", 0, "largest age of an observation; each request must then state its time as observed_ms. After an older one the session answers the fallback until it is cleared (default: no limit)")
	set.IntVar(&f.lines.MaxBytes, "line-bytes", serve.DefaultLineBytes, "largest line of standard input, bytes")
	set.StringVar(&f.stateFile, "state-file", "", "file to resume sessions from, and to write them to every second and at the end")
	set.StringVar(&f.log, "log", "text", "format of the log on standard error: text, json or off")
	return cmd
}

// check refuses flags that contradict each other or that nothing would heed.
func (f *serving) check(cmd *cobra.Command) error {
	http := f.doors.Address != "" || f.doors.Unix != ""
	if !f.stdin && !http {
		return BadInputf("serve needs a way to receive requests: --stdin, --listen HOST:PORT or --unix PATH")
	}
	for _, needs := range []struct {
		flag, requirement string
		present           bool
	}{
		{"line-bytes", "--stdin", f.stdin}, {"token-file", "--listen or --unix", http}, {"connections", "--listen or --unix", http}, {"body-bytes", "--listen or --unix", http},
		{"waiting", "--listen or --unix", http}, {"tls-cert", "--listen", f.doors.Address != ""}, {"tls-key", "--listen", f.doors.Address != ""},
	} {
		if cmd.Flags().Changed(needs.flag) && !needs.present {
			return BadInputf("--%s needs %s, which is not given", needs.flag, needs.requirement)
		}
	}
	switch {
	case f.ui && f.doors.Address == "":
		return BadInputf("--ui needs --listen HOST:PORT, the address of its page")
	case f.ui && f.tokenFile != "":
		return BadInputf("--ui and --token-file exclude each other: the page asks for no token, so anyone could use it without one")
	}
	if (f.doors.TLSCert == "") != (f.doors.TLSKey == "") {
		return BadInputf("--tls-cert and --tls-key: give both or neither")
	}
	return nil
}

// logger is what --log asks for.
func (a *App) logger(format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(a.Stderr, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.Stderr, nil)), nil
	case "off":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, BadInputf("--log %s: want text, json or off", format)
}

// serve runs a server at the doors that the flags ask for.
func (a *App) serve(cmd *cobra.Command, name string, f *serving) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	inputs := []durable.File{{Name: "--model", Path: f.modelFile}, {Name: "--token-file", Path: f.tokenFile}, {Name: "--tls-cert", Path: f.doors.TLSCert}, {Name: "--tls-key", Path: f.doors.TLSKey}, {Name: "--unix", Path: f.doors.Unix}}
	if err := durable.Apart([]durable.File{{Name: "--state-file", Path: f.stateFile}}, inputs); err != nil {
		return gpc.BadInput(err)
	}
	log, err := a.logger(f.log)
	if err != nil {
		return err
	}
	if f.tokenFile != "" {
		if f.http.Token, err = serve.ReadToken(f.tokenFile); err != nil {
			return err
		}
		f.doors.Token = f.http.Token
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	}
	c, setup, err := a.Setup(cmd, name, f.modelFile, f.method)
	if err != nil {
		return err
	}
	if c, err = alter(c, f.measured, f.crowd); err != nil {
		return err
	}
	pref, err := Preference(f.weights, c.Spec().ObjectiveSize())
	if err != nil {
		return err
	}
	opt := f.options
	if !cmd.Flags().Changed("deadline") {
		opt.Deadline = serve.Period
	}
	var file *serve.StateFile
	if f.stateFile != "" {
		if file, opt.Resume, err = serve.OpenStateFile(f.stateFile, c); err != nil {
			return err
		}
		defer file.Close()
	}
	e, err := a.OpenEngine()
	if err != nil {
		return err
	}
	opt.SessionIdle = cmp.Or(opt.SessionIdle, -1) // for ever
	opt.Setup, opt.Preference, opt.Seed = setup, pref.W, a.seed
	opt.Threads, opt.Log = a.CPUThreads(), log
	s, err := serve.New(c, e, opt)
	if err != nil {
		e.Close()
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(memory()))
	}
	err = a.serveDoors(cmd.Context(), c, s, f, log, len(opt.Resume), file)
	if cmd.Context().Err() != nil {
		return err // the process ends, and what still computes with it
	}
	s.Close()
	e.Close()
	if err == nil && !a.json {
		h := s.Health()
		fmt.Fprintf(a.Stderr, "%d decisions in %d batches (largest %d): %d replaced, %d late, %d refused, %d panics, %d slices for the page, in %v\n",
			h.Decisions, h.Batches, h.LargestBatch, h.Replaced, h.Late, h.Refused, h.Panics, h.Asides, time.Duration(h.UptimeS*float64(time.Second)).Round(time.Millisecond))
	}
	return err
}

// serveDoors opens the doors, and ends when one of them does or the context.
func (a *App) serveDoors(ctx context.Context, c *gpc.Case, s *serve.Server, f *serving, log *slog.Logger, resumed int, file *serve.StateFile) error {
	listeners, err := s.Listen(f.doors)
	if err != nil {
		return err
	}
	h := s.Health()
	log.Info("serving", "case", h.Case, "method", h.Method, "model", h.ModelSHA256, "commit", h.Commit, "backend", h.Backend, "sensing", cmp.Or(sensing(c), "the state itself"), "resumed", resumed)
	for _, l := range listeners {
		log.Info("listening", "network", l.Addr().Network(), "address", l.Addr().String(), "tls", f.doors.TLSCert != "" && l.Addr().Network() == "tcp", "token", f.http.Token != "")
	}
	// The first door that ends takes the others with it.
	doorsCtx, end := context.WithCancel(ctx)
	defer end()
	handler := serve.Handler(s, f.http)
	if f.ui {
		var leave func()
		if handler, leave, err = a.withPage(doorsCtx, handler, c, s, f); err != nil {
			for _, l := range listeners {
				l.Close()
			}
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		defer leave()
		log.Info("page", "url", "http://"+listeners[0].Addr().String()+"/")
	}
	var doors, keeper sync.WaitGroup
	var lines, http error
	if f.stdin {
		doors.Go(func() {
			defer end()
			lines = s.Lines(doorsCtx, a.Stdin, a.Stdout, f.lines)
		})
	}
	if len(listeners) > 0 {
		doors.Go(func() {
			defer end()
			http = s.HTTP(doorsCtx, handler, listeners, 0)
		})
	}
	keep, stop := context.WithCancel(context.Background())
	defer stop()
	if file != nil {
		keeper.Go(func() { file.Keep(keep, s, saveEvery) })
	}
	<-doorsCtx.Done()
	log.Info("draining")
	doors.Wait()
	err = cmp.Or(lines, http)
	stop()
	keeper.Wait()
	if file != nil {
		last, stop := context.WithTimeout(context.Background(), savePatience)
		defer stop()
		err = cmp.Or(err, file.Save(last, s))
	}
	h = s.Health()
	log.Info("ended", "decisions", h.Decisions, "asides", h.Asides)
	return err
}
