package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
)

func (a *App) verifyCommand() *cobra.Command {
	var deep bool
	var replay gpc.Again
	var opt closedloop.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify TRACE",
		Short: "Check a trace by simulating it again; with --deep by repeating each decision",
		Long: `Simulates every episode again from its scene and actions, draws scenes and
measurements again from the seed, and solves for the optima again. --deep also
repeats every decision with the method and the map that the trace names. The output
says which checks were left out. Only TRACE and --model are opened.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if replay.Model != "" && !deep {
				return BadInputf("--model %s needs --deep: only --deep decides with a map", replay.Model)
			}
			if opt.EpisodeLimit <= 0 {
				return BadInputf("--episode-limit %v: want a time above 0", opt.EpisodeLimit)
			}
			var deepReplay *gpc.Again
			if replay.Engine = a.Engine(); deep {
				deepReplay = &replay
			}
			opt.Progress = a.Progress("verify")
			v, err := a.Verify(cmd.Context(), args[0], deepReplay, opt)
			if err != nil {
				return err
			}
			return a.PrintChecked(v.OK, v, func(w io.Writer) { renderVerification(w, args[0], v) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&deep, "deep", false, "decide again and compare the actions: bit for bit where backend and instruction set are the trace's")
	f.StringVar(&replay.Model, "model", "", "with --deep, the file of the map that the trace names by its SHA-256 (default: the bundled map)")
	f.DurationVar(&opt.EpisodeLimit, "episode-limit", closedloop.DefaultEpisodeLimit, "largest time for one episode, after which verification gives up")
	return cmd
}

// mismatchesPrinted of a trace; --json lists more.
const mismatchesPrinted = 20

func renderVerification(w io.Writer, file string, v *closedloop.Verification) {
	fmt.Fprintf(w, "%s: %d episodes of %s by %s, %d decisions, %d safe\n", file, v.Episodes, v.Case, v.Method, v.Decisions, v.Safe)
	fmt.Fprintf(w, "SHA-256 of its last record, and by the chain of all: %s\n", v.SHA256)
	verdict := "nothing that was checked differs"
	if !v.OK {
		verdict = fmt.Sprintf("%d values differ", v.Differing)
	}
	fmt.Fprintf(w, "%s (tolerance %g", verdict, v.Tolerance)
	switch {
	case v.Exact:
		fmt.Fprint(w, "; decisions bit for bit")
	case v.Deep:
		fmt.Fprintf(w, "; decisions %g, for the backend or the instruction set is another", closedloop.DeepTolerance)
	}
	fmt.Fprintln(w, ")")
	for _, m := range v.Mismatches[:min(mismatchesPrinted, len(v.Mismatches))] {
		fmt.Fprintln(w, " ", m)
	}
	for _, outcome := range []string{closedloop.Confirmed, closedloop.Recomputed, closedloop.Unchecked} {
		var reasons []string
		fields := map[string][]string{}
		for _, c := range v.Checks {
			if c.Verdict != outcome {
				continue
			}
			if fields[c.Basis] == nil {
				reasons = append(reasons, c.Basis)
			}
			name := c.Field
			if outcome != closedloop.Unchecked && c.Unchecked > 0 {
				name += fmt.Sprintf(" (%d values, %d could not be)", c.Values, c.Unchecked)
			}
			fields[c.Basis] = append(fields[c.Basis], name)
		}
		fmt.Fprintln(w, outcome)
		for _, basis := range reasons {
			fmt.Fprintf(w, "  %s: %s\n", strings.Replace(basis, closedloop.OnlyDeep, closedloop.OnlyDeep+" (--deep)", 1), strings.Join(fields[basis], ", "))
		}
	}
}
