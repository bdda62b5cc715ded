package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/model"
)

func (a *App) exportCommand() *cobra.Command {
	var opt gpc.ExportOptions
	var of string
	cmd := &cobra.Command{
		Use:   "export MODEL --c DIR",
		Short: "Write a whole controller, or a trained map, as C99 for a microcontroller or another program",
		Long: `Writes the whole controller of a system of equations: map, projection onto the
limits, guard by roll-out, escape, rest, and the plant, in bounded time and
memory, after driving it in so many episodes. How many of them were unsafe is
printed, and the written test drives the same ones in C. A map that was compiled
for a method that C does not have is refused: --method direct-no-rescue asks for
what C has instead. --method nmpc writes the exact controller, which solves each
decision's problem anew and needs no map: MODEL may be any case of equations, or
a file of a system. --map-only writes what the method direct decides before its
projection, of any case: E_x, D_u, their normalisation, the plan that D_u
corrects, and the actions' box, which keeps no limit. MODEL is a model file, or
the name of a case for its bundled map. DIR must not exist, or be empty.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Dir == "" {
				return BadInputf("--c is required: the folder to write C to")
			}
			if opt.MapOnly && opt.Method != "" {
				return BadInputf("--method %s and --map-only exclude each other: give one of them", opt.Method)
			}
			if opt.MapOnly && opt.FMU {
				return BadInputf("--fmu and --map-only exclude each other: an FMU holds the whole controller, --map-only writes the map alone")
			}
			c, m, err := a.exported(args[0], of, opt.Method)
			if err != nil {
				return err
			}
			opt.Seed = a.seed
			r, err := c.Export(cmd.Context(), m, opt)
			if err != nil {
				return err
			}
			return a.Print(r, func(w io.Writer) error { return sayExported(w, r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&opt.Dir, "c", "", "folder to write C to")
	f.StringVar(&of, "case", "", "case of the map in a model file (default: what it was trained for, if that is one of the program's own)")
	f.StringVar(&opt.Method, "method", "", "method to export (default: what the map was compiled for)")
	f.IntVar(&opt.Episodes, "episodes", 100, "episodes that the controller drives, here and in the written test")
	f.BoolVar(&opt.FMU, "fmu", false, "also write the controller and its plant as units of FMI 2.0 for co-simulation")
	f.BoolVar(&opt.MapOnly, "map-only", false, "write the map alone, without projection and guard")
	f.BoolVar(&opt.Half, "half", false, "round the weights to float16 and store them so: half the memory")
	f.IntVar(&opt.Records, "records", 64, "recorded decisions in the test of a map alone")
	return cmd
}

func sayExported(w io.Writer, r *export.Result) (err error) {
	say := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	if r.Method != "" {
		say("gpc_%s in %s: the controller %s, unsafe in %d of %d episodes\n", r.Symbol, r.Dir, r.Method, *r.Unsafe, r.Episodes)
		say("%d bytes of constants, %d of static memory, %d for a loop, at most %d operations a decision\n", r.ConstantBytes, r.ScratchBytes, r.LoopBytes, r.Operations)
		for _, name := range r.FMU {
			say("%s\n", filepath.Join(r.Dir, name))
		}
		return err
	}
	say("gpc_%s in %s: the map alone, which keeps no limit but the actions' box\n", r.Symbol, r.Dir)
	say("%d bytes of constants, %d of static memory, at most %d multiply-adds a decision; %d recorded decisions, float32 within %.2g of float64\n",
		r.ConstantBytes, r.ScratchBytes, r.MulAdds, r.Records, r.RoundingError)
	if r.Half {
		say("float16 weights move a plan by up to %.2g; these are in units of the decoder's normalisation\n", r.HalfError)
	}
	if r.Base == "hook" {
		say("the program that uses it has to supply gpc_%s_base, the plan that D_u corrects\n", r.Symbol)
	}
	return err
}

// exported finds what to export: the bundled map of the case of that name, or the map in
// that file with its case, of which the file's own word opens nothing. The exact controller needs no map.
func (a *App) exported(name, of, method string) (*gpc.Case, *model.Model, error) {
	if method == export.Solver {
		if c, err := a.Find(name); err == nil {
			return c, nil, nil
		}
	}
	if _, err := os.Stat(name); err != nil {
		c, err := a.Find(name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s is neither a model file nor a case: %w", name, err)
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
