package cli

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/tensor"
)

// untimedUsage is of records of methods on the same episodes.
const untimedUsage = "leave times and load out of the record, for a machine that does other work"

func (a *App) pairCommand() *cobra.Command {
	var opt closedloop.Options
	var texts, constants, computing []string
	var first string
	var untimed bool
	var modelFile string
	var scenes, guard alteration
	var limit func() (closedloop.LoadLimit, error)
	cmd := &cobra.Command{
		Use:   "pair CASE --methods NAME[@CANDIDATES][:EPISODES][=FILE],…",
		Short: "Compare methods on the same episodes, each with the first, with 95 % intervals",
		Args:  ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.meter.begin("open " + args[0])
			c, err := a.Find(args[0])
			if err != nil {
				return err
			}
			a.warn(c, diagnosis.Error, diagnosis.Remark)
			methods, err := contenders(texts)
			if err != nil {
				return err
			}
			all, byMethod, err := computingOfMethods(computing)
			if err != nil {
				return err
			}
			opt.Computing = all
			for i := range methods {
				methods[i].Computing = byMethod[methods[i].Method]
			}
			for name := range byMethod {
				if !slices.ContainsFunc(methods, func(m gpc.Contender) bool { return m.Method == name }) {
					return BadInputf("--computing names the method %s, want one of --methods", name)
				}
			}
			if methods, err = withConstants(methods, first, constants); err != nil {
				return err
			}
			if c, err = alter(c, uncertainGains(cmd), scenes, guard); err != nil {
				return err
			}
			if opt.Limit, err = limit(); err != nil {
				return err
			}
			opt.Progress, opt.CheckIntegration = a.Progress(c.Name()), true
			result, err := c.Pair(cmd.Context(), methods, modelFile, a.Engine(), opt)
			if err != nil {
				return err
			}
			if untimed {
				result.Untimed()
			}
			return a.Print(result, func(w io.Writer) { renderPairing(w, result) })
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&texts, "methods", nil, "`methods` to compare, each with the first; NAME@N searches N candidates, NAME:N runs only the first N episodes, NAME=FILE takes a map or weights of its own")
	f.StringArrayVar(&constants, "constant", nil, "`NAME=VALUE,…`: the first method again, with these constants of the online step in place of its own; repeatable, a row each: "+strings.Join(gpc.Constants(), ", "))
	f.StringVar(&first, "first-constant", "", "`NAME=VALUE,…`: the first method with these constants of the online step, and every row of --constant")
	f.StringArrayVar(&computing, "computing", nil, computingUsage+"; NAME=… for one of the methods; repeatable")
	f.BoolVar(&untimed, "untimed", false, untimedUsage)
	f.StringVar(&modelFile, "model", "", "model file (default: the bundled map)")
	f.IntVar(&opt.Threads, "parallel", 1, "episodes run side by side")
	scenes = a.sceneFlags(cmd, &opt)
	guard, limit = guardFlags(cmd), LimitFlags(cmd)
	return cmd
}

// contenders reads the methods of --methods, each NAME[@CANDIDATES][:EPISODES][=FILE].
func contenders(texts []string) ([]gpc.Contender, error) {
	if len(texts) == 0 {
		return nil, BadInputf("--methods is required: the methods to compare, the first with each of the others")
	}
	var all []gpc.Contender
	for _, text := range texts {
		var m gpc.Contender
		var episodes string
		var fewer bool
		m.Method, m.File, _ = strings.Cut(text, "=")
		if m.Method, episodes, fewer = strings.Cut(m.Method, ":"); fewer {
			var err error
			if m.Episodes, err = strconv.Atoi(episodes); err != nil || m.Episodes < 1 {
				return nil, BadInputf("--methods %s: want NAME[@CANDIDATES][:EPISODES][=FILE],…", text)
			}
		}
		if name, number, other := strings.Cut(m.Method, "@"); other {
			var err error
			if m.Candidates, err = strconv.Atoi(number); err != nil || m.Candidates < 1 || m.Candidates > batchnav.MaxCandidates {
				return nil, BadInputf("--methods %s: %q candidates, want 1 to %d", text, number, batchnav.MaxCandidates)
			}
			m.Method = name
		}
		if m.Method == "" {
			return nil, BadInputf("--methods has an entry without a name: want NAME[@CANDIDATES][:EPISODES][=FILE],…")
		}
		all = append(all, m)
	}
	return all, nil
}

