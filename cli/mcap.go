package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/durable"
)

func (a *App) mcapCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcap TRACE FILE",
		Short: "Write a trace as MCAP for Foxglove and Rerun: scenes, frames and numbers on the plant's clock",
		Args:  ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := CheckOutputs([]durable.File{{Name: "FILE", Path: args[1]}}, []durable.File{{Name: "TRACE", Path: args[0]}}); err != nil {
				return err
			}
			r, err := a.MCAP(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return a.Print(r, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d episodes of %s by %s, %d bytes\n", args[1], r.Episodes, r.Case, r.Method, r.Bytes)
			})
		},
	}
}

// evaluateToMCAP is evaluate with its trace as MCAP in the file out, where that is asked for. A
// run without a trace has one for that alone, which is not kept.
func (a *App) evaluateToMCAP(ctx context.Context, out, model string, opt *closedloop.Options, evaluate func() (*closedloop.Result, error)) (*closedloop.Result, error) {
	if out == "" {
		return evaluate()
	}
	if err := CheckOutputs([]durable.File{{Name: "--mcap", Path: out}}, []durable.File{{Name: "--trace", Path: opt.TracePath}, {Name: "--model", Path: model}}); err != nil {
		return nil, err
	}
	if opt.TracePath == "" {
		dir, err := os.MkdirTemp("", "gpc-mcap")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		opt.TracePath = filepath.Join(dir, "trace.jsonl")
	}
	result, err := evaluate()
	if err == nil {
		_, err = a.MCAP(ctx, opt.TracePath, out)
	}
	return result, err
}
