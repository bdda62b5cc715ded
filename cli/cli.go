// Package cli is the gpc command line as a library: a program that registers
// its own domain.Case gets dataset, training, refinement, evaluation and
// benchmarks for it from the same commands.
//
// The central type is App. Commands turn flags into options of the packages
// that do the work, and results into text or JSON; they hold no logic of their
// own. Exit codes: 0 done, 1 the run failed or its check did not hold, 2 bad
// usage or input.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
)

// App is one program: its cases, its bundled models and its streams.
type App struct {
	Name string // of the program in usage and errors; "": gpc
	// Cases are what CASE arguments name.
	Cases []domain.Case
	// Open, if set, makes the case of a name that is not in Cases, such as one that
	// holds a file's path; ok is false for a name that is none of its own.
	Open func(name string) (c domain.Case, ok bool, err error)
	// Models holds CASE.safetensors for each case with a bundled model; nil for
	// none.
	Models fs.FS
	// Commands make commands of the program's own beside gpc's. The flags of every
	// command (--json, --seed, --backend, --threads, --tf32) are theirs too, Print heeds
	// the first; they return errors of BadInput and ErrCheck.
	Commands []func(*App) *cobra.Command
	// Operations are the program's own benchmarks.
	Operations []bench.Operation
	Stdout     io.Writer // nil: os.Stdout
	Stderr     io.Writer // nil: os.Stderr
	Stdin      io.Reader // nil: os.Stdin

	json    bool
	seed    uint64
	backend string
	tf32    bool
	threads int
}

// Main runs the program with the process's arguments and signals, and returns
// the exit code.
func Main(app *App) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.Run(ctx, os.Args[1:])
}

type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// BadInput marks an error as the caller's: exit code 2. It is nil for nil.
func BadInput(err error) error {
	if err == nil {
		return nil
	}
	return inputError{err}
}

// BadInputf is BadInput of fmt.Errorf.
func BadInputf(format string, args ...any) error { return inputError{fmt.Errorf(format, args...)} }

// ErrCheck is returned when a command did its work and found that what it
// checks does not hold; the result has been printed already.
var ErrCheck = errors.New("check did not hold")

// Run executes one command line and returns its exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	a.Name = cmp.Or(a.Name, "gpc")
	if a.Stdout == nil {
		a.Stdout = os.Stdout
	}
	if a.Stderr == nil {
		a.Stderr = os.Stderr
	}
	if a.Stdin == nil {
		a.Stdin = os.Stdin
	}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrCheck):
		return 1
	case errors.Is(err, context.Canceled):
		a.notice("interrupted; what was finished is kept")
		return 1
	}
	a.notice(err.Error())
	var in inputError
	if errors.As(err, &in) {
		return 2
	}
	return 1
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:           a.Name,
		Short:         "Geometric Pareto Control: decide by moving on a learned Pareto manifold",
		Version:       version.Version + " (" + version.Build() + ")",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return BadInputf("unknown command %q; `%s --help` lists them", args[0], a.Name)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return BadInputf("%s: %w", cmd.CommandPath(), err)
	})
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON object on stdout; progress and logs go to stderr")
	f.Uint64Var(&a.seed, "seed", 1, "seed of everything random")
	f.StringVar(&a.backend, "backend", "auto", "compute backend: auto, cuda, cpu or ref")
	f.IntVar(&a.threads, "threads", 0, "threads of the CPU backend; 0 uses every core")
	f.BoolVar(&a.tf32, "tf32", false, "with CUDA: large products on tensor cores, inputs rounded to TF32")
	root.AddCommand(
		a.casesCommand(), a.doctorCommand(), a.datasetCommand(), a.trainCommand(), a.refineCommand(),
		a.evalCommand(), a.verifyCommand(), a.certifyCommand(), a.steerCommand(), a.benchCommand(), a.reportCommand(), a.demoCommand(),
	)
	for _, command := range a.Commands {
		root.AddCommand(command(a))
	}
	return root
}

// ExactArgs is cobra.ExactArgs with an exit code of 2 and the usage line.
func ExactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return BadInputf("%s takes %d argument(s), got %d; usage: %s", cmd.CommandPath(), n, len(args), cmd.UseLine())
		}
		return nil
	}
}

// find returns the case of that name.
func (a *App) find(name string) (domain.Case, error) {
	var names []string
	for _, c := range a.Cases {
		n := c.Problem.Spec().Name
		if n == name {
			return c, nil
		}
		names = append(names, n)
	}
	if a.Open != nil {
		if c, ok, err := a.Open(name); ok {
			return c, BadInput(err)
		}
	}
	return domain.Case{}, BadInputf("unknown case %q; this program has %s", name, strings.Join(names, ", "))
}

// open opens the backend that the flags ask for and says on stderr which it is.
func (a *App) open(quiet bool) (engine.Engine, error) {
	if a.threads < 0 {
		return nil, BadInputf("--threads %d: want 0 or more", a.threads)
	}
	e, reason, err := engine.Open(engine.Options{Backend: a.backend, Threads: a.threads, TF32: a.tf32, Notice: a.notice})
	if err != nil {
		return nil, BadInput(err)
	}
	if !quiet {
		d := e.Describe()
		fmt.Fprintf(a.Stderr, "backend %s (%s, %d threads): %s\n", d.Name, d.ISA, d.Threads, reason)
	}
	return e, nil
}

// notice says on stderr what the program itself has to say: an error, or that a GPU
// failed and where work goes on.
func (a *App) notice(text string) { fmt.Fprintln(a.Stderr, a.Name+":", text) }

// loadModel reads --model, or the bundled model of the case.
func (a *App) loadModel(c domain.Case, file string) (*model.Model, error) {
	if file == "" {
		return a.bundled(c)
	}
	m, err := model.ReadFile(file)
	if err != nil {
		return nil, BadInput(err)
	}
	return m, BadInput(batchnav.Fits(m, c.MapProblem().Spec()))
}

// Print writes result as JSON where --json asks for it, and otherwise as text by render.
func (a *App) Print(result any, render func(w io.Writer) error) error {
	if a.json {
		enc := json.NewEncoder(a.Stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(result)
	}
	return render(a.Stdout)
}

// preference parses --preference: empty is the adaptive mode.
func preference(weights []float64, m int) (domain.Preference, error) {
	if len(weights) == 0 {
		return domain.Preference{Adaptive: true}, nil
	}
	p := domain.Preference{W: slices.Clone(weights)}
	if err := p.Validate(m); err != nil {
		return p, BadInputf("--preference: %w", err)
	}
	return p, nil
}

// Threads is the flag --threads: 0 for every core.
func (a *App) Threads() int { return a.threads }

func cpuThreads(flag int) int {
	if flag > 0 {
		return flag
	}
	return runtime.GOMAXPROCS(0)
}
