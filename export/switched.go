package export

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/ocp/mixedinteger"
)

// Switched are the options of a controller of switched actions.
type Switched struct {
	Method     string // its name
	Controller mixedinteger.ControllerOptions
	// Map gives the chances, about the problem Shares (domain.Case.Learned); nil: there is none. With Half its weights are rounded
	// to float16.
	Map    *model.Model
	Shares domain.Problem
	Half   bool
	// Counters are the states that a sweep does not tell apart (mixedinteger.Counters).
	Counters []bool
	// As Whole has them.
	FMU      bool
	Start    []float64
	Episodes []Episode
}

// search is what the templates of a search read.
type search struct {
	Map               *unit // nil: without
	GuessOnly         bool
	Swept, Width      int     // decisions of a period that a sweep evaluates, and states of it that are kept; 0: without
	Sweeps            int     // of a decision
	Tube              float64 // mixedinteger.Tube
	Cells             int     // slots of their hash table
	Combinations      int     // of the places of all switches
	Counters          string
	Candidates        int  // of a decision, behind the sweep
	Round             int  // most plans of a round
	Elites, Offered   int  // most plans that are kept, and that the next decision begins with
	Keys              int  // slots of a hash table
	Bits              uint // of mixedinteger.Packing, like InWord
	InWord            int
	Inputs            int // entries of (s, c)
	Rules             []string
	Values            []float64
	Least             string
	Chances, RuleSize int      // of a step; a state of the rules
	Others            []string // of each action without a switch: its entries in the action and in a row of the map's
	IsSwitched        string
	Ziggurat          ziggurat
}

// Search writes the controller of problem p, which must be Equated with switched actions, and its plant to the folder dir, which
// must be Vacant, with a test that drives both from where the episodes began.
func Search(ctx context.Context, dir string, p domain.Problem, opt Switched) (*Result, error) {
	w, err := newSearch(p, &opt)
	if err != nil {
		return nil, err
	}
	packed, err := w.save(ctx, dir, opt.FMU)
	if err != nil {
		return nil, err
	}
	r := w.result(dir, packed, w.searchOperations())
	if w.Search.Map != nil {
		r.Base, r.MulAdds = "copied", w.mapMulAdds()
	}
	return r, nil
}

func newSearch(p domain.Problem, opt *Switched) (*whole, error) {
	y, err := equationsOf(p, opt.Episodes)
	spec, o := p.Spec(), opt.Controller
	switch {
	case err != nil:
		return nil, err
	case o.Ahead || o.Polish || o.Relaxed:
		return nil, fmt.Errorf("export: method %s solves or searches between decisions, which C does not", opt.Method)
	}
	symbol := identifier(spec.Name)
	u := &unit{Symbol: symbol, Macro: strings.ToUpper(symbol), Version: version.Version, Build: version.Build(), Half: opt.Half, Spec: spec}
	swept := mixedinteger.Swept(o.Candidates)
	s := &search{GuessOnly: o.GuessOnly, Candidates: o.Candidates - swept, Combinations: 1, Inputs: spec.MeasuredSize() + spec.ContextSize(), RuleSize: len(spec.Switches)}
	s.Round, s.Elites, s.Offered = mixedinteger.Sizes(s.Candidates)
	s.Bits, s.InWord = mixedinteger.Packing(spec.Switches)
	s.Keys = 1 << bits.Len(uint(2*s.Candidates-1))
	s.rules(spec)
	s.sweeps(swept, spec.MeasuredSize(), opt.Counters)
	if opt.Map != nil {
		zero := Record{S: make([]float32, spec.MeasuredSize()), C: make([]float32, spec.ContextSize()), Plan: make([]float32, opt.Shares.Spec().PlanSize())}
		if s.Map, err = newUnit(opt.Map, opt.Shares, opt.Half, []Record{zero}); err != nil {
			return nil, err
		}
		if s.Map.BaseHook {
			return nil, fmt.Errorf("export: the plan that the map of case %s corrects is not its rest", spec.Name)
		}
		u.SHA256, u.ConstantBytes, u.ScratchBytes = s.Map.SHA256, s.Map.ConstantBytes, s.Map.ScratchBytes
	}
	w := wholeOf(u, p, y, opt.Episodes)
	w.Method, w.Start, w.Search = opt.Method, opt.Start, s
	w.generate()
	return w, nil
}

// Offers are the most plans that a decision begins with: those of the one before, two of the map, and those of sweeps.
func (s *search) Offers() int { return s.Offered + 2 + s.Sweeps*min(s.Width, mixedinteger.SweptPlans) }

// sweeps sizes sweeps of at most n decisions in a period, all together.
func (s *search) sweeps(n, states int, counters []bool) {
	s.Sweeps, s.Tube = mixedinteger.SweepsOfADecision, mixedinteger.Tube
	n /= s.Sweeps
	if s.Width = n / s.Combinations; s.Width < 2 {
		s.Width = 0
		return
	}
	s.Swept, s.Cells = n, 1<<bits.Len(uint(2*n-1))
	counts := make([]int, states)
	for i, is := range counters {
		if is {
			counts[i] = 1
		}
	}
	s.Counters = commas(counts)
}

