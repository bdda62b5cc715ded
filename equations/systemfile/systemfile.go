// Package systemfile stores a system of equations in one file: names, units, ranges, episodes, hints for training,
// and its functions as a program.
//
// The central type is File. Of writes a system whose Go text is known, and Unmarshal reads a file. Case makes the
// same case as equations.System makes of Go functions. Objectives, margins and steps are equal to the bit where Go does
// not fuse operations. docs/reference/system-file.md describes every field.
package systemfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Format and version of a file.
const (
	format  = "gpc-system"
	version = 1
)

// Bounds of a file. Those of its program are package program's.
const (
	maxBytes  = 1<<26 + maxHeader
	maxHeader = 1 << 22 // bytes of everything but the program
)

// File is a system read from, or ready for, a file. It is immutable.
type File struct {
	header  header
	program *program.Program
}

// Of is the file of a system whose text is known (equations.System.Source). It leaves out Picture, Plants, and a
// Measurement of a Go function, with bounds of states, or of unknown gains.
func Of(p *equations.Problem) (*File, error) {
	read, err := p.OwnProgram()
	if err != nil {
		return nil, err
	}
	y, f := p.System(), &File{program: read}
	if f.header, err = headerOf(&y); err != nil {
		return nil, err
	}
	share, _ := p.UncertainGains()
	if m := y.Measurement; m != nil && m.Lo == nil && share == 0 && m.States == nil && (m.Real == nil || read.Function(outputsFunction) != nil) {
		f.header.Measurement = measurementOf(m, y.Context)
	}
	return f, f.validate()
}

// Name is the system's.
func (f *File) Name() string { return f.header.Name }

// Program is the system's functions.
func (f *File) Program() *program.Program { return f.program }

// Marshal is the file's canonical form in bytes, of which Identity is the hash.
func (f *File) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&f.header); err != nil {
		return nil, err
	}
	text, err := f.program.Marshal()
	if err != nil {
		return nil, err
	}
	b.Truncate(bytes.LastIndexByte(b.Bytes(), '}'))
	b.WriteString(`,"program":`)
	b.Write(text)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Identity is the SHA-256 of Marshal.
func (f *File) Identity() ([32]byte, error) {
	text, err := f.Marshal()
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(text), nil
}

// ReadFile is Unmarshal of a regular file; it does not wait for a pipe. Its errors name the file.
func ReadFile(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	f, err := Unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// Unmarshal reads a file's bytes. Every field must match docs/reference/system-file.md. An error names the place,
// such as state[2].lo or program: functions[0].code[17].
func Unmarshal(text []byte) (*File, error) {
	f, err := unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	return f, nil
}

func unmarshal(text []byte) (*File, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("more than %d bytes", maxBytes)
	}
	fields, err := jsonin.Object(text, "file", `{"format": "`+format+`", …}`)
	if err != nil {
		return nil, err
	}
	if err := recognise(fields); err != nil {
		return nil, err
	}
	code, ok := fields["program"]
	if !ok {
		return nil, errors.New("program is missing")
	}
	delete(fields, "program")
	rest, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if len(rest) > maxHeader {
		return nil, fmt.Errorf("%d bytes beside the program, want at most %d", len(rest), maxHeader)
	}
	f := &File{}
	if err := jsonin.Exact(rest, &f.header); err != nil {
		return nil, err
	}
	if f.header.Constants != nil {
		var b bytes.Buffer // without its spaces
		if err := json.Compact(&b, f.header.Constants); err != nil {
			return nil, fmt.Errorf("constants: %w", err)
		}
		f.header.Constants = b.Bytes()
	}
	if f.program, err = program.Unmarshal(code); err != nil {
		return nil, err
	}
	err = f.validate()
	if i := f.header.Integrator; err == nil && i != nil && i.Substeps == dual.Auto {
		p, err := equations.New(f.System())
		if err != nil {
			return nil, err
		}
		i.Substeps, i.Error = substeps(p.Substeps()), 0 // the canonical form holds the number
		return f, f.validate()
	}
	return f, err
}

// recognise refuses files of another kind or version first.
func recognise(fields jsonin.Fields) error {
	if kind := string(fields["format"]); kind != `"`+format+`"` {
		return fmt.Errorf("format is %.64s, want %q", or(kind, "missing"), format)
	}
	if number := string(fields["version"]); number != fmt.Sprint(version) {
		return fmt.Errorf("version is %.64s, this program reads %d", or(number, "missing"), version)
	}
	return nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// System is the file's system for package equations.
func (f *File) System() equations.System {
	y := f.header.system()
	y.Source = equations.Given(f.program)
	f.bind(&y)
	return y
}

// Case is the system's case, with solver, plant and projection. Traces of its plant hold the whole file, so that they
// can be re-simulated without it.
func (f *File) Case() (domain.Case, error) {
	c, err := f.System().Case()
	if err != nil {
		return c, err
	}
	text, err := f.Marshal()
	if err != nil {
		return c, err
	}
	Embed(&c, text)
	return c, nil
}

// Embed gives the plant of a case, and its variations, the file of its system for traces.
func Embed(c *domain.Case, text []byte) {
	embed := func(c *domain.Case) {
		if plant, ok := c.Plant.(*closedloop.Simulation); ok {
			plant.System = text
		}
	}
	embed(c)
	shifts := *c.Shifts
	c.Shifts = &domain.Shifts{Parameters: shifts.Parameters, New: func(factors []float64) (domain.Case, error) {
		shifted, err := shifts.New(factors)
		if err == nil {
			embed(&shifted)
		}
		return shifted, err
	}}
}
