package opf

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// FilePrefix of a case's name stands before the path of a MATPOWER file.
const FilePrefix = "opf:"

// Thirty is the case opf30: Case 3 of the paper, MATPOWER's case30.
func Thirty() domain.Case {
	return bundled("opf30", "dispatch of the 30-bus network", Options{})
}

// ThirtyUncertain is the case opf30-uncertain: Case 4, the same network with
// branch admittances that differ in every trajectory.
func ThirtyUncertain() domain.Case {
	c := bundled("opf30-uncertain", "dispatch of the 30-bus network, branch admittances uncertain", Options{Uncertain: true})
	c.Nominal = Thirty().Problem
	return c
}

func bundled(name, description string, opt Options) domain.Case {
	text, err := cases.Text("case30")
	if err == nil {
		var c domain.Case
		if c, err = FromText(name, description, text, opt); err == nil {
			return c
		}
	}
	panic("opf: embedded case30: " + err.Error())
}

// FromText is the dispatch problem called name of the network in a MATPOWER file.
func FromText(name, description string, text []byte, opt Options) (domain.Case, error) {
	n, err := readNetwork(name, text)
	if err != nil {
		return domain.Case{}, err
	}
	y, err := NewSystem(name, description, n, opt)
	if err != nil {
		return domain.Case{}, err
	}
	if y.fingerprint = sha256.Sum256(text); opt.Uncertain || opt.Ramp != nil {
		y.fingerprint = sha256.Sum256(fmt.Appendf(bytes.Clone(text), "\nuncertain %v, ramp %v pu\n", opt.Uncertain, opt.Ramp))
	}
	y.opened = openedIn(n, string(text))
	list := methods(y)
	if y.security != nil {
		s := y.security.params(n)
		y.fingerprint = sha256.Sum256(fmt.Appendf(y.fingerprint[:], "secure %v, emergency %v, band %v pu\n", s.Outages, s.Emergency, s.Band))
		list = secureMethods(y)
	}
	solver, plant := newSolver(y), newPlant(y, string(text))
	return domain.Case{
		Problem: y, Solver: solver, Plant: plant, Methods: list, Rescue: solver.Optimal,
		Guard:  domain.Guard{Off: true}, // the loads of one dispatch are known, which its projection keeps the limits of
		Shifts: shifts(y, text, opt),
		Remake: func(fields json.RawMessage) (domain.Case, error) { return remade(plant, fields, opt) },
	}, nil
}

// remade is the case of a plant with another file of the same network, or other ramps. Its
// answers are the plant's: the map is still of it.
func remade(l *Plant, fields json.RawMessage, opt Options) (domain.Case, error) {
	y, params := l.system, l.params()
	p := params
	p.Ramp, p.Scales = slices.Clone(params.Ramp), slices.Clone(params.Scales) // Merge writes into them
	p.Semantic.K, p.Semantic.Epsilon = slices.Clone(params.Semantic.K), slices.Clone(params.Semantic.Epsilon)
	if params.Security != nil {
		s := *params.Security
		s.Outages = slices.Clone(s.Outages)
		p.Security = &s
	}
	if err := jsonin.Merge(fields, &p); err != nil {
		return domain.Case{}, err
	}
	if err := params.fixed(&p); err != nil {
		return domain.Case{}, err
	}
	for i, r := range p.Ramp {
		if !(r >= 0) {
			return domain.Case{}, fmt.Errorf("ramp_pu[%d] is %v, want it ≥ 0", i, r)
		}
	}
	if p.Case != params.Case || !slices.Equal(p.Ramp, params.Ramp) {
		opt.Ramp = p.Ramp
	}
	if (p.Security == nil) != (params.Security == nil) {
		return domain.Case{}, errors.New("security: the trace and this case must both survive outages, or neither")
	}
	if p.Security != nil {
		n, err := readNetwork(y.spec.Name, []byte(p.Case))
		if err != nil {
			return domain.Case{}, fmt.Errorf("case_m: %w", err)
		}
		if opt.Security, err = p.Security.security(n); err != nil {
			return domain.Case{}, err
		}
		if len(opt.Security.Outages) != len(params.Security.Outages) {
			return domain.Case{}, fmt.Errorf("security: %d outages, this case has %d: another number of outages is another case", len(opt.Security.Outages), len(params.Security.Outages))
		}
	}
	c, err := FromText(y.spec.Name, y.spec.Description, []byte(p.Case), opt)
	if err != nil {
		return c, fmt.Errorf("case_m: %w", err)
	}
	remadeSystem := c.Problem.(*System)
	if a, b := &remadeSystem.layout, &y.layout; a.buses != b.buses || a.gens != b.gens || a.branches != b.branches || !slices.Equal(a.loadP, b.loadP) || !slices.Equal(a.loadQ, b.loadQ) || !slices.Equal(a.rated, b.rated) {
		return c, fmt.Errorf("case_m: its buses, units, branches, loads or ratings differ from those of %s: such a network is another case, %sFILE.m", y.spec.Name, FilePrefix)
	}
	remadeSystem.answers = y.answers
	return c, nil
}

