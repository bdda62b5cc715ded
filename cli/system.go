package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/internal/durable"
)

// writtenSystem is what `gpc system` prints.
type writtenSystem struct {
	Case       string `json:"case"`           // its name
	SHA256     string `json:"sha256"`         // of the file's canonical bytes ([system-file.md](system-file.md#identity))
	Problem    string `json:"problem_sha256"` // what its maps have to have
	Functions  int    `json:"functions"`      // of its program
	Operations int    `json:"operations"`     // of these
	Bytes      int    `json:"bytes"`          // of the file
	Out        string `json:"out,omitempty"`  // file written; absent where none was asked for
}

func (a *App) systemCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "system CASE [--out FILE]",
		Short: "Write a system of equations as a file, or check such a file",
		Long: `A system file holds names, ranges, episodes, hints and the functions of a system
(docs/reference/system-file.md). Commands such as compile, eval and serve take its
name, which ends in .json, in place of a case, so you need no Go. CASE is a system of
equations to write as a file with --out, or a system file to check.`,
		Args: ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.meter.begin("open " + args[0])
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			f, err := c.System()
			if err != nil {
				return err
			}
			text, err := f.Marshal()
			if err != nil {
				return err
			}
			identity, err := f.Identity()
			if err != nil {
				return err
			}
			r := writtenSystem{Case: f.Name(), SHA256: durable.Sum(identity), Problem: c.Describe().ProblemSHA256, Bytes: len(text), Out: out}
			for _, g := range f.Program().Functions {
				r.Functions, r.Operations = r.Functions+1, r.Operations+g.Operations()
			}
			if out != "" {
				if err := CheckOutputs([]durable.File{{Name: "--out", Path: out}}, []durable.File{{Name: "the system", Path: args[0]}}); err != nil {
					return err
				}
				if err := durable.WriteFile(out, append(text, '\n'), 0o644); err != nil {
					return err
				}
			}
			return a.Print(r, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d functions, %d operations, %d bytes, sha256 %s\n", r.Case, r.Functions, r.Operations, r.Bytes, r.SHA256)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write, such as crane.json")
	return cmd
}
