// Command record keeps what a program measures and prints, with the machine's load meanwhile,
// for the tables of docs that `make docs` writes:
//
//	go run ./bench/record --out bench/results/NAME/FILE.json go test ./domains/opf -run '^$' -bench Weights -benchtime 1x
//
// The program prints the lines of go test -bench, or a JSON array of objects with a name. What
// it prints on standard error goes on to this one's. Nothing is kept of a program that fails.
//
// With --amend it adds to the record of an evaluation the fields that a later program has, and
// keeps its times:
//
//	go run ./bench/record --amend bench/results/NAME/FILE.json gpc --model FILE
//
// runs gpc eval with what the record says of case, method, episodes, seed and scenes, and the given
// options behind that. Nothing is added where anything but times and load differs in one bit. With
// --rollout it keeps what the figures of the first episode of a trace show.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domains/paper"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/peerrecord"
	"github.com/gpc-engine/gpc/internal/version"
)

func main() {
	out := flag.String("out", "", "`file` for the record")
	rollout := flag.String("rollout", "", "`trace` whose first episode is kept in --out as the numbers of its figures")
	amended := flag.String("amend", "", "`record` of an evaluation that PROGRAM runs again and adds fields to")
	most := flag.Float64("max-load", 0, "refuse above this load of the machine; 0: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("want --out FILE or --amend RECORD, then PROGRAM ARGUMENTS…, or --rollout TRACE --out FILE")
	switch {
	case *rollout != "":
		if flag.NArg() == 0 && *out != "" && *amended == "" {
			err = keepRollout(ctx, *rollout, *out)
		}
	case flag.NArg() == 0 || (*out == "") == (*amended == ""):
	case *amended != "":
		err = amend(ctx, *amended, flag.Args(), os.Stderr)
	default:
		err = run(ctx, *out, machine.Limit{Load: *most}, flag.Args(), os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// repeated are the arguments of the evaluation that a record is of. One of a plant or of scenes of
// its own cannot be told from the record.
func repeated(r *closedloop.Result) ([]string, error) {
	if r.Case == "" || r.Method == "" || r.Episodes == 0 || r.Bias != 0 || len(r.Shift) > 0 || r.ScenesSHA256 != "" {
		return nil, errors.New("not a record of an evaluation of drawn scenes on the case's own plant")
	}
	arguments := []string{"eval", r.Case, "--method", r.Method, "--episodes", fmt.Sprint(r.Episodes), "--seed", fmt.Sprint(r.Seed), "--json"}
	if r.Regime != "" {
		arguments = append(arguments, "--regime", r.Regime)
	}
	if r.Noise != 0 {
		arguments = append(arguments, "--noise", fmt.Sprint(r.Noise))
	}
	return arguments, nil
}

// amend adds the fields that a record lacks from what a program prints that repeats it; a record
// that lacks none stays as it is.
func amend(ctx context.Context, path string, program []string, log io.Writer) error {
	record, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var was closedloop.Result
	if err := json.Unmarshal(record, &was); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	arguments, err := repeated(&was)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	arguments = slices.Concat(program[:1], arguments, program[1:])
	var printed bytes.Buffer
	if err := command(ctx, arguments, &printed, log).Run(); err != nil {
		return fmt.Errorf("%s: %w", arguments[0], err)
	}
	text, err := closedloop.Amend(record, printed.Bytes())
	if errors.Is(err, closedloop.ErrNothingToAdd) {
		fmt.Fprintf(log, "%s: %v\n", path, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return durable.WriteFile(path, text, 0o644)
}

// keepRollout writes what the figures of a trace's first episode show.
func keepRollout(ctx context.Context, trace, out string) error {
	catalogue := paper.Cases()
	r := report.New("", report.CasesOf(catalogue.All()))
	if err := r.AddTrace(ctx, trace); err != nil {
		return err
	}
	o, err := r.NewRollout(&r.Traces[0])
	if err != nil {
		return fmt.Errorf("%s: %w", trace, err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return durable.WriteFile(out, append(text, '\n'), 0o644)
}

// command is a program to run until it or ctx ends.
func command(ctx context.Context, arguments []string, out, log io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = out, log
	return cmd
}

// run keeps what a program prints in a file.
func run(ctx context.Context, out string, limit machine.Limit, arguments []string, log io.Writer) error {
	watch, err := machine.Begin(limit)
	if err != nil {
		return err
	}
	var printed bytes.Buffer
	cmd, begun := command(ctx, arguments, io.MultiWriter(&printed, log), log), time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", arguments[0], err)
	}
	record := peerrecord.Benchmarked{Device: gpc.Host(), Commit: version.Build(), Command: words(arguments)}
	if record.Load, err = watch.End(); err != nil {
		return err
	}
	if l := record.Load; l != nil {
		own := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
		l.Others = max(0, l.Others-own/time.Since(begun).Seconds())
	}
	if record.Benchmarks, err = peerrecord.ParseBenchmarks(printed.String()); err != nil {
		return err
	}
	return durable.WriteJSON(out, &record, " ")
}

// words are a command line as a shell takes it, but for the linker's flags and folders of
// virtual environments, which are of this machine.
func words(arguments []string) string {
	var words []string
	for i, a := range arguments {
		switch {
		case a == "-ldflags" || i > 0 && arguments[i-1] == "-ldflags":
			continue
		case i == 0:
			a = a[strings.LastIndexByte(a, '/')+1:]
		case strings.ContainsAny(a, " $^|*'"):
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