// shifts are the networks around one: its file with assignments behind it, which the
// params of a trace hold. Its answers are theirs: the map is still of it.
func shifts(y *System, text []byte, opt Options) *domain.Shifts {
	return &domain.Shifts{
		Parameters: []domain.PlantParameter{
			{Name: "load", About: "active and reactive load of every bus"},
			{Name: "line-limit", About: "rating of every branch that has one"},
			{Name: "reactance", About: "series reactance of every branch"},
			{Name: "ramp", About: "largest change of every unit's power per step"},
		},
		New: func(f []float64) (domain.Case, error) {
			shifted := bytes.Clone(text)
			for i, part := range []string{"mpc.bus(:, [3, 4])", "mpc.branch(:, 6)", "mpc.branch(:, 4)"} {
				if f[i] != 1 {
					shifted = fmt.Appendf(shifted, "\n%s = %s * %v;\n", part, part, f[i])
				}
			}
			o := opt
			o.Ramp = floats.ScaleTo(make([]float64, len(y.Ramp)), f[3], y.Ramp)
			c, err := FromText(y.spec.Name, y.spec.Description, shifted, o)
			if err == nil {
				c.Problem.(*System).answers = y.answers
			}
			return c, err
		},
	}
}

// Embedded is the case of a network by what the params of a trace hold of it, under the
// name that FromFile gave it; ok is false for a name of another kind. No file is opened.
func Embedded(name string, params json.RawMessage) (c domain.Case, ok bool, err error) {
	file, ok := strings.CutPrefix(name, FilePrefix)
	survives := false
	if !ok {
		if file, survives = strings.CutPrefix(name, SecurePrefix); !survives {
			return c, false, nil
		}
	}
	if filepath.Base(file) != file {
		return c, true, fmt.Errorf("opf: case %.100q is not a name for a trace: want %sFILE.m, without a folder", name, FilePrefix)
	}
	var p Params
	if err := json.Unmarshal(params, &p); err != nil {
		return c, true, fmt.Errorf("trace params: %w", err)
	}
	for i, r := range p.Ramp {
		if !(r >= 0) {
			return c, true, fmt.Errorf("trace params: ramp_pu[%d] is %v, want it ≥ 0", i, r)
		}
	}
	const description = "dispatch of a network that a trace embeds"
	var opt Options
	if survives {
		n, err := readNetwork(name, []byte(p.Case))
		if err != nil {
			return c, true, err
		}
		if opt.Security, err = p.Security.security(n); err != nil {
			return c, true, fmt.Errorf("trace params: %w", err)
		}
		if opt.Security == nil {
			return c, true, errors.New("trace params: security is missing: it says which outages a dispatch survives")
		}
	}
	c, err = FromText(name, description, []byte(p.Case), opt)
	if err == nil && !slices.Equal(c.Problem.(*System).Ramp, p.Ramp) { // a shifted one
		opt.Ramp = p.Ramp
		c, err = FromText(name, description, []byte(p.Case), opt)
	}
	return c, true, err
}

// FromFile is the case of a MATPOWER file, by its name `opf:FILE.m`. A file that
// does not exist may be one of the embedded networks, such as opf:case118.m.
func FromFile(name string) (domain.Case, error) {
	path, ok := strings.CutPrefix(name, FilePrefix)
	if !ok {
		return domain.Case{}, fmt.Errorf("opf: %q does not begin with %q", name, FilePrefix)
	}
	text, err := fileOrEmbedded(path)
	if err != nil {
		return domain.Case{}, err
	}
	base := strings.TrimSuffix(filepath.Base(path), ".m")
	return FromText(FilePrefix+filepath.Base(path), "dispatch of the network "+base, text, Options{})
}

// fileOrEmbedded is the text of a case file, or of the embedded network of that name.
func fileOrEmbedded(path string) ([]byte, error) {
	text, err := readFile(path)
	if err != nil {
		embedded, missing := cases.Text(strings.TrimSuffix(filepath.Base(path), ".m"))
		if missing != nil || filepath.Base(path) != path {
			return nil, err
		}
		text = embedded
	}
	return text, nil
}

// readFile reads a case file of at most matpower.MaxBytes and one byte: more than that is
// refused when it is parsed.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, matpower.MaxBytes+1))
}
