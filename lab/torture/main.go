// Command torture attacks the gpc program: it kills commands at random moments, fills the
// disk at each of their writes, flips bits of what they read, lets several write to one
// place, and drives closed loops by maps that are wrong. It prints a table of attacks tried
// and survived, and ends with exit code 1 where one was not survived.
//
// The central type is attack. Every command runs in a process of its own: this binary, told
// by its environment to be the program that cmd/gpc is. What was made stands beside the
// record, and the same command goes on from it.
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

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/internal/bundled/program"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/peerrecord"
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
	return cli.Main(program.App())
}

// size says how much is tried.
type size struct {
	kills, full, flips, loops, writers int
	cases                              []string
}

var (
	whole = size{kills: 44, full: 1 << 10, flips: 60, loops: 6, writers: 8, cases: []string{"opf30", "opf30-uncertain", "integrator-convex", "integrator-nonconvex"}}
	short = size{kills: 2, full: 3, flips: 6, loops: 1, writers: 1, cases: []string{"opf30"}}
)

func main() {
	if room, ok := os.LookupEnv(environment); ok {
		os.Exit(be(room))
	}
	brief := flag.Bool("short", false, "a few of each")
	seed := flag.Uint64("seed", 991, "of moments, bits and maps")
	out := flag.String("out", "", "`file` for the record, such as lab/results/NAME/torture.json")
	flag.Parse()
	of := whole
	if *brief {
		of = short
	}
	watch, err := machine.Begin(machine.Limit{}) // moments of kills depend on the load; nothing else does
	if err != nil {
		fail(err)
	}
	dir, err := os.MkdirTemp("", "gpc-torture-")
	if err != nil {
		fail(err)
	}
	record, part := peerrecord.Torture{Device: cpuid.CPU.BrandName, Commit: version.Build(), Seed: *seed, Short: *brief}, ""
	if *out != "" {
		part = *out + ".part"
	}
	err = run(dir, of, os.Stderr, &record, part)
	os.RemoveAll(dir)
	if err != nil {
		fail(err)
	}
	if record.Load, err = watch.End(); err != nil {
		fail(err)
	}
	cli.Table(os.Stdout, record.Rows())
	if err := write(*out, &record); err != nil {
		fail(err)
	}
	_ = os.Remove(part) // there is none without a record
	survived := true
	for _, a := range record.Attacks {
		survived = survived && a.Survived == a.Tried
		for _, why := range a.Lost {
			fmt.Fprintf(os.Stderr, "not survived: %s, %s: %s\n", a.By, a.On, strings.TrimSpace(why))
		}
	}
	if !survived {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "torture:", err)
	os.Exit(1)
}

// write replaces the record in a file; "": it is not kept.
func write(file string, record *peerrecord.Torture) error {
	if file == "" {
		return nil
	}
	return durable.WriteJSON(file, record, "  ")
}

// run makes every attack in a folder, but those that an interrupted run of the same program left in part.
func run(dir string, of size, log io.Writer, record *peerrecord.Torture, part string) error {
	r := &torture{dir: dir, size: of, rng: rand.New(rand.NewPCG(record.Seed, 1<<32)), log: log, record: record, part: part, start: time.Now()}
	if known, err := durable.ReadJSON[peerrecord.Torture](part); err == nil && known != nil && known.Commit == record.Commit && known.Seed == record.Seed && known.Short == record.Short {
		r.known, r.start = known.Attacks, r.start.Add(-time.Duration(known.Seconds*float64(time.Second)))
	}
	for _, step := range []func() error{r.prepare, r.kill, r.fill, r.flip, r.crowd, r.mislead} {
		if err := step(); err != nil {
			return err
		}
	}
	record.Seconds = time.Since(r.start).Seconds()
	return nil
}
