package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/names"
)

// methods is what `gpc methods` prints.
type methods struct {
	Case    string                  `json:"case"`     // its name
	Spec    gpc.SpecDescription     `json:"spec"`     // the vectors of its problem
	MapSpec gpc.SpecDescription     `json:"map_spec"` // of what its map is about: the same, but for cases whose map is about a part of the scene
	Methods []gpc.MethodDescription `json:"methods"`
}

func (a *App) methodsCommand() *cobra.Command {
	var groups []string
	var bare, bundled, all bool
	cmd := &cobra.Command{
		Use:   "methods CASE",
		Short: "List the methods of a case to choose from; --all lists every one that --method takes",
		Args:  ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			if err := unique("--group", groups); err != nil {
				return err
			}
			for _, g := range groups {
				if !slices.Contains(domain.Groups, g) {
					return BadInputf("--group %q%s (want some of %s)", g, names.Meant(g, domain.Groups), strings.Join(domain.Groups, ", "))
				}
			}
			result := methods{Case: c.Name(), Spec: gpc.DescribeSpec(c.Spec()), MapSpec: gpc.DescribeSpec(c.MapSpec()), Methods: []gpc.MethodDescription{}}
			for _, m := range c.DescribeMethods() {
				if (len(groups) == 0 || slices.Contains(groups, m.Group)) && !(bundled && m.Weights) {
					result.Methods = append(result.Methods, m)
				}
			}
			return a.Print(result, func(w io.Writer) {
				listed := result.Methods
				if !all && len(groups) == 0 {
					listed = slices.DeleteFunc(slices.Clone(listed), func(m gpc.MethodDescription) bool { return !m.Shown })
				}
				if bare {
					for _, m := range listed {
						fmt.Fprintln(w, m.Name)
					}
					return
				}
				rows := [][]string{{"method", "group", "needs", "description"}}
				for _, m := range listed {
					needs := "–"
					switch {
					case m.Map:
						needs = "a map"
					case m.Weights:
						needs = "--model FILE"
					}
					rows = append(rows, []string{m.Name, m.Group, needs, m.About})
				}
				Table(w, rows)
				if more := len(result.Methods) - len(listed); more > 0 {
					fmt.Fprintf(w, "%d more with --all: ablations, learned policies, yardsticks and variants\n", more)
				}
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every method, not only those to choose from; --group and --json have every one, too")
	cmd.Flags().StringSliceVar(&groups, "group", nil, "only these `groups`: "+strings.Join(domain.Groups, ", "))
	cmd.Flags().BoolVar(&bundled, "bundled", false, "only those that need no file of weights of their own")
	cmd.Flags().BoolVar(&bare, "names", false, "names alone, one a line")
	return cmd
}
