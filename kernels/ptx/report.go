package ptx

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report writes what kernels did as a table: instructions of warps by class, how much of the
// warps was active, divergent branches, and what shared and global memory cost beside what
// the same bytes need.
func Report(out io.Writer, list []*Counts) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kernel\tlaunches\tblocks\tthreads\tinstructions of warps\tlanes\tfloat32\tfloat64\tinteger\ttensor\tspecial\tother\tbranches\tthat part\tshared KB\trequests\tover least\tglobal KB\tsectors\tover least\tlocal KB\tbarriers\t")
	for _, c := range list {
		var warps, lanes uint64
		for i := range classes {
			warps, lanes = warps+c.Warps[i], lanes+c.Lanes[i]
		}
		share := func(list ...Class) string {
			var n uint64
			for _, i := range list {
				n += c.Warps[i]
			}
			return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(max(warps, 1)))
		}
		s, g, l := c.Spaces["shared"], c.Spaces["global"], c.Spaces["local"]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.1f%%\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%s\t%d\t%d\t%s\t%d\t%d\t\n", c.Kernel, c.Launches, c.Blocks, c.Threads, warps,
			100*float64(lanes)/float64(32*max(warps, 1)), share(ClassFloat32), share(ClassFloat64), share(ClassInteger, ClassConvert), share(ClassTensor), share(ClassSpecial),
			share(ClassMove, ClassCompare, ClassControl, ClassShared, ClassGlobal, ClassLocal, ClassParameter, ClassShuffle, ClassBarrier),
			c.Branches, percent(c.Divergent, c.Branches), s.Bytes>>10, s.Transactions, ratio(s), g.Bytes>>10, g.Transactions, ratio(g), l.Bytes>>10, c.Barriers)
	}
	return w.Flush()
}

func percent(part, whole uint64) string {
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(max(whole, 1)))
}

func ratio(s Space) string {
	if s.Minimal == 0 {
		return "–"
	}
	return fmt.Sprintf("×%.2f", float64(s.Transactions)/float64(s.Minimal))
}

// Worst writes the instructions of a kernel whose accesses cost the most beyond what their
// bytes need, at most n of each of shared and global memory.
func (c *Counts) Worst(out io.Writer, n int) {
	for _, class := range []Class{ClassShared, ClassGlobal} {
		unit := map[Class]string{ClassShared: "requests", ClassGlobal: "sectors"}[class]
		var costly []int
		for i, t := range c.tallies {
			if instruction := &c.kernel.code[i]; instruction.class == class && instruction.access != nil && t.transactions > t.minimal {
				costly = append(costly, i)
			}
		}
		slices.SortFunc(costly, func(a, b int) int {
			return cmp.Compare(c.tallies[b].transactions-c.tallies[b].minimal, c.tallies[a].transactions-c.tallies[a].minimal)
		})
		for _, i := range costly[:min(n, len(costly))] {
			t, instruction := c.tallies[i], &c.kernel.code[i]
			fmt.Fprintf(out, "%s: %s: %s: %d %s for %d that the bytes need, in %d instructions of warps\n", c.Kernel, c.kernel.location(instruction), strings.TrimSpace(instruction.op), t.transactions, unit, t.minimal, t.warps)
		}
	}
}
