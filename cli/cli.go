// Package cli is the gpc command line as a library: a program that registers
// its own domain.Case gets dataset, training, refinement, evaluation and
// benchmarks for it from the same commands.
//
// The central type is App. Commands turn flags into options of the packages
// that do the work, and results into text or JSON; they hold no logic of their
// own. Exit codes: 0 done, 1 the run failed or its check did not hold, 2 bad
// usage or input, 75 under --requeue: the same command goes on.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/interrupt"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/version"
)

// App is one program: its cases, its bundled models and its streams.
type App struct {
	Name string // of the program in usage and errors; "": gpc
	// Catalogue is what CASE arguments name, with the bundled maps.
	gpc.Catalogue
	// Commands make commands of the program's own beside gpc's. The flags of every
	// command (--json, --seed, --backend, --device, --threads, --tf32) are theirs too, Print heeds
	// the first; they return errors of gpc.BadInput and ErrCheck.
	Commands []func(*App) *cobra.Command
	// Networks are the names that such a command takes in place of FILE.m; the shell completes them.
	Networks []string
	// Operations are the program's own benchmarks.
	Operations []bench.Operation
	// Benchmarks make commands of bench beside gpc's.
	Benchmarks []func(*App) *cobra.Command
	// Patience is how long a command may take to come to its end after a signal; 0: DefaultPatience.
	// What it is in by then is left: every file is replaced whole or grows by whole records.
	Patience time.Duration
	Stdout   io.Writer // nil: os.Stdout
	Stderr   io.Writer // nil: os.Stderr
	Stdin    io.Reader // nil: os.Stdin

	args    []string       // of the command line that runs
	signals chan os.Signal // that end a command; nil: none are heard
	requeue *atomic.Bool   // whether the command has --requeue
	meter   *meter         // of standard error; nil: it is no file
	typed   bool           // whether standard input is a terminal

	json    bool
	seed    uint64
	backend string
	tf32    bool
	device  int
	threads int
}

// DefaultPatience is that of an App which says nothing else: with it a command ends within two seconds.
const DefaultPatience = 1500 * time.Millisecond

// Main runs the program with the process's arguments and signals, and returns
// the exit code. Ctrl-C, SIGTERM and SIGHUP end a command within two seconds, a second one at once;
// under --requeue SIGUSR1 does too, and there is no second one.
func Main(app *App) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	app.signals, app.requeue = make(chan os.Signal, 1), new(atomic.Bool)
	signal.Notify(app.signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(app.signals, syscall.SIGHUP)
	}
	go func() {
		<-app.signals
		// The next one has its usual effect, but for a launcher's, which may signal a job's
		// processes together and its script, which hands on what it hears.
		if !app.requeue.Load() {
			signal.Stop(app.signals)
		}
		cancel()
	}()
	exit := make(chan int, 1)
	go func() { exit <- app.Run(ctx, os.Args[1:]) }()
	select {
	case code := <-exit:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-exit:
		return code
	case <-time.After(cmp.Or(app.Patience, DefaultPatience)):
		app.notice(interrupted)
		return app.exitToContinue(1)
	}
}

// interrupted is what a command says that a signal has ended.
const interrupted = "interrupted; files keep what was finished"

// BadInputf is gpc.BadInput of fmt.Errorf: exit code 2.
func BadInputf(format string, args ...any) error { return gpc.BadInput(fmt.Errorf(format, args...)) }

// ErrCheck is returned when a command did its work and found that what it
// checks does not hold; the result has been printed already.
var ErrCheck = errors.New("the check failed")

// flagOf is the flag of a field of the library's options.
func flagOf(field string) string {
	switch field {
	case "OutDir":
		return "--out"
	case "Ranges":
		return "--range"
	case "TracePath":
		return "--trace"
	}
	return "--" + option.Kebab(field)
}

