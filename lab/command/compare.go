package command

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/lab/compare"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/report"
)

// Compare sets records of gpc bench side by side.
func Compare(a *cli.App) *cobra.Command {
	var table, figures string
	worst := cli.Percent(math.NaN())
	cmd := &cobra.Command{
		Use:     "compare A.json B.json...",
		Example: "  gpc-lab compare before.json after.json --max-regression 5%",
		Short:   "Compare records of gpc bench, with the statistical tests of benchstat",
		Long: `Compares every record of gpc bench --json with the first, row by row: the same
operation, case, size, batch and precision, on whatever machine. A median has its 95 %
interval. The Mann–Whitney test of the recorded latencies decides at 5 % whether a
change is real; ~ marks a change that may be chance. Records of older versions hold no
latencies, so they have no test.

The latencies of a record come from one process on one machine. The test compares
these two runs, not the two programs on another day. Record each side more than once
before you believe a small change.

With --max-regression the exit code is 1 where a median is above the first record's by
more than that, unless it may be chance. gpc names these rows.`,
		Args: cli.AtLeast(2, "compare takes the files of two records of gpc bench --json or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("max-regression") && !(worst >= 0) {
				return cli.BadInputf("--max-regression %v: want a percentage ≥ 0", &worst)
			}
			var inputs []durable.File
			for _, path := range args {
				inputs = append(inputs, durable.File{Name: "the record", Path: path})
			}
			if table != "" {
				if err := cli.CheckOutputs([]durable.File{{Name: "--csv", Path: table}}, inputs); err != nil {
					return err
				}
			}
			if err := cli.OnceFiles(cmd.CommandPath(), args); err != nil {
				return err
			}
			var records []compare.NamedRecord
			for _, path := range args {
				r, err := compare.ReadBench(path)
				if err != nil {
					return gpc.BadInput(err)
				}
				records = append(records, compare.NamedRecord{File: path, Record: r})
			}
			c, err := compare.Compare(records, float64(worst))
			if err != nil {
				return gpc.BadInput(err)
			}
			if table != "" {
				if err := writeCSV(table, c.CSV()); err != nil {
					return err
				}
			}
			if figures != "" {
				if err := writeFigures(figures, report.HardwareFigures(c, records)); err != nil {
					return err
				}
			}
			return a.PrintChecked(len(c.Regressions) == 0, c, func(w io.Writer) { renderComparison(w, c) })
		},
	}
	f := cmd.Flags()
	f.Var(&worst, "max-regression", "exit with code 1 where a median is above the first record's by more than this, such as 5% (default: never)")
	f.Lookup("max-regression").DefValue = ""
	f.StringVar(&table, "csv", "", "file for a line of each row and record")
	f.StringVar(&figures, "figures", "", "folder for roofline, latency against batch and histograms, SVG and PNG")
	return cmd
}

func renderComparison(w io.Writer, c *compare.Comparison) {
	cli.Table(w, c.Head())
	cli.Table(w, c.Table())
	labels := c.Labels()
	for i, r := range c.Records {
		for _, name := range r.Alone {
			fmt.Fprintf(w, "only in %s: %s\n", labels[i], name)
		}
	}
	for _, name := range c.Regressions {
		fmt.Fprintf(w, "REGRESSION beyond %g %%: %s\n", c.MaxRegressionPct, name)
	}
}

func writeCSV(path string, rows [][]string) error {
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
		return err
	}
	return durable.WriteFile(path, text.Bytes(), 0o644)
}

// writeFigures makes the folder of figures and writes them there.
func writeFigures(dir string, figures []*draw.Figure) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return gpc.BadInput(err)
	}
	for _, f := range figures {
		if err := f.Write(dir); err != nil {
			return err
		}
	}
	return nil
}
