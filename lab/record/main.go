// Command record keeps what a program measures and prints, with the machine's load meanwhile,
// for the tables of docs that `make docs` writes:
//
//	go run ./lab/record --out lab/results/NAME/FILE.json go test ./paper/opf -run '^$' -bench Weights -benchtime 1x
//
// The program prints the lines of go test -bench, or a JSON array of objects with a name. What
// it prints on standard error goes on to this one's. Nothing is kept of a program that fails.
//
// With --rollout it keeps what the figures of the first episode of a trace show.
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
	"strings"
	"syscall"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/paper"
)

func main() {
	out := flag.String("out", "", "`file` for the record")
	rollout := flag.String("rollout", "", "`trace` whose first episode is kept in --out as the numbers of its figures")
	most := flag.Float64("max-load", 0, "refuse above this load of the machine; 0: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := errors.New("want --out FILE, then PROGRAM ARGUMENTS… or --rollout TRACE")
	switch {
	case *out == "" || (flag.NArg() == 0) == (*rollout == ""):
	case *rollout != "":
		err = keepRollout(ctx, *rollout, *out)
	default:
		err = run(ctx, *out, machine.Limit{Load: *most}, flag.Args(), os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
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

// run keeps what a program prints in a file.
func run(ctx context.Context, out string, limit machine.Limit, arguments []string, log io.Writer) error {
	watch, err := machine.Begin(limit)
	if err != nil {
		return err
	}
	var printed bytes.Buffer
	cmd, begun := exec.CommandContext(ctx, arguments[0], arguments[1:]...), time.Now()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&printed, log), log
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
