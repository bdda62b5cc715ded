package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/model"
)

func (a *App) exportCommand() *cobra.Command {
	var opt gpc.ExportOptions
	var caseName string
	var measured alteration
	cmd := &cobra.Command{
		Use:   "export MODEL --c DIR",
		Short: "Write a whole controller, or a trained map, as C99 for a microcontroller or another program",
		Long: `Writes the whole controller of a system of equations as C99: map, projection onto
the limits, guard by roll-out, the fallbacks, and the plant. Its time and memory
are bounded. Before it writes, gpc drives the controller through --episodes
episodes and prints how many were unsafe; the test beside the C repeats them.

MODEL is a model file, or the name of a case for its bundled map. DIR must be
empty, or not exist.

If the case, --estimate or --delay declares measurements or a delay, gpc also writes
the Kalman filter and the prediction along the actions under way.

--method nmpc writes the exact controller instead, which solves an optimisation
problem at each decision and needs no map. MODEL may then be any case of
equations, or a system file. A map that was compiled for a method that C does not
have is refused; --method direct-no-rescue writes the nearest method that C has.

Of a case with switched actions gpc writes the search: direct and refine-N use
the map's chances. --method search-N needs no map.

--map-only writes the map alone, of any case: the encoder E_x, the decoder D_u,
their normalisation, and the box of the actions. It keeps no other limit.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opt.Dir == "" {
				return BadInputf("--c is required: the folder to write C to")
			}
			if opt.MapOnly && opt.Method != "" {
				return BadInputf("--method %s and --map-only exclude each other: give one of them", opt.Method)
			}
			if opt.MapOnly && (cmd.Flags().Changed("estimate") || cmd.Flags().Changed("delay")) {
				return BadInputf("--map-only has neither estimator nor prediction: leave --estimate and --delay out")
			}
			if opt.MapOnly && opt.FMU {
				return BadInputf("--fmu and --map-only exclude each other: an FMU holds the whole controller, --map-only writes the map alone")
			}
			c, m, err := a.exported(args[0], caseName, opt.Method)
			if err != nil {
				return err
			}
			if c, err = measured(c); err != nil {
				return err
			}
			opt.Seed, opt.Progress = a.seed, a.Progress("drive "+c.Name())
			r, err := c.Export(cmd.Context(), m, opt)
			if err != nil {
				return err
			}
			return a.Print(r, func(w io.Writer) {
				if text := sensing(c); text != "" && !opt.MapOnly {
					fmt.Fprintln(w, text)
				}
				sayExported(w, r)
			})
		},
	}
	measured = measuredFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&opt.Dir, "c", "", "folder to write the C files to")
	f.StringVar(&caseName, "case", "", "case that the model file is for (default: the case it names, if this program has it)")
	f.StringVar(&opt.Method, "method", "", "method to export (default: what the map was compiled for)")
	f.IntVar(&opt.Episodes, "episodes", 100, "episodes to drive the controller through, here and in the test beside the C")
	f.BoolVar(&opt.FMU, "fmu", false, "also write the controller and its plant as FMUs (FMI 2.0, co-simulation)")
	f.BoolVar(&opt.MapOnly, "map-only", false, "write the map alone, without projection and guard")
	f.BoolVar(&opt.Half, "half", false, "store the weights as float16, in half the memory")
	f.IntVar(&opt.Records, "records", 64, "with --map-only: recorded decisions in the test beside the C")
	return cmd
}

func sayExported(w io.Writer, r *export.Result) {
	if r.Method != "" {
		fmt.Fprintf(w, "gpc_%s in %s: the controller %s, unsafe in %d of %d episodes\n", r.Symbol, r.Dir, r.Method, *r.Unsafe, r.Episodes)
		fmt.Fprintf(w, "%d bytes of constants, %d of static memory, %d for a loop, at most %d operations a decision\n", r.ConstantBytes, r.ScratchBytes, r.LoopBytes, r.Operations)
		for _, name := range r.FMU {
			fmt.Fprintf(w, "%s\n", filepath.Join(r.Dir, name))
		}
		return
	}
	fmt.Fprintf(w, "gpc_%s in %s: the map alone, which keeps no limit but the actions' box\n", r.Symbol, r.Dir)
	fmt.Fprintf(w, "%d bytes of constants, %d of static memory, at most %d multiply-adds a decision; %d recorded decisions, float32 within %.2g of float64\n",
		r.ConstantBytes, r.ScratchBytes, r.MulAdds, r.Records, r.RoundingError)
	if r.Half {
		fmt.Fprintf(w, "float16 weights move a plan by up to %.2g; these are in units of the decoder's normalisation\n", r.HalfError)
	}
	if r.Base == "hook" {
		fmt.Fprintf(w, "the program that uses it has to supply gpc_%s_base, the plan that D_u corrects\n", r.Symbol)
	}
}

// exported finds what to export: the bundled map of the case of that name, or the map in
// that file with its case, of which the file's own word opens nothing. The exact controller and a search without a map need none.
func (a *App) exported(name, caseName, method string) (*gpc.Case, *model.Model, error) {
	if method == export.Solver || strings.HasPrefix(method, "search-") {
		if c, err := a.Find(name); err == nil || strings.HasSuffix(name, gpc.SystemSuffix) {
			return c, nil, err
		}
	}
	if filepath.Ext(name) == "" { // a case comes before a file of its name, such as the program itself
		if c, err := a.Find(name); err == nil {
			m, err := c.Model("")
			return c, m, err
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
	if strings.HasSuffix(name, gpc.SystemSuffix) {
		return nil, nil, BadInputf("%s is a system, which has no map: give the map's file and --case %s, or --method nmpc for the exact controller, or, of switched inputs, --method search-N such as search-512. These two need no map", name, name)
	}
	m, err := model.ReadFile(name)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	if caseName != "" {
		c, err := a.Find(caseName)
		return c, m, err
	}
	c, err := a.Named(m.Case)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is a map of another program's case: %w; --case names one, such as the file of its system", name, err)
	}
	return c, m, nil
}
