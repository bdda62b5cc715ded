package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/model"
)

func (a *App) exportCommand() *cobra.Command {
	var opt gpc.ExportOptions
	var of string
	cmd := &cobra.Command{
		Use:   "export MODEL --c DIR",
		Short: "Write a trained map as C99 without dependencies, for a microcontroller or another program",
		Long: `Writes what the method direct decides before its projection: E_x, D_u, their
normalisation, the plan that D_u corrects, and the actions' box, in float32 and
static memory, with a test that holds it to decisions recorded here. MODEL is a
model file, or the name of a case for its bundled map. DIR must not exist, or be
empty. Flow, localization, projection and guard are not exported.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Dir == "" {
				return BadInputf("--c is required: the folder to write C to")
			}
			c, m, err := a.exported(args[0], of)
			if err != nil {
				return err
			}
			opt.Seed = a.seed
			r, err := c.Export(cmd.Context(), m, opt)
			if err != nil {
				return err
			}
			return a.Print(r, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "gpc_%s in %s: %d bytes of constants, %d of static memory, at most %d multiply-adds a decision; %d recorded decisions, float32 within %.2g of float64\n",
					r.Symbol, r.Dir, r.ConstantBytes, r.ScratchBytes, r.MulAdds, r.Records, r.RoundingError)
				if err == nil && r.Half {
					_, err = fmt.Fprintf(w, "float16 weights move a plan by up to %.2g; these are in units of the decoder's normalisation\n", r.HalfError)
				}
				if err == nil && r.Base == "hook" {
					_, err = fmt.Fprintf(w, "the program that uses it has to supply gpc_%s_base, the plan that D_u corrects\n", r.Symbol)
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Dir, "c", "", "folder to write C to")
	f.StringVar(&of, "case", "", "case of the map in a model file (default: what it was trained for, if that is one of the program's own)")
	f.BoolVar(&opt.Half, "half", false, "round the weights to float16 and store them so: half the memory")
	f.IntVar(&opt.Records, "records", 64, "recorded decisions in the test")
	return cmd
}

// exported finds what to export: the bundled map of the case of that name, or the map in
// that file with its case, of which the file's own word opens nothing.
func (a *App) exported(name, of string) (*gpc.Case, *model.Model, error) {
	if _, err := os.Stat(name); err != nil {
		c, err := a.Find(name)
		if err != nil {
			return nil, nil, fmt.Errorf("no model file %s, and %w", name, err)
		}
		m, err := c.Model("")
		return c, m, err
	}
	m, err := model.ReadFile(name)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	if of != "" {
		c, err := a.Find(of)
		return c, m, err
	}
	c, err := a.Named(m.Case)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w; --case names another", name, err)
	}
	return c, m, nil
}
