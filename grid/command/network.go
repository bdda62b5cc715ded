package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/formats"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/interrupt"
)

// networkArgument describes the network argument of commands.
func networkArgument() string {
	text := `FILE.m is a MATPOWER case file, version 2, or "-" for standard input. Other
endings are read too: .raw of PSS/E (versions 30 to 35), .cdf of IEEE, .mat of MATLAB,
and .json of PowerModels. These names stand for networks inside the program:
`
	wide := helpWidth
	for _, name := range cases.Names() {
		if wide += len(name) + 1; wide > helpWidth {
			text, wide = text+"\n ", len(name)+2
		}
		text += " " + name
	}
	return text
}

// helpWidth is the width of a line of help.
const helpWidth = 80

// readNetwork reads the case of an argument and takes the equipment in service. It names unused data of the file on
// stderr.
func readNetwork(ctx context.Context, a *cli.App, argument string) (*matpower.Case, *network.Network, error) {
	c, err := readCase(ctx, a, argument)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	if len(c.Ignored) > 0 {
		var names []string
		for _, f := range c.Ignored {
			names = append(names, fmt.Sprintf("%s (line %d)", f.Name, f.Line))
		}
		fmt.Fprintf(a.Stderr, "%s: not used: %s\n", argument, strings.Join(names, ", "))
	}
	n, err := network.New(c)
	if err != nil {
		return nil, nil, gpc.BadInput(err)
	}
	for _, note := range n.Notes() {
		fmt.Fprintf(a.Stderr, "%s: %s\n", argument, note)
	}
	return c, n, nil
}

// oneNetwork accepts one network. Its error for several, or for a folder, names the command that takes them.
func oneNetwork(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && severalNetworks(args) {
		return cli.BadInputf("%s takes one network; a table of several, or of a folder, is `%s opf batch`", cmd.CommandPath(), cmd.Root().Name())
	}
	return cli.ExactArgs(1)(cmd, args)
}

// suggestCommand lets a command and its subcommands name the command that has a flag they lack.
func suggestCommand(cmd *cobra.Command, commands map[string]string) {
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			name := unknown.GetSpecifiedName()
			if to, ok := commands[name]; ok && c.CommandPath() != c.Root().Name()+" "+to {
				return cli.BadInputf("%s has no --%s; `%s %s` is a command of its own", c.CommandPath(), name, c.Root().Name(), to)
			}
		}
		return c.Root().FlagErrorFunc()(c, err)
	})
}

// checkScale refuses an invalid factor on loads.
func checkScale(scale float64) error {
	if !(scale >= 0) || math.IsInf(scale, 1) {
		return cli.BadInputf("--scale %g: want a number of 0 or more", scale)
	}
	return nil
}

// aboveZero refuses a flag's number that is 0, below it, or infinite.
func aboveZero(flag string, v float64) error {
	if !(v > 0) || math.IsInf(v, 1) {
		return cli.BadInputf("--%s %g: want a number above 0", flag, v)
	}
	return nil
}

func readCase(ctx context.Context, a *cli.App, argument string) (*matpower.Case, error) {
	if argument == "-" {
		return matpower.Read("stdin", a.Stdin)
	}
	f, err := os.Open(argument)
	if errors.Is(err, fs.ErrNotExist) {
		c, unknown := cases.Read(argument)
		if unknown == nil {
			return c, nil
		}
		if name := strings.TrimSuffix(filepath.Base(argument), ".m"); name != argument {
			if _, embedded := cases.Text(name); embedded == nil {
				return nil, fmt.Errorf("%w; to use the network inside the program, give its name alone: %s", err, name)
			}
		}
		return nil, fmt.Errorf("%w, and %w", err, unknown)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return formats.Read(argument, interrupt.Reader(ctx, f))
}
