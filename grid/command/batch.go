package command

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
)

// batch solves several files, or those of folders.
type batch struct {
	optimalFlags
	app       *cli.App
	published string // file; "" searches the networks' folders
	record    string // file; "" for none
	limit     machine.Limit
}

// batchCommand is gpc opf batch.
func batchCommand(a *cli.App) *cobra.Command {
	y := batch{optimalFlags: newOptimalFlags(), app: a}
	cmd := &cobra.Command{
		Use:   "batch FILE.m|FOLDER...",
		Short: "Optimal power flows of several networks, or of a folder, as a table",
		Long: `Solves several networks, or those of a folder, and prints a table, the smallest file
first. It has the objective, the gap to the published value (--published, or
BASELINE.md in the folder), iterations and the time of the first solve. It also has
the largest violation of a limit by a power flow of the dispatch.

--record keeps each row in a file: run the same command to continue.

Exit code 1 says that at least one network has no optimum.`,
		Example: "  " + a.Name + " opf batch pglib-opf --record pglib.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.BadInputf("%s takes a network or more, got none; usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := y.check(a); err != nil {
				return err
			}
			r, err := y.run(cmd.Context(), args)
			if err != nil {
				return err
			}
			missed := slices.ContainsFunc(r.Networks, func(n optima.Network) bool { return !n.Optimal() })
			return a.PrintChecked(!missed, r, optimaPrinted(r))
		},
	}
	f := cmd.Flags()
	f.StringVar(&y.published, "published", "", "`FILE` with tables of published optima (default: "+publishedTable+" in a folder)")
	f.StringVar(&y.record, "record", "", "`FILE.json` to keep the results in; a network in it is not solved again")
	f.Float64Var(&y.limit.Load, "max-load", 0, "exit with code 1 if the load average of the machine is above this before or after (default: no limit)")
	f.BoolVar(&y.limit.Any, "any-load", false, "continue above --max-load, and note it in the record")
	y.ruleFlag(f)
	y.scaleFlag(f)
	y.startsFlag(f)
	y.solverFlags(f)
	return cmd
}

// severalNetworks says whether arguments are more than one case.
func severalNetworks(args []string) bool {
	if len(args) != 1 {
		return true
	}
	info, err := os.Stat(args[0])
	return err == nil && info.IsDir()
}

// networkFile is a case file of a batch.
type networkFile struct {
	path string
	size int64
}

// expand lists the files of arguments and folders, the smallest first, and the table of published values in one of
// the folders.
func expand(args []string) (files []networkFile, published string, err error) {
	names := map[string]string{}
	add := func(path string, size int64) error {
		name := caseName(path)
		if first, twice := names[name]; twice {
			return fmt.Errorf("%s and %s have the same name, want files with different names", first, path)
		}
		names[name] = path
		files = append(files, networkFile{path, size})
		return nil
	}
	for _, argument := range args {
		info, err := os.Stat(argument)
		if err != nil || !info.IsDir() {
			size := int64(0) // of a built-in network; reading reports other faults
			if err == nil {
				size = info.Size()
			}
			if err := add(argument, size); err != nil {
				return nil, "", err
			}
			continue
		}
		before := len(files)
		err = filepath.WalkDir(argument, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Name() == publishedTable && published == "" {
				published = path
			}
			if d.IsDir() || filepath.Ext(path) != ".m" {
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			return add(path, info.Size())
		})
		if err != nil {
			return nil, "", err
		}
		if len(files) == before {
			return nil, "", fmt.Errorf("the folder %s has no case file (.m)", argument)
		}
	}
	slices.SortStableFunc(files, func(a, b networkFile) int { return cmp.Compare(a.size, b.size) })
	return files, published, nil
}

// baseNames are the last elements of paths.
func baseNames(paths []string) (names []string) {
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

func caseName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".m") }

