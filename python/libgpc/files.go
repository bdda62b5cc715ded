package main

/*
#include <stdint.h>
*/
import "C"

import (
	"bytes"
	"encoding/json"
	"slices"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// tensorShape is the name and the shape of a tensor.
type tensorShape struct {
	Name  string `json:"name"`
	Shape []int  `json:"shape"`
}

//export gpc_model_read
func gpc_model_read(opt *C.char, out *C.uintptr_t, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *struct {
		Case string `json:"case"` // "" takes the file as it is
		File string `json:"file"` // "" is the case's bundled map
	}) error {
		if o.Case == "" {
			m, err := model.ReadFile(o.File)
			if err == nil {
				hand(out, m)
			}
			return gpc.BadInput(err)
		}
		c, err := catalogue().Find(o.Case)
		if err != nil {
			return err
		}
		m, err := c.Model(o.File)
		if err == nil {
			hand(out, m)
		}
		return err
	})
}

// modelAbout is what a map says of itself.
type modelAbout struct {
	Case        string            `json:"case"`
	SHA256      string            `json:"sha256"` // of its file
	Latent      int               `json:"latent"`
	Calibration model.Calibration `json:"calibration"`
	Provenance  model.Provenance  `json:"provenance"`
	Navigation  json.RawMessage   `json:"navigation"` // null: the case's own
	Tensors     []tensorShape     `json:"tensors"`
}

func aboutModel(m *model.Model) (modelAbout, error) {
	sum, err := m.SHA256()
	a := modelAbout{m.Case, sum, m.Latent(), m.Calibration, m.Provenance, m.Navigation, nil}
	for _, p := range m.Parameters() {
		a.Tensors = append(a.Tensors, tensorShape{p.Name, p.Shape})
	}
	return a, err
}

//export gpc_model_about
func gpc_model_about(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(m *model.Model) error {
		a, err := aboutModel(m)
		return answer(out, a, err)
	})
}

//export gpc_model_tensor
func gpc_model_tensor(h C.uintptr_t, name *C.char, data *C.float, length C.int64_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(m *model.Model) error {
		all := m.Parameters()
		index := slices.IndexFunc(all, func(p model.Parameter) bool { return p.Name == C.GoString(name) })
		if index < 0 {
			return wrongf("the map has no tensor %q", C.GoString(name))
		}
		dst, err := view[float32](all[index].Name, unsafe.Pointer(data), length, len(all[index].Data))
		copy(dst, all[index].Data)
		return err
	})
}

// outsideCommand is what the provenance of a map says whose tensors came from another program.
const outsideCommand = "gpc.models.save: the tensors came from outside the program"

//export gpc_model_save
func gpc_model_save(h C.uintptr_t, opt *C.char, data *C.float, length C.int64_t, out **C.char, err **C.char) C.int32_t {
	return onCall(h, opt, 0, err, func(template *model.Model, o *struct {
		File        string          `json:"file"`
		Command     string          `json:"command"` // what made the tensors; "": not said
		Tensors     []tensorShape   `json:"tensors"` // one behind the other in data
		Calibration json.RawMessage `json:"calibration"`
	}, _ *run) error {
		size := 0
		for i, t := range o.Tensors {
			n := 1
			for _, d := range t.Shape {
				if d < 0 || d > int(length) || n > int(length) {
					return wrongf("tensor %d, %s, has shape %v, which does not fit the %d values given", i, t.Name, t.Shape, int64(length))
				}
				n *= d
			}
			size += n
		}
		values, err := view[float32]("the tensors' values", unsafe.Pointer(data), length, size)
		if err != nil {
			return err
		}
		values = slices.Clone(values)
		var parameters []model.Parameter
		for _, t := range o.Tensors {
			n := 1
			for _, d := range t.Shape {
				n *= d
			}
			parameters = append(parameters, model.Parameter{Name: t.Name, Shape: t.Shape, Data: values[:n]})
			values = values[n:]
		}
		hash, err := template.SHA256()
		if err != nil {
			return err
		}
		command := outsideCommand
		if o.Command != "" {
			command += ": " + o.Command
		}
		m, err := template.Replaced(parameters, model.Provenance{
			Command: command, Version: version.Build(), ProblemSHA256: template.Provenance.ProblemSHA256, InitialSHA256: hash,
		})
		if err != nil {
			return gpc.BadInput(err)
		}
		if len(o.Calibration) > 0 {
			c := &m.Calibration // a decoder writes into slices that are there
			c.ObjectiveIdeal, c.ObjectiveNadir = slices.Clone(c.ObjectiveIdeal), slices.Clone(c.ObjectiveNadir)
			c.ContextRange = slices.Clone(c.ContextRange)
			dec := json.NewDecoder(bytes.NewReader(o.Calibration))
			dec.DisallowUnknownFields()
			if err := dec.Decode(c); err != nil {
				return wrongf("calibration: %w", err)
			}
		}
		if err := m.WriteFile(o.File); err != nil {
			return gpc.BadInput(err)
		}
		a, err := aboutModel(m)
		return answer(out, a, err)
	})
}