// withConstants gives the first method the constants of --first-constant, and adds it once for each --constant with those
// of it as well.
func withConstants(methods []gpc.Contender, first string, rows []string) ([]gpc.Contender, error) {
	var err error
	if first != "" {
		if methods[0].Constants, err = constantsOf("--first-constant", first); err != nil {
			return nil, err
		}
	}
	for _, text := range rows {
		contender := methods[0]
		if contender.Constants, err = constantsOf("--constant", text); err != nil {
			return nil, err
		}
		for name, v := range methods[0].Constants {
			if _, other := contender.Constants[name]; !other {
				contender.Constants[name] = v
			}
		}
		methods = append(methods, contender)
	}
	return methods, nil
}

// constantsOf reads the constants of a flag, NAME=VALUE,….
func constantsOf(flag, text string) (map[string]float64, error) {
	all := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(part, "=")
		v, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || !tensor.Finite([]float64{v}) {
			return nil, BadInputf("%s %q: want NAME=VALUE, such as epsilon=0.05", flag, part)
		}
		all[name] = v
	}
	return all, nil
}

// contenderText is a row's method with what it has in place of its own.
func contenderText(m *closedloop.Paired) string {
	text := m.Method
	if m.Candidates != 0 {
		text += fmt.Sprintf("@%d", m.Candidates)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Constants)) {
		text += fmt.Sprintf(" %s=%g", name, m.Constants[name])
	}
	return text
}

// percents is a number with so many decimals, with two from 10 on and with none from 1000 on: behind four digits none means anything.
func percents(v closedloop.Number, decimals int) string {
	switch size := math.Abs(float64(v)); {
	case size >= 1000:
		decimals = 0
	case size >= 10:
		decimals = min(decimals, 2)
	}
	return v.Text("%." + strconv.Itoa(decimals) + "f")
}

// renderPairing writes what the episodes were driven with, a row for each method, and what guards did.
func renderPairing(w io.Writer, result *closedloop.Pairing) {
	fmt.Fprint(w, conditions{result.Noise, result.Bias, result.Sensing, result.Shift, result.Plant, result.Steps})
	// Costs are of interest where fewer episodes have an optimum to compare with.
	costs := slices.ContainsFunc(result.Pairs[1:], func(r closedloop.Paired) bool { return r.Cost.N > r.Compared })
	head := []string{"method", "episodes", "safe", "95 % interval", "failed", "regret %", "± 95 %", "median", "p90", "max", "less the first's", "± 95 %", "n"}
	if costs {
		head = append(head, "cost above the first's, %", "[95 %]", "n")
	}
	rows := [][]string{append(head, "p50 µs", "p99 µs", "first p50 µs")}
	for _, r := range result.Pairs {
		row := []string{
			contenderText(&r), fmt.Sprint(r.Episodes), fmt.Sprint(r.Safe), fmt.Sprintf("[%.4f, %.4f]", r.SafeCI95[0], r.SafeCI95[1]),
			fmt.Sprint(r.Failed), percents(r.RegretPct, 5), percents(r.RegretCI95, 5), percents(r.Regret.Median, 4), percents(r.Regret.P90, 4), percents(r.RegretWorst, 4),
			percents(r.DifferencePct, 5), percents(r.DifferenceCI95, 5),
			fmt.Sprint(r.Compared),
		}
		if costs {
			row = append(row, percents(r.Cost.Mean, 5), "["+percents(r.Cost.MeanCI95[0], 5)+", "+percents(r.Cost.MeanCI95[1], 5)+"]", fmt.Sprint(r.Cost.N))
		}
		rows = append(rows, append(row, decisionTimes("%.1f", 1, &r.Latency)...))
	}
	Table(w, rows)
	for _, r := range result.Pairs {
		renderLate(w, r.Method, r.Decisions, r.Late, r.Computing)
		renderPrepare(w, r.Method, r.Prepare)
		renderGuard(w, r.Method, r.Decisions, r.Guard)
		renderSoft(w, r.Method, r.Decisions, r.Soft)
		renderBest(w, r.Method, r.BestKnown, r.Episodes)
	}
	if result.SteadyState != "" {
		fmt.Fprintln(w, result.SteadyState)
	}
	for _, m := range result.NoReference {
		fmt.Fprintln(w, m.Text(result.Pairs[0].Episodes))
	}
	if result.Integration != nil {
		fmt.Fprintln(w, result.Integration)
	}
	renderBeyond(w, result.Excursions)
}