// run solves the files one after another and updates the record after each.
func (y *batch) run(ctx context.Context, args []string) (*optima.OptimalFlows, error) {
	files, foundTable, err := expand(args)
	if err != nil {
		return nil, gpc.BadInput(err)
	}
	r := &optima.OptimalFlows{Device: fmt.Sprintf("%s, %d threads", runtime.GOARCH, runtime.GOMAXPROCS(0)), Commit: version.Build(),
		Command: y.app.Name + " opf batch " + strings.Join(baseNames(args), " "), Threads: max(1, y.opt.Threads), Networks: []optima.Network{}}
	if e, err := gpc.OpenEngine(engine.Options{Threads: 1}); err == nil {
		r.Device = e.Device()
		e.Close()
	}
	continued := false
	if y.record != "" {
		lock, err := durable.Acquire(y.record)
		if err != nil {
			return nil, cli.BadInputf("--record: %w", err)
		}
		defer lock.Release()
		old, err := optima.ReadOptimalFlows(y.record)
		switch {
		case err != nil:
			return nil, cli.BadInputf("--record: %w", err)
		case old != nil && old.Commit != r.Commit:
			return nil, cli.BadInputf("--record %s: build %s wrote it, this program is build %s: remove the file, or name another", y.record, old.Commit, r.Commit)
		case old != nil:
			r.Networks, continued = slices.DeleteFunc(old.Networks, func(n optima.Network) bool { return n.Status == notRead }), len(old.Networks) > 0
		}
	}
	values := map[string]publishedValue{}
	if table := cmp.Or(y.published, foundTable); table != "" {
		if values, err = readPublished(table); err != nil {
			return nil, cli.BadInputf("--published: %w", err)
		}
		r.Published = filepath.Base(table)
	}
	watch, err := machine.Begin(y.limit)
	if err != nil {
		return nil, err
	}
	var remainingSize int64
	keys := map[string]string{}
	for _, f := range files {
		n := y.unsolved(f, values)
		if keys[n.Name] = n.Key; r.Of(n.Name) == nil {
			remainingSize += f.size
		}
	}
	for _, n := range r.Networks {
		if keys[n.Name] != n.Key {
			return nil, cli.BadInputf("--record %s: network %s in it is of another file, option or published value: name another record", y.record, n.Name)
		}
	}
	var doneSize int64
	start := time.Now()
	for i, f := range files {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		name := caseName(f.path)
		if r.Of(name) != nil {
			continue
		}
		n, err := y.solveOne(ctx, f, values)
		if err != nil {
			return nil, err
		}
		r.Networks = append(r.Networks, *n)
		if n.Status == notRead {
			remainingSize -= f.size // its time does not predict the others
			fmt.Fprintf(y.app.Stderr, "[%d/%d] %s: %s\n", i+1, len(files), name, n.Status)
		} else {
			doneSize += f.size
			fmt.Fprintf(y.app.Stderr, "[%d/%d] %s: %s, %s, %.3g s%s\n", i+1, len(files), name, n.Status, count(n.Iterations, "iteration"), n.WallMS/1e3,
				remaining(time.Since(start), doneSize, remainingSize))
		}
		if y.record != "" {
			if err := r.Write(y.record); err != nil {
				return nil, err
			}
		}
	}
	load, err := watch.End()
	if err != nil {
		return nil, err
	}
	if r.Load = load; load != nil {
		r.Load.Partial = continued
	}
	if y.record != "" {
		return r, r.Write(y.record)
	}
	return r, nil
}

// remaining estimates the remaining time from the files' sizes.
func remaining(elapsed time.Duration, doneSize, total int64) string {
	if doneSize == 0 || doneSize >= total {
		return ""
	}
	return fmt.Sprintf(", about %v left", (time.Duration(float64(elapsed)*float64(total-doneSize)/float64(doneSize)) + time.Second/2).Truncate(time.Second))
}

// notRead is the status of a network that was not solved, such as a file with a mistake.
const notRead = "not read"

// unsolved is a network that is not read yet, with the key of what its row depends on.
func (y *batch) unsolved(f networkFile, values map[string]publishedValue) *optima.Network {
	out := &optima.Network{Name: caseName(f.path), Status: notRead}
	if v, ok := values[out.Name]; ok {
		out.Published = &v.objective
		if v.seconds != nil {
			out.PeerMS = new(1e3 * *v.seconds)
		}
	}
	var content []byte
	if f.size > 0 { // 0: of a built-in network, or of a pipe
		content, _ = os.ReadFile(f.path) // solve has the error
	}
	published, _ := finite.Marshal(out)
	out.Key = durable.Sum(sha256.Sum256(fmt.Appendf(content, "%s %+v %v %v", published, y.opt, y.scale, y.starts)))
	return out
}

