package opf

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/secure"
)

// SecurePrefix of a case's name stands before the path of a MATPOWER file whose dispatch has to survive
// outages: opf-secure:FILE.m, and behind the path, each after a comma, outages=branches|units|all|FILE,
// emergency=FACTOR and band=PU.
const SecurePrefix = "opf-secure:"

// secureNetwork is that of the case opf-secure. MATPOWER's case30 has no load level at which security costs
// anything: its plain optimum survives every branch, or no dispatch does.
const secureNetwork = "case39"

// secureLevels are those of the load in every regime, and of a dataset's scenarios: what case39 has a secure
// dispatch for.
var (
	secureLevels   = [2]float64{0.7, 0.9}
	secureScenario = [2]float64{0.67, 0.92}
)

// Secure is the case opf-secure: the dispatch of the New England network that survives the outage of any
// branch.
func Secure() domain.Case {
	text, err := cases.Text(secureNetwork)
	if err == nil {
		var c domain.Case
		const description = "dispatch of the 39-bus network that survives the outage of any branch"
		if c, err = secureFromText("opf-secure", description, text, nil, true); err == nil {
			return c
		}
	}
	panic("opf: embedded " + secureNetwork + ": " + err.Error())
}

// SecureFromFile is the case of a MATPOWER file by its name opf-secure:FILE.m[,KEY=VALUE…].
func SecureFromFile(name string) (domain.Case, error) {
	rest, ok := strings.CutPrefix(name, SecurePrefix)
	if !ok {
		return domain.Case{}, fmt.Errorf("opf: %q does not begin with %q", name, SecurePrefix)
	}
	parts := strings.Split(rest, ",")
	text, err := fileOrEmbedded(parts[0])
	if err != nil {
		return domain.Case{}, err
	}
	base := filepath.Base(parts[0])
	description := "dispatch of the network " + strings.TrimSuffix(base, ".m") + " that survives outages"
	return secureFromText(SecurePrefix+base, description, text, parts[1:], false)
}

// secureFromText is the case of a file's text with KEY=VALUE settings.
func secureFromText(name, description string, text []byte, settings []string, embedded bool) (domain.Case, error) {
	n, err := readNetwork(name, text)
	if err != nil {
		return domain.Case{}, err
	}
	s := Security{Emergency: secure.DefaultEmergency, Band: secure.DefaultBand}
	outages := "branches"
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		number, bad := strconv.ParseFloat(value, 64)
		switch {
		case key == "outages" && value != "":
			outages = value
		case key == "emergency" && bad == nil && number >= 1 && number <= 100:
			s.Emergency = number
		case key == "band" && bad == nil && number >= 0 && number <= 1:
			s.Band = number
		default:
			const want = "outages=branches|units|all|FILE, emergency=1 to 100 or band=0 to 1 pu"
			return domain.Case{}, fmt.Errorf("opf: %s: %.60q: want %s", name, setting, want)
		}
	}
	if s.Outages, err = ParseOutages(n, outages, readFile); err != nil {
		return domain.Case{}, fmt.Errorf("opf: %s: %w", name, err)
	}
	description = fmt.Sprintf("%s (%d outages, ratings ×%g after one, voltages ±%g pu)",
		description, len(s.Outages), s.Emergency, s.Band)
	return FromText(name, description, text, Options{Security: &s, embedded: embedded})
}

func readNetwork(name string, text []byte) (*network.Network, error) {
	file, err := matpower.Read(name, strings.NewReader(string(text)))
	if err != nil {
		return nil, err
	}
	return network.New(file)
}

// The operator's habit: ratings and voltages with room instead of outages.
const (
	habitRating  = 0.1  // of every rating
	habitVoltage = 0.01 // pu, of buses without a unit
)

// secureMethods are those of a secure dispatch. All are judged by the plant, which looks at every outage.
func secureMethods(y *System) []domain.Method {
	return []domain.Method{
		{Name: "oracle", About: "the exact secure chain of the trajectory", Group: domain.GroupExact,
			New: func(domain.Means) (domain.Controller, error) { return new(domain.Oracle), nil }},
		baseline("secure", "the exact secure optimum of every step, begun at the last with the outages that it remembers",
			func() (domain.Controller, error) { return &secureController{system: y}, nil }),
		baseline("mo-opf", "the exact optimum without outages of every step, warm-started from the last",
			func() (domain.Controller, error) { return plainController(y, 0, acopf.Tightening{}) }),
		baseline("mo-opf-margin", fmt.Sprintf("mo-opf with %g %% of every rating and %g pu of voltage left free, "+
			"where there is such a dispatch: the operator's habit", 100*habitRating, habitVoltage),
			func() (domain.Controller, error) {
				return plainController(y, habitRating, acopf.Tightening{VLoad: habitVoltage})
			}),
		baseline("dc-secure", "active powers of least cost by the linear model, whose distribution factors keep every rating before and after outages; voltages as they are",
			func() (domain.Controller, error) { return newDCController(y) }),
		baseline("hold", "the last dispatch, projected",
			func() (domain.Controller, error) { return &holdController{system: y}, nil }),
		baseline("slp", "the last dispatch, moved by up to two steps of sequential linear programming towards the least objectives, projected; the exact optimum where that breaks a limit",
			func() (domain.Controller, error) { return newStepController(y), nil }),
		baseline("merit", "the merit order (what the decoder corrects), projected",
			func() (domain.Controller, error) { return meritController{y}, nil }),
	}
}

// plainController solves without outages, with a share of every rating and a tightening left free.
func plainController(y *System, share float64, tightening acopf.Tightening) (domain.Controller, error) {
	n := *y.Network
	n.Rate = slices.Clone(n.Rate)
	for k := range n.Rate {
		if !math.IsInf(n.Rate[k], 1) {
			n.Rate[k] *= 1 - share
		}
	}
	plain, err := NewSystem(y.spec.Name, y.spec.Description, &n, Options{Ramp: y.Ramp})
	if err != nil {
		return nil, err
	}
	return newExactController(plain, nil, tightening)
}
