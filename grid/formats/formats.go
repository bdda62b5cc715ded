// Package formats reads networks from the files of other programs as MATPOWER cases. They are PSS/E RAW (versions 30 to 35),
// the IEEE Common Data Format, MATLAB files of a MATPOWER case and PowerModels' JSON.
//
// The central function is Read. Every error about the content is a *matpower.Error, with its line where the format has
// lines. What a case cannot hold is refused by its name, and Case.Notes says what it holds otherwise than the file.
package formats

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower"
)

// readers are the formats by the ending of a file's name.
var readers = map[string]func(name string, text []byte) (*matpower.Case, error){
	".raw": readRAW, ".cdf": readCDF, ".mat": readMAT, ".json": readPowerModels,
}

// ReadFile is Read of a file, by its path.
func ReadFile(path string) (*matpower.Case, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(path, f)
}

// Read reads a network by the ending of its name: .raw, .cdf, .mat and .json; any other is a MATPOWER case.
func Read(name string, source io.Reader) (c *matpower.Case, err error) {
	read := readers[strings.ToLower(filepath.Ext(name))]
	if read == nil {
		return matpower.Read(name, source)
	}
	text, err := io.ReadAll(io.LimitReader(source, matpower.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > matpower.MaxBytes {
		return nil, &matpower.Error{Name: name, Line: 1, Reason: fmt.Sprintf("the file is larger than %d MiB", matpower.MaxBytes>>20)}
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			c, err = nil, &matpower.Error{Name: name, Line: r.line, Reason: r.reason}
		default:
			panic(r)
		}
	}()
	if c, err = read(name, text); err != nil {
		return nil, err
	}
	c.Name = cmp.Or(c.Name, strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)))
	return c, c.CheckFile(name)
}

// fault is panicked with by the readers and recovered in Read.
type fault struct {
	line   int
	reason string
}

func failf(line int, format string, args ...any) {
	panic(fault{line, fmt.Sprintf(format, args...)})
}
