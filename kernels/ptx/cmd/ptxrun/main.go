// Command ptxrun executes an entry of a PTX text and prints what it computed, what it does
// wrong and what it cost:
//
//	go run ./kernels/ptx/cmd/ptxrun kernels/ptx/testdata/vectorAdd.ptx
//
// It ends with 0, with 1 where something was found, and with 2 on bad input.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
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
	if *n < 1 || *n > 1<<28 {
		return bad(fmt.Errorf("-n %d: want 1 to 2^28", *n))
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
			fmt.Fprintf(out, "buffer %d, %s:%d, %d bytes changed: %s\n", i, b.kind, b.count, changed, elements(now, b.kind, *show))
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

var sizes = map[string]int{"f32": 4, "i32": 4, "f64": 8, "new": 1}

// arguments makes the parameters and the buffers that they point to.
func arguments(m *ptx.Machine, k *ptx.Kernel, given []string, n int) (values []byte, buffers []buffer, err error) {
	if len(given) > 0 && len(given) != len(k.Params) {
		return nil, nil, fmt.Errorf("entry %s takes %d parameters, %d are given", k.Name, len(k.Params), len(given))
	}
	for i, p := range k.Params {
		text := ""
		switch {
		case len(given) > 0:
			text = given[i]
		case p.Kind == 's':
			return nil, nil, fmt.Errorf("parameter %d of %s is a structure of %d bytes: name parameters with -arg", i, k.Name, p.Size)
		case p.Kind == 'f':
			text = "1"
		case p.Size == 8:
			text = fmt.Sprint("f32:", n)
		default:
			text = strconv.Itoa(n)
		}
		values = append(values, make([]byte, p.Offset+p.Size-len(values))...)
		at := values[p.Offset:]
		kind, count, isBuffer := strings.Cut(text, ":")
		switch {
		case isBuffer:
			c, err := strconv.Atoi(count)
			if err != nil || c < 1 || c > 1<<28 || sizes[kind] == 0 || p.Size != 8 {
				return nil, nil, fmt.Errorf("parameter %d, %q: want f32:N, f64:N, i32:N or new:N for a parameter of 8 bytes", i, text)
			}
			b := buffer{at: m.Memory.Alloc(c * sizes[kind]), kind: kind, count: c}
			memory, err := m.Memory.Bytes(b.at, c*sizes[kind], kind != "new")
			if err != nil {
				return nil, nil, err
			}
			for j := range c {
				switch kind {
				case "f32":
					binary.LittleEndian.PutUint32(memory[4*j:], math.Float32bits(float32(j+1)))
				case "i32":
					binary.LittleEndian.PutUint32(memory[4*j:], uint32(j+1))
				case "f64":
					binary.LittleEndian.PutUint64(memory[8*j:], math.Float64bits(float64(j+1)))
				}
			}
			b.was = append([]byte(nil), memory...)
			buffers = append(buffers, b)
			binary.LittleEndian.PutUint64(at, b.at)
		case p.Kind == 'f':
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, nil, fmt.Errorf("parameter %d: %w", i, err)
			}
			if p.Size == 4 {
				binary.LittleEndian.PutUint32(at, math.Float32bits(float32(v)))
			} else {
				binary.LittleEndian.PutUint64(at, math.Float64bits(v))
			}
		case p.Kind == 's':
			return nil, nil, fmt.Errorf("parameter %d of %s is a structure of %d bytes, which a number is not", i, k.Name, p.Size)
		default:
			v, err := strconv.ParseInt(text, 0, 64)
			if err != nil {
				return nil, nil, fmt.Errorf("parameter %d: %w", i, err)
			}
			for j := range p.Size {
				at[j] = byte(v >> (8 * j))
			}
		}
	}
	return values, buffers, nil
}

func elements(b []byte, kind string, most int) string {
	var s []string
	size := sizes[kind]
	if kind == "new" {
		size = 4
	}
	for i := 0; i+size <= len(b) && len(s) < most; i += size {
		switch kind {
		case "f64":
			s = append(s, fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(b[i:]))))
		case "i32":
			s = append(s, fmt.Sprint(int32(binary.LittleEndian.Uint32(b[i:]))))
		default:
			s = append(s, fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))))
		}
	}
	if len(s) < len(b)/size {
		s = append(s, "…")
	}
	return strings.Join(s, " ")
}
