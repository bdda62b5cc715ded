package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
)

// listed is what `gpc cases` prints.
type listed struct {
	Cases []gpc.Description `json:"cases"`
}

// versionCommand prints what --version does.
func (a *App) versionCommand(build string) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: ExactArgs(0), Hidden: true, RunE: func(*cobra.Command, []string) error {
		return a.Print(map[string]string{"version": build}, func(w io.Writer) { fmt.Fprintf(w, "%s version %s\n", a.Name, build) })
	}}
}

func (a *App) casesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cases",
		Short: "List the cases and systems that commands take, with their dimensions",
		Args:  ExactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			var result listed
			for _, c := range a.All() {
				result.Cases = append(result.Cases, c.Describe())
			}
			return a.Print(result, func(w io.Writer) { a.printCases(w, result.Cases) })
		},
	}
}

// printCases writes a table of each group of cases under its heading; without groups it is one table.
func (a *App) printCases(w io.Writer, cases []gpc.Description) {
	groups := a.Groups
	if len(groups) == 0 {
		groups = []gpc.Group{{}}
	}
	for i, g := range groups {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if g.Name != "" {
			fmt.Fprintf(w, "%s: %s\n", g.Name, g.About)
		}
		rows := [][]string{{"case", "n_x", "n_z", "n_u", "objectives", "steps", "bundled", "description"}}
		for _, r := range cases {
			if r.Group != g.Name {
				continue
			}
			bundled := "no"
			if r.Bundled {
				bundled = "yes"
			}
			rows = append(rows, []string{r.Name, strconv.Itoa(r.NX), strconv.Itoa(r.NZ), strconv.Itoa(r.NU), strconv.Itoa(r.Objectives), strconv.Itoa(r.Steps), bundled, r.Description})
		}
		Table(w, rows)
	}
}
