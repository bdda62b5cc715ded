// Package cases holds published test networks as MATPOWER case files: the
// numbers of the original files, with a note of their source. Those of PGLib-OPF
// have a rating on every line; their licence, CC BY 4.0, is in the files.
//
// There is no type of its own: Text is a file, Read the matpower.Case in it.
package cases

import (
	"bytes"
	"embed"
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/internal/names"
)

//go:embed data/*.m
var files embed.FS

// embedded are the names in order of size.
var embedded = []string{"case9", "case14", "case30", "case_ieee30", "case39", "pglib_opf_case57_ieee", "case118", "pglib_opf_case118_ieee", "pglib_opf_case300_ieee"}

// init lets a file load one of them by its name.
func init() { matpower.Library = Text }

// Names of the networks here, smallest first. The slice is the caller's.
func Names() []string { return append([]string(nil), embedded...) }

// Text is the case file of that name, without ".m". The error names what there
// is.
func Text(name string) ([]byte, error) {
	b, err := files.ReadFile("data/" + name + ".m")
	if err != nil {
		return nil, fmt.Errorf("no embedded case %q%s (there are %s)", name, names.Meant(name, embedded), strings.Join(embedded, ", "))
	}
	return b, nil
}

// Read parses the case of that name.
func Read(name string) (*matpower.Case, error) {
	text, err := Text(name)
	if err != nil {
		return nil, err
	}
	return matpower.Read(name+".m", bytes.NewReader(text))
}