// Run executes one command line and returns its exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	a.Name, a.args = cmp.Or(a.Name, "gpc"), args
	a.Stdout = cmp.Or[io.Writer](a.Stdout, os.Stdout)
	a.Stderr = cmp.Or[io.Writer](a.Stderr, os.Stderr)
	a.Stdin = cmp.Or[io.Reader](a.Stdin, os.Stdin)
	if f, file := a.Stdin.(*os.File); file {
		a.typed = term.IsTerminal(int(f.Fd()))
	}
	a.Stdin = interrupt.Reader(ctx, a.Stdin)
	a.requeue = cmp.Or(a.requeue, new(atomic.Bool))
	a.meter = nil
	if _, file := a.Stderr.(*os.File); file {
		a.meter = &meter{dst: a.Stderr}
		if !terminal(a.Stderr) {
			a.meter.interval = lineEvery
		}
	}
	defer a.meter.end()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(domain.WithProgress(ctx, a.meter.part))
	if failed := root.OutOrStdout().(*printing).Flush(); err == nil {
		err = failed
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrCheck):
		return 1
	case errors.Is(err, context.Canceled):
		a.notice(interrupted)
		return a.exitToContinue(1)
	}
	a.notice(option.In(err, flagOf))
	code := 1
	if errors.As(err, new(gpc.InputError)) || errors.As(err, new(*durable.Refusal)) {
		code = 2
	}
	if errors.Is(err, durable.ErrBusy) {
		return a.exitToContinue(code)
	}
	return code
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:   a.Name,
		Short: "Compile a plant's equations into a controller that decides in microseconds",
		Long: `gpc compiles a plant's equations into a controller. A solver finds optimal plans
offline, and a small network, the map, is trained on them. The controller evaluates
the map in microseconds, for any weighting of the objectives, and projects each
action onto the hard limits. gpc also solves AC power flows and optimal power flows.

Results go to stdout, as one JSON object with --json; progress and errors go to
stderr. The same seed gives the same result on any number of threads.`,
		Version:       version.Version + " (" + version.Build() + ")",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknownCommand(cmd, args[0])
			}
			return nil
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.readRequeue(cmd)
			return checkLimits(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(&printing{bufio.NewWriter(a.Stdout), a.Stdout}) // of help, whose errors cobra drops
	root.SetErr(a.Stderr)
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON object on stdout; progress and logs go to stderr")
	f.Uint64Var(&a.seed, "seed", 1, "seed of everything random")
	f.StringVar(&a.backend, "backend", "auto", "compute backend: auto, cuda, cpu or ref")
	f.IntVar(&a.threads, "threads", 0, "threads of the CPU backend; 0 uses every core")
	f.IntVar(&a.device, "device", -1, "with CUDA: the `number` of the device, as gpc doctor has it (default: the first usable one)")
	f.BoolVar(&a.tf32, "tf32", false, "with CUDA: large products on tensor cores, inputs rounded to TF32")
	root.AddCommand(
		a.versionCommand(root.Version), a.newCommand(), a.casesCommand(), a.methodsCommand(), a.doctorCommand(), a.datasetCommand(), a.trainCommand(), a.compileCommand(), a.refineCommand(), a.frontCommand(),
		a.evalCommand(), a.serveCommand(), a.plantCommand(), a.viewCommand(), a.sceneCommand(), a.verifyCommand(), a.mcapCommand(), a.steerCommand(), a.exportCommand(), a.systemCommand(), a.checkCommand(), a.benchCommand(),
	)
	for _, command := range a.Commands {
		root.AddCommand(command(a))
	}
	a.explain(root)
	a.complete(root)
	return root
}

// ExactArgs is cobra.ExactArgs with an exit code of 2 and the usage line.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			takes := fmt.Sprintf("%d arguments", n)
			if n < 2 {
				takes = [...]string{"no argument", "one argument"}[n]
			}
			return BadInputf("%s takes %s, got %d; usage: %s", cmd.CommandPath(), takes, len(args), cmd.UseLine())
		}
		return nil
	}
}

// AtLeast takes n arguments or more, and says of fewer what they should have been.
func AtLeast(n int, usage string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return BadInputf("%s", usage)
		}
		return nil
	}
}