// sampleColumns is datasets that were read together.
type sampleColumns struct {
	info    dataAbout
	columns *dataset.Columns
}

type dataAbout struct {
	Rows    int              `json:"rows"`
	SHA256  string           `json:"samples_sha256"`
	Headers []dataset.Header `json:"headers"` // one of each folder
}

//export gpc_data_read
func gpc_data_read(opt *C.char, out *C.uintptr_t, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *struct {
		Folders []string `json:"folders"`
	}) error {
		var sets []*dataset.Dataset
		s := &sampleColumns{}
		for _, f := range o.Folders {
			d, err := dataset.Open(f)
			if err != nil {
				return gpc.BadInput(err)
			}
			sets = append(sets, d)
			s.info.Headers = append(s.info.Headers, d.Header)
		}
		columns, _, sum, err := dataset.Load(sets...)
		if err != nil {
			return gpc.BadInput(err)
		}
		s.columns, s.info.Rows, s.info.SHA256 = columns, columns.Rows(), sum
		hand(out, s)
		return nil
	})
}

//export gpc_data_about
func gpc_data_about(h C.uintptr_t, out **C.char, err **C.char) C.int32_t {
	return onHandle(h, err, func(s *sampleColumns) error {
		return answer(out, s.info)
	})
}

// fillColumn writes values to memory of the caller's that has room for as many.
func fillColumn[T any](name string, p unsafe.Pointer, length C.int64_t, values []T) error {
	dst, err := view[T](name, p, length, len(values))
	copy(dst, values)
	return err
}

// flagColumn is booleans as a caller's array has them.
func flagColumn(n int, set func(i int) bool) []uint8 {
	all := make([]uint8, n)
	for i := range all {
		if set(i) {
			all[i] = 1
		}
	}
	return all
}

//export gpc_data_column
func gpc_data_column(h C.uintptr_t, name *C.char, data unsafe.Pointer, length C.int64_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(s *sampleColumns) error {
		c, column := s.columns, C.GoString(name)
		floats := map[string]tensor.Matrix{
			"s": c.S, "c": c.C, "w": c.Preference, "u": c.U, "target": c.Target, "sigma": c.Sigma, "J": c.J, "margin": c.Margins,
			"kkt": {Rows: c.Rows(), Cols: 1, Stride: 1, Data: c.KKT},
		}
		switch column {
		case "scenario":
			return fillColumn(column, data, length, c.Scenario)
		case "trajectory":
			return fillColumn(column, data, length, c.Trajectory)
		case "step":
			return fillColumn(column, data, length, c.Step)
		case "perturbed":
			return fillColumn(column, data, length, flagColumn(c.Rows(), func(i int) bool { return c.Perturbed[i] }))
		case "adaptive":
			return fillColumn(column, data, length, flagColumn(c.Rows(), func(i int) bool { return c.Preference.Row(i)[0] == 0 }))
		}
		m, ok := floats[column]
		if !ok {
			return wrongf("a dataset has no column %q", column)
		}
		from := 0
		if column == "w" { // its first entry is the flag of a fixed preference
			from = 1
		}
		to, err := view[float32](column, data, length, m.Rows*(m.Cols-from))
		for i := range m.Rows {
			if len(to) > 0 {
				copy(to[i*(m.Cols-from):], m.Row(i)[from:])
			}
		}
		return err
	})
}
