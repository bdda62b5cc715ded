// Package command has the laboratory's commands of gpc-lab.
package command

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/lab/report"
)

// drawn is what `gpc-lab report` prints.
type drawn struct {
	Files []string `json:"files"` // written
}

// Report writes the tables and figures of recorded runs.
func Report(a *cli.App) *cobra.Command {
	var results, out string
	var without []string
	cmd := &cobra.Command{
		Use:     "report --out DIR",
		Example: "  gpc-lab report --results runs --out out/report",
		Short:   "Write the paper's tables and figures from recorded runs, beside the paper's values",
		Args:    cli.ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return cli.BadInputf("--out is required: the folder of the report")
			}
			all, err := report.LoadAll(cmd.Context(), results, reported(a, without))
			if err != nil {
				return cli.BadInputf("--results: %w", err)
			}
			var written drawn
			for i, r := range all {
				to := out
				if i > 0 {
					to = filepath.Join(out, r.Device)
				}
				files, err := r.Write(cmd.Context(), to)
				if err != nil {
					return err
				}
				written.Files = append(written.Files, files...)
			}
			return a.Print(written, func(w io.Writer) {
				for _, f := range written.Files {
					fmt.Fprintln(w, f)
				}
			})
		},
	}
	cmd.Flags().StringVar(&results, "results", "lab/results", "folder of recorded runs, one folder per device")
	cmd.Flags().StringVar(&out, "out", "", "folder to write report.html, report.md and figures to")
	cmd.Flags().StringSliceVar(&without, "without", nil, "`groups` of cases (as gpc-lab cases has them) whose records get no section of their own")
	return cmd
}

// reported is what tables need to know of the program's cases, but for those of a group.
func reported(a *cli.App, without []string) map[string]report.Case {
	return report.CasesOf(slices.DeleteFunc(a.All(), func(c *gpc.Case) bool { return slices.Contains(without, c.Definition().Group) }))
}