// Engine says which engine the flags ask for.
func (a *App) Engine() engine.Options {
	o := engine.Options{Backend: a.backend, Threads: a.threads, TF32: a.tf32, Notice: a.notice}
	if a.device >= 0 {
		o.Device = &a.device
	}
	return o
}

// OpenEngine opens that engine and says on stderr, where stdout is not JSON, which it is.
func (a *App) OpenEngine() (*gpc.Engine, error) {
	e, err := gpc.OpenEngine(a.Engine())
	if err == nil && !a.json {
		a.say("%s", BackendLine(e.About(), engine.ProbeCUDA().Driver != ""))
	}
	return e, err
}

// BackendLine names a backend in one line. Why it is not a GPU is said where there is a CUDA
// driver; doctor says it everywhere.
func BackendLine(description gpc.About, driver bool) string {
	line := fmt.Sprintf("backend %s (%s, %d threads)", description.Backend, description.ISA, description.Threads)
	if description.Backend == "cuda" || driver {
		line += ": " + strings.Join(strings.FieldsFunc(description.Reason, func(r rune) bool { return r == '\n' }), "; ")
	}
	return line
}

// Find is Catalogue.Find, with the remarks on the case on stderr.
func (a *App) Find(name string) (*gpc.Case, error) {
	c, err := a.Catalogue.Find(name)
	if err == nil {
		for _, remark := range c.Remarks() {
			a.notice(fmt.Sprintf("a remark on %s: %s", c.Name(), remark))
		}
	}
	return c, err
}

// warn says on stderr what a check of a system of one's own finds, of some severities.
func (a *App) warn(c *gpc.Case, severities ...diagnosis.Severity) {
	for _, f := range c.Findings() {
		if slices.Contains(severities, f.Severity) {
			a.notice(fmt.Sprintf("%s: %s: %s", c.Name(), f.Severity, f.String()))
		}
	}
}

// notice says on stderr what the program itself has to say: an error, or that a GPU
// failed and where work goes on.
func (a *App) notice(text string) { a.say("%s: %s", a.Name, text) }

// say writes a line on stderr, in the place of the progress of a command.
func (a *App) say(format string, args ...any) {
	a.meter.wipe()
	fmt.Fprintf(folding{a.Stderr, columns(a.Stderr)}, format+"\n", args...)
}

// Print writes result as JSON where --json asks for it, null for numbers that are none, and
// otherwise as text by render, which need not look at errors of w: the first one is returned.
func (a *App) Print(result any, render func(w io.Writer)) error {
	a.meter.end()
	if a.json {
		text, err := finite.Marshal(result)
		if err == nil {
			_, err = a.Stdout.Write(append(text, '\n'))
		}
		return err
	}
	w := &printing{bufio.NewWriterSize(folding{a.Stdout, columns(a.Stdout)}, 1<<16), a.Stdout}
	render(w)
	return w.Flush()
}

// printing is standard output as one piece of text, whose first error Flush returns.
type printing struct {
	*bufio.Writer
	dst io.Writer
}

// PrintChecked is Print of a result that holds or not: ErrCheck where it does not.
func (a *App) PrintChecked(holds bool, result any, render func(w io.Writer)) error {
	if err := a.Print(result, render); err != nil || holds {
		return err
	}
	return ErrCheck
}

// Preference parses --preference: empty is the adaptive mode.
func Preference(weights []float64, m int) (domain.Preference, error) {
	if len(weights) == 0 {
		return domain.Preference{Adaptive: true}, nil
	}
	p := domain.Preference{W: slices.Clone(weights)}
	if err := p.Validate(m); err != nil {
		return p, BadInputf("--preference: %w", err)
	}
	return p, nil
}

// JSON says whether the result is to be one JSON object; Seed is the flag --seed.
func (a *App) JSON() bool   { return a.json }
func (a *App) Seed() uint64 { return a.seed }

// Threads is the flag --threads: 0 for every core.
func (a *App) Threads() int { return a.threads }

// CPUThreads are those that --threads gives the CPU.
func (a *App) CPUThreads() int { return cmp.Or(max(a.threads, 0), runtime.GOMAXPROCS(0)) }
