package cli

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/version"
)

// moduleResult is what `gpc new` prints.
type moduleResult struct {
	Dir     string   `json:"dir"`     // folder of the module
	Name    string   `json:"name"`    // of the case, the program and the module
	Files   []string `json:"files"`   // written
	Require string   `json:"require"` // module and version of gpc that go.mod requires
	Replace string   `json:"replace"` // checkout that go.mod replaces it by; "" for none
}

func (a *App) newCommand() *cobra.Command {
	var m starter
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Begin a system of your own, as a Go module that runs before you edit it",
		Long: `Writes a Go module into DIR, which must be new or empty. The module is a complete
small system (a crane) with its test, its command line, and a README of the commands
to run. Then edit system.go; docs/tutorials/your-system.md explains it.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			m.Name = cmp.Or(m.Name, filepath.Base(dir))
			var published bool
			if m.Version, published = version.Module(modulePath); m.Source != "" {
				published = true
			}
			if err := m.validate(); err != nil {
				return BadInputf("new: %w", err)
			}
			if err := durable.ProbeFolder(dir); err != nil {
				return BadInputf("new: %w", err)
			}
			files, err := m.write(args[0])
			if err != nil {
				return BadInputf("new: %w", err)
			}
			result := moduleResult{dir, m.Name, files, modulePath + " " + m.Version, m.Source}
			return a.Print(result, func(w io.Writer) {
				fmt.Fprintf(w, "%s: the module %s, a crane to edit:", args[0], m.path())
				for _, f := range files {
					fmt.Fprint(w, " ", f)
				}
				fmt.Fprintln(w)
				if !published {
					fmt.Fprintf(w, "This %s was built from a checkout, so that %s of it may be nowhere to download. First, with the folder of that checkout for CHECKOUT:\n  cd %s && go mod edit -replace %s=CHECKOUT\n", a.Name, m.Version, args[0], modulePath)
				}
				fmt.Fprintf(w, "Next:\n  cd %s && go mod tidy && go test\n", args[0])
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Name, "name", "", "name of the system, the program and the module (default: the name of DIR)")
	f.StringVar(&m.Source, "source", "", "folder of a checkout of gpc, which the go.mod of the module then uses (default: the published version)")
	return cmd
}
