package cli

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench/report"
)

// drawn is what `gpc report` prints.
type drawn struct {
	Files []string `json:"files"`
}

func (a *App) reportCommand() *cobra.Command {
	var results, out, documents string
	cmd := &cobra.Command{
		Use:   "report --out DIR",
		Short: "Write the paper's tables and figures from recorded runs, beside the paper's values",
		Args:  ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" && documents == "" {
				return BadInputf("--out is required: the folder of the report")
			}
			dirs, err := report.Devices(results)
			if err != nil {
				return BadInputf("--results: %w", err)
			}
			if len(dirs) == 0 {
				return BadInputf("--results %s: no recorded runs (*.json) and no traces (*.jsonl) in it", results)
			}
			var written drawn
			var all []*report.Records
			for i, dir := range dirs {
				r, err := report.Load(cmd.Context(), dir, a.reported())
				if err != nil {
					return gpc.BadInput(err)
				}
				all = append(all, r)
				if out == "" {
					continue
				}
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
			if documents != "" {
				pages, err := report.WriteDocuments(documents, true, all...)
				if err != nil {
					return gpc.BadInput(err)
				}
				written.Files = append(written.Files, pages...)
			}
			return a.Print(written, func(w io.Writer) error {
				for _, f := range written.Files {
					fmt.Fprintln(w, f)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&results, "results", "bench/results", "folder of recorded runs, one folder per device")
	cmd.Flags().StringVar(&documents, "documents", "", "bring the generated parts of README.md and docs/*.md below this folder up to date, with --out or alone")
	cmd.Flags().StringVar(&out, "out", "", "folder to write report.html, report.md and figures to")
	return cmd
}

// reported is what tables need to know of the program's cases.
func (a *App) reported() map[string]report.Case {
	cases := map[string]report.Case{}
	for _, c := range a.All() {
		of := report.Case{Methods: c.Methods(), Paper: c.Definition().Paper, Definition: *c.Definition()}
		if m, err := c.Model(""); err == nil { // a case without a bundled map has no number
			of.Samples = m.Provenance.Samples
		}
		cases[c.Name()] = of
	}
	return cases
}
