package gotrace

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/gcexportdata"
)

// Export is the export data of a package.
type Export struct {
	Path string
	Data []byte
}

// unpack reads exports, as lab/gotypes packs them.
func unpack(r io.Reader) (exports []Export, err error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("bundle of types: %w", err)
	}
	for {
		var parts [2][]byte
		for i := range parts {
			var n uint32
			if err := binary.Read(z, binary.LittleEndian, &n); err != nil {
				if i == 0 && errors.Is(err, io.EOF) {
					return exports, nil
				}
				return nil, fmt.Errorf("bundle of types: %w", err)
			}
			parts[i] = make([]byte, n)
			if _, err := io.ReadFull(z, parts[i]); err != nil {
				return nil, fmt.Errorf("bundle of types: %w", err)
			}
		}
		exports = append(exports, Export{string(parts[0]), parts[1]})
	}
}

// importer gives packages of the bundle, and those that were checked before; an empty package where there is neither.
type importer struct {
	fset     *token.FileSet
	data     map[string][]byte
	complete map[string]*types.Package // complete
	shared   map[string]*types.Package // what export data refers to, known or in part
}

func newImporter(fset *token.FileSet, exports []Export) *importer {
	m := &importer{fset: fset, data: map[string][]byte{}, complete: map[string]*types.Package{"unsafe": types.Unsafe}, shared: map[string]*types.Package{}}
	for _, e := range exports {
		m.data[e.Path] = e.Data
	}
	return m
}

// Import implements types.Importer.
func (m *importer) Import(name string) (*types.Package, error) {
	if p, ok := m.complete[name]; ok {
		return p, nil
	}
	data, ok := m.data[name]
	if !ok {
		base := path.Base(name)
		if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
			base = path.Base(path.Dir(name))
		}
		p := types.NewPackage(name, base)
		p.MarkComplete()
		m.complete[name] = p
		return p, nil
	}
	// Packages with source take the place of what export data says of them.
	maps.Copy(m.shared, m.complete)
	p, err := gcexportdata.Read(bytes.NewReader(data), m.fset, m.shared, name)
	if err != nil {
		return nil, fmt.Errorf("bundle of types: %s: %w", name, err)
	}
	m.complete[name] = p
	return p, nil
}

// all are the packages that anything refers to.
func (m *importer) all() []*types.Package {
	byPath := maps.Clone(m.shared)
	maps.Copy(byPath, m.complete)
	var list []*types.Package
	for _, name := range slices.Sorted(maps.Keys(byPath)) {
		if byPath[name] != types.Unsafe {
			list = append(list, byPath[name])
		}
	}
	return list
}
