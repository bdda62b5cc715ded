// Command ptxrun executes an entry of a PTX text and prints what it computed, what it does
// wrong and what it cost:
//
//	go run ./kernels/ptx/cmd/ptxrun kernels/ptx/testdata/vectorAdd.ptx
//
// It ends with 0, with 1 where something was found, and with 2 on bad input.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/kernels/ptx"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `ptxrun [flags] FILE

Executes one entry of a PTX text. Each -arg is the next parameter:

  f32:N          a buffer of N float32, 1, 2, 3 and so on
  f64:N i32:N    the same of float64 and int32
  new:N          a buffer of N bytes that nothing has written
  VALUE          a number, of the parameter's type

Without any -arg a 64-bit parameter is a buffer of -n float32, a float 1, another integer -n.

`

// buffer is memory that a parameter points to.
type buffer struct {
	at    uint64
	kind  string
	count int
	was   []byte
}

func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("ptxrun", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { fmt.Fprint(errs, usage); flags.PrintDefaults() }
	entry := flags.String("entry", "", "entry to run; the only one of the text need not be named")
	n := flags.Int("n", 1000, "elements of buffers without -arg")
	grid := flags.String("grid", "", "blocks, X,Y,Z; as many as give -n threads without it")
	block := flags.String("block", "256", "threads of a block, X,Y,Z")
	shared := flags.Int("shared", 0, "bytes of dynamic shared memory")
	seed := flags.Uint64("seed", 0, "draws the order of warps, and errors of approximate instructions; 0: ascending, none")
	lanes := flags.Bool("lanes", false, "run lanes one at a time")
	show := flags.Int("show", 8, "elements of each changed buffer to print")
	worst := flags.Int("worst", 3, "costly accesses to name")
	var given []string
	flags.Func("arg", "the next parameter, see above", func(s string) error { given = append(given, s); return nil })
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	bad := func(err error) int {
		fmt.Fprintln(errs, "ptxrun:", err)
		return 2
	}
	if flags.NArg() != 1 {
		return bad(fmt.Errorf("%d files named, want one PTX text", flags.NArg()))
	}
	if *n < 1 || *n > 1<<28 || *shared < 0 || *shared > 1<<20 {
		return bad(fmt.Errorf("-n %d, -shared %d: want 1 to 2^28, 0 to 2^20", *n, *shared))
	}
	text, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return bad(err)
	}
	m, err := ptx.Parse(flags.Arg(0), text)
	if err != nil {
		return bad(err)
	}
	if *entry == "" {
		if list := m.Entries(); len(list) != 1 {
			return bad(fmt.Errorf("%s has entries %s: name one with -entry", flags.Arg(0), strings.Join(list, ", ")))
		}
		*entry = m.Entries()[0]
	}
	k, err := m.Kernel(*entry)
	if err != nil {
		return bad(err)
	}
	machine := ptx.NewMachine(ptx.Options{Shared: true, Global: true, Count: true, Seed: *seed, Errors: *seed, Order: map[bool]ptx.Order{false: ptx.Lockstep, true: ptx.Lanes}[*lanes]})
	l := ptx.Launch{Shared: *shared}
	if l.Block, err = extent(*block); err != nil {
		return bad(fmt.Errorf("-block %w", err))
	}
	if *grid == "" {
		threads := l.Block[0] * l.Block[1] * l.Block[2]
		l.Grid = [3]int{(*n + threads - 1) / threads, 1, 1}
	} else if l.Grid, err = extent(*grid); err != nil {
		return bad(fmt.Errorf("-grid %w", err))
	}
	values, buffers, err := arguments(machine, k, given, *n)
	if err != nil {
		return bad(err)
	}
	failed := machine.Launch(k, l, values)
	for i, b := range buffers {
		now, err := machine.Memory.Bytes(b.at, len(b.was), false)
		if err != nil {
			return bad(err)
		}
		changed := 0
		for j := range now {
			if now[j] != b.was[j] {
				changed++
			}
		}
		if changed > 0 {
			fmt.Fprintf(out, "buffer %d, %s:%d, %d bytes changed: %s\n", i, b.kind, b.count, changed, shown(now, b.kind, *show))
		}
	}
	fmt.Fprintln(out)
	if err := ptx.Report(out, machine.Counts()); err != nil {
		return bad(err)
	}
	for _, c := range machine.Counts() {
		c.Worst(out, *worst)
	}
	if failed != nil {
		fmt.Fprintln(errs, failed)
		var fault *ptx.Fault
		var found *ptx.FoundError
		if !errors.As(failed, &fault) && !errors.As(failed, &found) {
			return 2
		}
		return 1
	}
	fmt.Fprintln(out, "nothing found")
	return 0
}

func extent(s string) (e [3]int, err error) {
	e = [3]int{1, 1, 1}
	parts := strings.Split(s, ",")
	if len(parts) > 3 {
		return e, fmt.Errorf("%q: want X,Y,Z", s)
	}
	for i, p := range parts {
		if e[i], err = strconv.Atoi(p); err != nil || e[i] < 1 {
			return e, fmt.Errorf("%q: want X,Y,Z from 1 on", s)
		}
	}
	return e, nil
}

// elements are the kinds of buffers: bytes of an element, its bits, and what the bits say.
var elements = map[string]struct {
	size int
	bits func(v float64) uint64
	show func(bits uint64) any
}{
	"f32": {4, func(v float64) uint64 { return uint64(math.Float32bits(float32(v))) }, func(b uint64) any { return math.Float32frombits(uint32(b)) }},
	"f64": {8, math.Float64bits, func(b uint64) any { return math.Float64frombits(b) }},
	"i32": {4, func(v float64) uint64 { return uint64(uint32(int32(v))) }, func(b uint64) any { return int32(b) }},
	"new": {1, nil, func(b uint64) any { return fmt.Sprintf("%02x", b) }},
}

// put and get are the lowest bytes of a number, the lowest first.
func put(to []byte, v uint64) {
	for i := range to {
		to[i] = byte(v >> (8 * i))
	}
}

func get(from []byte) (v uint64) {
	for i, b := range from {
		v |= uint64(b) << (8 * i)
	}
	return v
}

// arguments makes the parameters and the buffers that they point to.
func arguments(m *ptx.Machine, k *ptx.Kernel, given []string, n int) (values []byte, buffers []buffer, err error) {
	if len(given) > 0 && len(given) != len(k.Params) {
		return nil, nil, fmt.Errorf("entry %s takes %d parameters, %d are given", k.Name, len(k.Params), len(given))
	}
	for i, p := range k.Params {
		text := strconv.Itoa(n)
		switch {
		case len(given) > 0:
			text = given[i]
		case p.Kind == 'f':
			text = "1"
		case p.Size == 8:
			text = fmt.Sprint("f32:", n)
		}
		values = append(values, make([]byte, p.Offset+p.Size-len(values))...)
		v, b, err := argument(m, p, text)
		if err != nil {
			return nil, nil, fmt.Errorf("parameter %d of %s: %w", i, k.Name, err)
		}
		put(values[p.Offset:], v)
		if b.was != nil {
			buffers = append(buffers, b)
		}
	}
	return values, buffers, nil
}

// argument makes one parameter, with the buffer that it points to.
func argument(m *ptx.Machine, p ptx.Param, text string) (bits uint64, b buffer, err error) {
	kind, count, isBuffer := strings.Cut(text, ":")
	switch {
	case p.Kind == 's':
		return 0, b, fmt.Errorf("a structure of %d bytes, which no argument is", p.Size)
	case isBuffer:
		e := elements[kind]
		c, err := strconv.Atoi(count)
		if err != nil || c < 1 || c > 1<<28 || e.size == 0 || p.Size != 8 {
			return 0, b, fmt.Errorf("%q: want f32:N, f64:N, i32:N or new:N for a parameter of 8 bytes", text)
		}
		b = buffer{at: m.Memory.Alloc(c * e.size), kind: kind, count: c}
		memory, err := m.Memory.Bytes(b.at, c*e.size, kind != "new")
		for j := range c {
			if e.bits != nil {
				put(memory[j*e.size:][:e.size], e.bits(float64(j+1)))
			}
		}
		b.was = slices.Clone(memory)
		return b.at, b, err
	case p.Kind == 'f' && p.Size >= 4:
		v, err := strconv.ParseFloat(text, 64)
		return elements[fmt.Sprint("f", 8*p.Size)].bits(v), b, err
	}
	v, err := strconv.ParseInt(text, 0, 64)
	return uint64(v), b, err
}

// shown are the first elements of a buffer.
func shown(memory []byte, kind string, most int) string {
	var s []string
	size := elements[kind].size
	for i := 0; i+size <= len(memory) && len(s) < most; i += size {
		s = append(s, fmt.Sprint(elements[kind].show(get(memory[i:i+size]))))
	}
	if len(s) < len(memory)/size {
		s = append(s, "…")
	}
	return strings.Join(s, " ")
}
