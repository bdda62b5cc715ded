// Command torture attacks the gpc program: it kills commands at random moments, fills the
// disk at each of their writes, flips bits of what they read, lets several write to one
// place, and drives closed loops by maps that are wrong. It prints a table of attacks tried
// and survived, and ends with exit code 1 where one was not survived.
//
// The central type is attack. Every command runs in a process of its own: this binary, told
// by its environment to be the program that cmd/gpc is.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/domains/opf/command"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/paper"
)

// environment tells the binary to be gpc: how many operations on its files have room, −1
// for all.
const environment = "GPC_TORTURE"

// be is the program under attack.
func be(room string) int {
	n, err := strconv.ParseInt(room, 10, 64)
	if err != nil {
		return 3
	}
	durable.Fill(n)
	return cli.Main(&cli.App{
		Catalogue:  paper.Cases(),
		Commands:   []func(*cli.App) *cobra.Command{command.PowerFlow, command.OptimalFlow},
		Operations: command.Operations(),
	})
}

// attack is one row of the table.
type attack struct {
	on, by string
	want   string // what survival is
	tried  int
	lived  int
	lost   []string // what was not survived
}

// count adds one try; why is "" where it was survived.
func (a *attack) count(why string) {
	a.tried++
	if why == "" {
		a.lived++
		return
	}
	a.lost = append(a.lost, why)
}

// size says how much is tried.
type size struct {
	kills, full, flips, loops, writers int
	cases                              []string
}

var (
	whole = size{kills: 40, full: 1 << 10, flips: 120, loops: 12, writers: 12, cases: []string{"opf30", "opf30-uncertain", "integrator-convex", "integrator-nonconvex"}}
	short = size{kills: 2, full: 3, flips: 6, loops: 1, writers: 1, cases: []string{"opf30"}}
)

func main() {
	if room, ok := os.LookupEnv(environment); ok {
		os.Exit(be(room))
	}
	brief := flag.Bool("short", false, "a few of each")
	seed := flag.Uint64("seed", 991, "of moments, bits and maps")
	flag.Parse()
	of := whole
	if *brief {
		of = short
	}
	dir, err := os.MkdirTemp("", "gpc-torture-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	start := time.Now()
	attacks, err := run(dir, of, *seed, os.Stderr)
	os.RemoveAll(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	print(os.Stdout, attacks)
	fmt.Fprintf(os.Stderr, "%.0f s\n", time.Since(start).Seconds())
	for _, a := range attacks {
		if len(a.lost) > 0 {
			os.Exit(1)
		}
	}
}

// print writes the table, and below it what was not survived.
func print(w io.Writer, attacks []*attack) {
	fmt.Fprint(w, "| attack | on | tried | survived | survived is |\n|---|---|---:|---:|---|\n")
	for _, a := range attacks {
		fmt.Fprintf(w, "| %s | %s | %d | %d | %s |\n", a.by, a.on, a.tried, a.lived, a.want)
	}
	for _, a := range attacks {
		for _, why := range a.lost {
			fmt.Fprintf(w, "\nnot survived: %s, %s: %s\n", a.by, a.on, strings.TrimSpace(why))
		}
	}
}

// run makes every attack in a folder.
func run(dir string, of size, seed uint64, log io.Writer) ([]*attack, error) {
	r := &torture{dir: dir, size: of, rng: rand.New(rand.NewPCG(seed, 0)), log: log}
	for _, step := range []func() error{r.prepare, r.kill, r.fill, r.flip, r.crowd, r.mislead} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r.attacks, nil
}
