package gpc

import (
	"encoding/json"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/systemfile"
)

// SystemSuffix ends the names of files that hold a system; such a name is taken where a case's is.
const SystemSuffix = ".json"

// SystemFile is the case of the system in a file. It has no bundled map.
func SystemFile(path string) (*Case, error) {
	f, err := systemfile.ReadFile(path)
	if err != nil {
		return nil, BadInput(err)
	}
	return systemCase(f)
}

// SystemText is the case of a system in the bytes of a file.
func SystemText(text []byte) (*Case, error) {
	f, err := systemfile.Unmarshal(text)
	if err != nil {
		return nil, BadInput(err)
	}
	return systemCase(f)
}

func systemCase(f *systemfile.File) (*Case, error) {
	def, err := f.Case()
	if err != nil {
		return nil, BadInput(err)
	}
	c, err := NewCase(def)
	if err == nil {
		c.system = f
	}
	return c, err
}

// System is the file of the case's system, which has to be one of equations whose text is known.
func (c *Case) System() (*systemfile.File, error) {
	if c.system != nil {
		return c.system, nil
	}
	p, ok := c.def.Problem.(*equations.Problem)
	if !ok {
		return nil, badInputf("case %s is not a system of equations (equations.System): only such a system can be written as a file", c.Name())
	}
	f, err := systemfile.Of(p)
	return f, BadInput(err)
}

// embeddedSystem makes the case of a trace whose params hold the file of its system; ok is false for others.
func embeddedSystem(name string, params json.RawMessage) (c domain.Case, ok bool, err error) {
	var p struct {
		System json.RawMessage `json:"system"`
	}
	if json.Unmarshal(params, &p) != nil || p.System == nil {
		return c, false, nil
	}
	f, err := systemfile.Unmarshal(p.System)
	if err != nil {
		return c, true, fmt.Errorf("trace params: %w", err)
	}
	if f.Name() != name {
		return c, true, fmt.Errorf("trace params: they hold the system %.100q, the trace that of %.100q", f.Name(), name)
	}
	c, err = f.Case()
	return c, true, err
}
