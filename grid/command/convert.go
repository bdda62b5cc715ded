package command

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/internal/durable"
)

// convertCommand is gpc pf convert.
func convertCommand(a *cli.App) *cobra.Command {
	var files outputs
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "A network of another program as a MATPOWER case and as CSV tables",
		Long: `Reads a network of any format that pf reads, and writes it unsolved. --out writes a
MATPOWER case, --csv its tables in MATPOWER's columns and units. Names of buses, units
and branches are the last column. What a PSS/E file keeps by tap changers, phase shifters
and switched shunts is in controls.txt, for pf --controls.`,
		Example: "  " + a.Name + " pf convert network.raw --out network.m --csv tables",
		Args:    cli.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if files == (outputs{}) {
				return cli.BadInputf("convert writes a case or its tables: give --out or --csv")
			}
			if err := files.check(cmd, args[0], append(solvedTables[:3:3], "gencost.csv", "dcline.csv", "dclinecost.csv", "controls.txt")...); err != nil {
				return err
			}
			c, n, err := readNetwork(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			if err := cmp.Or((&outputs{out: files.out}).write(c, origin(c, "converted from "+filepath.Base(args[0]))), writeMatrices(files.csv, c)); err != nil {
				return err
			}
			if files.csv != "" && len(c.Controls) > 0 {
				if err := durable.WriteFile(filepath.Join(files.csv, "controls.txt"), []byte(strings.Join(c.Controls, "\n")+"\n"), 0o644); err != nil {
					return err
				}
			}
			out := map[string]any{"case": c.Name, "bus": len(c.Bus), "gen": len(c.Gen), "branch": len(c.Branch), "notes": n.Notes()}
			return a.PrintChecked(true, out, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s, %s, %s\n", c.Name, countOf(len(c.Bus), "bus", "buses"), count(len(c.Gen), "unit"), countOf(len(c.Branch), "branch", "branches"))
			})
		},
	}
	files.flags(cmd.Flags())
	cmd.Flags().Lookup("out").Usage = "`FILE.m` to write the case to"
	cmd.Flags().Lookup("csv").Usage = "`folder` to write bus.csv, gen.csv, branch.csv, gencost.csv and controls.txt to"
	return cmd
}

// writeMatrices writes the matrices of a case as tables.
func writeMatrices(folder string, c *matpower.Case) error {
	if folder == "" {
		return nil
	}
	for _, m := range c.Matrices() {
		rows := [][]string{append(m.Columns, "name")}
		for i, numbers := range m.Rows {
			var row []string
			for _, v := range numbers {
				row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
			}
			name := ""
			if m.Names != nil {
				name = m.Names[i]
			}
			rows = append(rows, append(row, name))
		}
		if err := writeCSV(filepath.Join(folder, m.Field+".csv"), withoutNames(rows)); err != nil {
			return err
		}
	}
	return nil
}