// rules are the switches as C reads them, and the other actions.
func (s *search) rules(spec *domain.Spec) {
	var least, switched []string
	share := 0
	for a := range spec.Action {
		i := spec.SwitchOf(a)
		if switched = append(switched, strconv.Itoa(min(1, i+1))); i < 0 {
			s.Others = append(s.Others, fmt.Sprintf("%d, %d", a, share))
			share++
			continue
		}
		w, free := &spec.Switches[i], 1
		for _, n := range w.Least {
			least = append(least, strconv.Itoa(n))
			if n > 1 || w.Most > 0 {
				free = 0
			}
		}
		s.Rules = append(s.Rules, commas([]int{a, len(w.Values), len(s.Values), w.Last, w.Ages, w.Changes(), s.RuleSize, w.Most, w.Window, w.Saturation(), free, share}))
		s.Values = append(s.Values, w.Values...)
		s.Combinations = min(s.Combinations*len(w.Values), mixedinteger.MaxCandidates)
		s.RuleSize += w.Changes()
		share += len(w.Values) - 1
	}
	s.Chances, s.Least, s.IsSwitched = len(s.Values), strings.Join(least, ", "), strings.Join(switched, ", ")
	s.Ziggurat = newZiggurat()
}

// commas is an initialiser of whole numbers.
func commas(v []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(v)), ", "), "[]")
}

// ziggurat are the tables of math/rand/v2's normal distribution.
type ziggurat struct {
	K    string
	W, F []float32
}

// newZiggurat computes them as Marsaglia and Tsang (2000) do.
func newZiggurat() ziggurat {
	const n, most, area = 128, 1 << 31, 9.91256303526217e-3
	x := 3.442619855899 // where the tail begins
	before, density := x, func(x float64) float64 { return math.Exp(-0.5 * x * x) }
	k, z := make([]uint32, n), ziggurat{W: make([]float32, n), F: make([]float32, n)}
	base := area / density(x)
	k[0], z.W[0], z.F[0] = uint32(x/base*most), float32(base/most), 1
	z.W[n-1], z.F[n-1] = float32(x/most), float32(density(x))
	for i := n - 2; i >= 1; i-- {
		x = math.Sqrt(-2 * math.Log(area/x+density(x)))
		k[i+1], before = uint32(x/before*most), x
		z.F[i], z.W[i] = float32(density(x)), float32(x/most)
	}
	for row := range slices.Chunk(k, 8) {
		z.K += "   "
		for _, v := range row {
			z.K += fmt.Sprintf(" 0x%08x,", v)
		}
		z.K += "\n"
	}
	return z
}

// mapMulAdds are the multiply-adds of the map, 0 without one.
func (w *whole) mapMulAdds() int {
	if w.Search.Map == nil {
		return 0
	}
	m := w.Search.Map.Model
	return m.EncoderX.MulAdds() + m.DecoderU.MulAdds()
}

// searchOperations bound the arithmetic operations of a decision: the map, the roll-outs, and what makes a plan and what takes the best.
func (w *whole) searchOperations() int {
	s, n := w.Search, w.Horizon
	step := w.step() + w.operationsOf("objectives") + w.operationsOf("margins") + 2*w.operationsOf("urgency") + 40*w.NJ
	made := n * (40*len(w.Spec.Switches) + 3*s.Chances) // up to seven plans that are known already for one that is not
	rounds := (s.Candidates + s.Round - 1) / s.Round
	swept := n * s.Sweeps * s.Swept * (step + 25*(6*s.Inputs+3*s.Chances+6*s.RuleSize)) // cells of at most 25 sizes in a period
	return 2*w.mapMulAdds() + swept + s.Candidates*(n*step+8*made) + rounds*n*(4*s.Chances+s.Elites*len(w.Spec.Switches)) + 64*(step+s.Chances)
}

func (w *whole) searchBounds() []string {
	swept := ""
	if w.Search.Width > 0 {
		swept = fmt.Sprintf(" behind %d sweeps of at most %d decisions a step,", w.Search.Sweeps, w.Search.Swept)
	}
	return []string{
		fmt.Sprintf("at most %d plans a decision,%s of %d steps each;", w.Search.Candidates, swept, w.Horizon),
		fmt.Sprintf("and so at most %d arithmetic operations for a decision. Most decisions take a part of it: plans that fall behind are given up.", w.searchOperations()),
	}
}

// searchBytes are those of a loop, as a compiler lays it out whose numbers have the alignment of their size.
func (w *whole) searchBytes() int {
	s, places := w.Search, w.Horizon*len(w.Spec.Switches)
	aligned := func(n, to int) int { return (n + to - 1) / to * to }
	others, ints := len(s.Others)*w.Horizon, 5+s.Cells+s.Swept+w.Horizon*s.Width
	n := 8 * (w.Horizon*s.Chances + s.Round*s.Inputs + 1 + 4 + s.Keys)
	if others > 0 {
		n, ints = n+8*(others+len(s.Others)+8+s.Offers()*others), ints+1
	}
	n += (s.Elites + s.Round) * aligned(24+8*others+places, 8)
	if s.Width > 0 {
		n += 8 * (s.Cells + (s.Width+s.Swept)*(s.Inputs+3) + (2*w.Horizon+1)*w.Spec.MeasuredSize())
	}
	n += s.Offers()*places + s.Round
	if s.Map != nil {
		n = aligned(n, 4) + 4*s.Map.Spec.PlanSize()
	}
	return aligned(aligned(n, 4)+4*(ints+2*s.RuleSize), 8)
}
