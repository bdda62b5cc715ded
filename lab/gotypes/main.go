// Command gotypes writes the types of the packages that systems of equations may import, which package gotrace reads. It needs
// the go command and this module's source.
//
//	go run ./lab/gotypes -out internal/gotrace/types.bundle
package main

//go:generate go run . -out ../../internal/gotrace/types.bundle

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/tools/go/gcexportdata"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/gotrace"
)

const module = "github.com/gpc-engine/gpc/"

// packages are what equations are written with. Those of the standard library that only say something about a system, such as
// fmt, are there for their types.
var packages = []string{
	"cmp", "embed", "errors", "fmt", "maps", "math", "math/bits", "math/cmplx", "slices", "sort", "strconv", "strings", "sync",
	module + "tensor", module + "domain", module + "equations/dual", module + "ocp", module + "equations",
}

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gotypes:", err)
		os.Exit(1)
	}
}

func write(name string) error {
	exports, err := collect()
	if err != nil {
		return err
	}
	// What is not exported may change without a new file.
	want, err := describe(exports)
	if err != nil {
		return err
	}
	if bundled, err := gotrace.Bundled(); err == nil {
		if current, err := describe(bundled); err == nil && slices.Equal(current, want) {
			return nil
		}
	}
	var b bytes.Buffer
	if err := pack(&b, exports); err != nil {
		return err
	}
	return durable.WriteFile(name, b.Bytes(), 0o644)
}

// collect makes export data without positions of what the compiler leaves.
func collect() ([]gotrace.Export, error) {
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-trimpath", "-json=ImportPath,Export"}, packages...)...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		files[p.ImportPath] = p.Export
	}
	var exports []gotrace.Export
	for _, path := range packages {
		data, err := export(path, files[path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		exports = append(exports, gotrace.Export{Path: path, Data: data})
	}
	return exports, nil
}

func export(path, file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gcexportdata.NewReader(f)
	if err != nil {
		return nil, err
	}
	pkg, err := gcexportdata.Read(r, token.NewFileSet(), map[string]*types.Package{}, path)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	// An empty file set has no positions: neither folders nor lines of this machine.
	err = gcexportdata.Write(&b, token.NewFileSet(), pkg)
	return b.Bytes(), err
}

// pack writes exports, as package gotrace reads them.
func pack(w io.Writer, exports []gotrace.Export) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, e := range exports {
		for _, part := range [2][]byte{[]byte(e.Path), e.Data} {
			if err := binary.Write(z, binary.LittleEndian, uint32(len(part))); err != nil {
				return err
			}
			if _, err := z.Write(part); err != nil {
				return err
			}
		}
	}
	return z.Close()
}