// solveOne reads, solves and checks a network. The result reports faults of the file; an error means that the
// context ended.
func (y *batch) solveOne(ctx context.Context, f networkFile, values map[string]publishedValue) (*optima.Network, error) {
	out := y.unsolved(f, values)
	err := y.solve(ctx, f.path, out)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		out.Reason = err.Error()
	}
	return out, nil
}

// solve is the part of solveOne whose error is a reason.
func (y *batch) solve(ctx context.Context, path string, out *optima.Network) error {
	runtime.GC() // of the previous network; its workers stay in a pool for one more collection
	debug.FreeOSMemory()
	forgetPeak()
	c, err := readCase(ctx, y.app, path)
	if err != nil {
		return err
	}
	n, err := network.New(c)
	if err != nil {
		return err
	}
	out.Buses, out.Units, out.Branches = n.Buses(), n.Gens(), n.Branches()
	if out.Note, err = n.DispatchableNote(y.opt.Dispatchable); err != nil {
		return err
	}
	start := time.Now()
	s, err := acopf.New(n, y.opt)
	if err != nil {
		return err
	}
	out.SetupMS = milliseconds(time.Since(start))
	var pr acopf.Problem
	pr.Pd, pr.Qd = n.Loads(y.scale)
	ends, best, r, err := solveFrom(ctx, s, pr, y.starts)
	if err != nil {
		return err
	}
	out.PeakMB = peak()
	out.Status, out.Reason = r.Status.String(), r.Reason()
	for _, end := range ends[:best+1] {
		out.Iterations, out.WallMS, out.CPUMS = out.Iterations+end.Iterations, out.WallMS+end.WallMS, out.CPUMS+end.CPUMS
	}
	if len(ends) > 1 {
		out.Starts = ends
	}
	if r.Status != acopf.Optimal {
		return nil
	}
	out.Objective = &r.Objective
	if out.Published != nil && *out.Published != 0 {
		out.Gap = new((r.Objective - *out.Published) / math.Abs(*out.Published))
	}
	if v, err := verify(ctx, n, pr.Pd, pr.Qd, r); err != nil {
		out.Violated = err.Error()
	} else {
		out.Violation, out.Violated, out.Difference = &v.excess, v.limit, &v.difference
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// forgetPeak and peak measure the peak memory of the process since forgetPeak, MB; 0 where the system does not
// report it.
func forgetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

func peak() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			if err != nil {
				return 0
			}
			return math.Round(kb / 1024)
		}
	}
	return 0
}

// optimaPrinted writes the table of a record.
func optimaPrinted(r *optima.OptimalFlows) func(w io.Writer) {
	number := func(format string, v *float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf(format, *v)
	}
	return func(w io.Writer) {
		rows := [][]string{{"network", "buses", "status", "objective $/h", "published", "gap", "iterations", "seconds", "violation pu"}}
		var iterations []int
		optimal, compared, close := 0, 0, 0
		var reasons []string
		for _, n := range r.Networks {
			if n.Optimal() {
				optimal++
				iterations = append(iterations, n.Iterations)
			} else if n.Reason != "" {
				reasons = append(reasons, n.Name+": "+n.Reason)
			}
			if n.Published != nil {
				compared++
				if n.Gap != nil && *n.Gap <= publishedDigits {
					close++
				}
			}
			buses, iterations, seconds := strconv.Itoa(n.Buses), strconv.Itoa(n.Iterations), fmt.Sprintf("%.3g", n.WallMS/1e3)
			if n.Status == notRead {
				buses, iterations, seconds = "–", "–", "–"
			}
			rows = append(rows, []string{n.Name, buses, n.Status, number("%.6g", n.Objective), number("%.6g", n.Published), number("%+.1e", n.Gap),
				iterations, seconds, number("%.1e", n.Violation)})
		}
		cli.Table(w, rows)
		fmt.Fprintf(w, "%d of %d optimal", optimal, len(r.Networks))
		if compared > 0 {
			fmt.Fprintf(w, "; %d of %d at the published optimum or below it (to %.0e of it)", close, compared, publishedDigits)
		}
		if len(iterations) > 0 {
			slices.Sort(iterations)
			fmt.Fprintf(w, "; median %d iterations, at most %d", iterations[len(iterations)/2], iterations[len(iterations)-1])
		}
		fmt.Fprintln(w)
		for _, reason := range reasons {
			fmt.Fprintln(w, reason)
		}
	}
}

// publishedDigits is the relative difference from a published value, which has five digits, up to which an optimum
// counts as equal.
const publishedDigits = 1e-4
