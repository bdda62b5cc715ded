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

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/interrupt"
)

// networkArgument is what commands that take a network say about it.
func networkArgument() string {
	text := `FILE.m is a MATPOWER case file, version 2, or "-" for standard input. These names
stand for networks inside the program:
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

// helpWidth is the columns of a line of help.
const helpWidth = 80

// readNetwork reads the case an argument names and takes what is in service.
// What the file says and the program does not use is named on stderr.
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
	return matpower.Read(argument, interrupt.Reader(ctx, f))
}
