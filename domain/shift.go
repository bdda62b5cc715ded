package domain

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/names"
)

// Shifts are the plants around a case's own: parameters of it by name, each times a
// factor. With them it is measured what a map is worth on a plant that it was not made
// for.
type Shifts struct {
	Parameters []PlantParameter
	// New makes the case with a factor for each of Parameters, in their order. Its problem,
	// which controllers know, its oracle and the params of its traces are the shifted
	// plant's; names and sizes are those of the case.
	New func(factors []float64) (Case, error)
}

// PlantParameter is a parameter of a plant that can be shifted.
type PlantParameter struct {
	Name  string // what `--shift` takes
	About string // one line
	Zero  bool   // 0 is a factor as well
}

// Shifted makes the case with parameters of its plant times factors, by name. Without
// factors it is the case itself.
func (c *Case) Shifted(factors map[string]float64) (Case, error) {
	if len(factors) == 0 {
		return *c, nil
	}
	name := c.Problem.Spec().Name
	if c.Shifts == nil {
		return Case{}, fmt.Errorf("case %q has no parameters of its plant to shift", name)
	}
	var parameters []string
	values := make([]float64, len(c.Shifts.Parameters))
	for i, p := range c.Shifts.Parameters {
		parameters, values[i] = append(parameters, p.Name), 1
	}
	for parameter, f := range factors {
		index := slices.Index(parameters, parameter)
		if index < 0 {
			return Case{}, fmt.Errorf("the plant of case %q has no parameter %q to shift%s (it has %s)", name, parameter, names.Meant(parameter, parameters), strings.Join(parameters, ", "))
		}
		if !(f > 0 || f == 0 && c.Shifts.Parameters[index].Zero) || math.IsInf(f, 0) {
			return Case{}, fmt.Errorf("parameter %q of case %q is shifted by the factor %v, want a finite number above 0", parameter, name, f)
		}
		values[index] = f
	}
	shifted, err := c.Shifts.New(values)
	if err != nil {
		return Case{}, fmt.Errorf("case %q with a shifted plant: %w", name, err)
	}
	shifted.Shift = factors
	return shifted, nil
}

// OtherPlant is a plant that is another than the model of its case.
type OtherPlant struct {
	Case          string `json:"case"`           // whose plant it is, where that is another than the model (`--plant`)
	ProblemSHA256 string `json:"problem_sha256"` // of that case's problem
	// Shift are the factors on parameters of that case's plant that made it.
	Shift map[string]float64 `json:"shift,omitempty"`
	// Model are the Plant.Params of the case itself, whose own plant its methods know.
	Model json.RawMessage `json:"model"`
}

// String says in a line what plant it is: its fingerprint tells those of one name apart.
func (o *OtherPlant) String() string {
	var factors []string
	for _, name := range slices.Sorted(maps.Keys(o.Shift)) {
		factors = append(factors, fmt.Sprintf("%s=%g", name, o.Shift[name]))
	}
	text := strings.Join(factors, ",")
	if text != "" {
		text = " with " + text
	}
	return fmt.Sprintf("%s%s, problem_sha256 %.12s", o.Case, text, o.ProblemSHA256)
}
