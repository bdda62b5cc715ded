package published_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/published"
	"github.com/gpc-engine/gpc/paper"
)

// The paper's tables with numbers, row by row as they are typeset, a cell without a number as "-".
// "a±b" is a mean with its standard error; "x/y" in one cell is of two methods.
var tables = []struct {
	name    string
	columns string // fields of published.Row, or reference.FIELD, steps; "" is no number
	rows    string // case method, then the cells
}{
	{"analytical", "Regret Obstacle Slew Fail Milliseconds", `
integrator-convex oracle 0.00 0.0 0.0 0 offline
integrator-convex td3 8.95±0.40 0.08 52.5 99 0.11
integrator-convex cpo 382.5±9.91 0.0 0.0 0 0.10
integrator-convex mpc 9.93±0.51 0.0 0.0 0 1025
integrator-convex online 7.90±0.35 0.0 0.0 67 0.03
integrator-convex gpc 0.043±0.011 0.0 0.0 0 0.78
integrator-nonconvex oracle 0.00 0.0 0.0 0 offline
integrator-nonconvex td3 15.11±0.68 0.07 75.6 100 0.21
integrator-nonconvex cpo 370.6±9.59 0.0 0.0 0 0.24
integrator-nonconvex mpc 9.43±0.52 0.0 0.0 0 1230
integrator-nonconvex online 7.90±0.38 0.0 0.0 79 14.65
integrator-nonconvex gpc 0.050±0.011 0.0 0.0 0 0.97`},
	{"iclr-main-results, navigation", "Joint Collision Safe Margin Gap Milliseconds", `
multiagent-static gpc 100 100 100 0.301 0.28 -
multiagent-static reference - - 60 - 0.00 solver
multiagent-static ppo 0 5 0 -0.558 - policy
multiagent-static ppo-lagrangian 0 5 0 -0.540 - policy
multiagent-static cpo 0 13 0 -0.467 - policy
multiagent-static ppo-shielded 0 8 0 -0.429 - policy
multiagent-moving gpc 99 100 99 0.203 -3.43 -
multiagent-moving reference 83 42 35 - 0.00 solver
multiagent-moving ppo 0 0 0 -0.663 - policy
multiagent-moving ppo-lagrangian 0 0 0 -0.672 - policy
multiagent-moving cpo 0 0 0 -0.637 - policy
multiagent-moving ppo-shielded 0 0 0 -0.567 - policy`},
	{"iclr-main-results, OPF", "Feasible Violations Gap Milliseconds", `
opf30-uncertain mo-opf 100.0 0 0.00 ≫1000
opf30-uncertain gpc 100.0 0 0.25 12.6
opf30-uncertain mpc 99.67 1 0.23 1228.7
opf30-uncertain td3 0.0 300 91.8 <1
opf30-uncertain cpo 0.0 300 30.1 <1`},
	{"multiagent-navigation", "steps Safe Collision reference.Safe reference.Fail Gap", `
multiagent-static gpc 150 100 100 60 40 0.28
multiagent-moving gpc 600 99 100 35 65 -3.43`},
	{"multiagent-navigation-margins", "Margin EgoMargin AgentMargin PairMargin", `
multiagent-static gpc 0.301 0.900 0.503 2.477
multiagent-moving gpc 0.203 0.528 0.253 1.065`},
	{"case2-benchmark", "Total Feasible Gap Milliseconds", `
opf30 mo-opf 360.00 100.0 0.00 ≫1000
opf30 runopf 360.03 100.0 0.01 ≫1000
opf30 gpc 361.08 100.0 0.30 12.3
opf30 mpc 360.99 100.0 0.28 1193.8
opf30 cpo 519.78 0.0 44.4 0.19
opf30 td3 743.77 0.0 106.6 0.17`},
	{"uncertainty-benchmark", "Total Feasible StepGap Milliseconds", `
opf30-uncertain mo-opf 294.55 100.0 0.0 ≫1000
opf30-uncertain gpc 295.28 100.0 0.74 12.6
opf30-uncertain mpc 295.23 99.67 0.67 1228.7
opf30-uncertain cpo 383.37 0.00 88.8 0.18
opf30-uncertain td3 565.04 0.00 270.5 0.16`},
	{"the text of Case 3", "StepGap", `
opf30 gpc 1.08`},
}

// Every number of those tables is in the rows of the cases, and the rows have no others.
func TestEveryCellOfThePapersTablesIsThere(t *testing.T) {
	catalogue := paper.Cases()
	rows, steps := map[string]map[string]published.Row{}, map[string]int{}
	for _, c := range catalogue.All() {
		rows[c.Name()], steps[c.Name()] = published.Rows[c.Name()], c.Definition().Problem.Spec().Steps
	}
	// What the paper calls GPC is each case's default method.
	named := func(name, method string) string { return require.Get(catalogue.Find(name))(t).MethodName(method) }
	given, cells := map[string]bool{}, 0
	for _, table := range tables {
		columns := strings.Fields(table.columns)
		for line := range strings.Lines(strings.TrimSpace(table.rows)) {
			fields := strings.Fields(line)
			name, method, values := fields[0], fields[1], fields[2:]
			if len(values) != len(columns) {
				t.Fatalf("%s, %s %s: %d cells of %d columns", table.name, name, method, len(values), len(columns))
			}
			for k, cell := range values {
				of, column := method, columns[k]
				if before, after, found := strings.Cut(column, "."); found {
					of, column = before, after
				}
				of = named(name, of)
				at := fmt.Sprintf("%s, %s %s %s", table.name, name, of, column)
				row, ok := rows[name][of]
				if !ok {
					t.Fatalf("%s: no row", at)
				}
				read := func(field, text string) {
					var want float64
					if _, err := fmt.Sscan(text, &want); err != nil {
						t.Fatalf("%s: %q: %v", at, text, err)
					}
					if got := reflect.ValueOf(row).FieldByName(field).Float(); got != want {
						t.Errorf("%s is %v, want %v", at, got, want)
					}
					given[name+" "+of+" "+field] = true
					cells++
				}
				mean, sem, estimated := strings.Cut(cell, "±")
				switch {
				case cell == "-":
				case column == "steps":
					if fmt.Sprint(steps[name]) != cell {
						t.Errorf("%s: %d, want %s", at, steps[name], cell)
					}
					cells++
				case cell == "<1":
					if !(row.Milliseconds < 1) {
						t.Errorf("%s is %v, want less than 1", at, row.Milliseconds)
					}
					cells++
				case strings.Trim(cell, "0123456789.-±") != "":
					if strings.TrimSuffix(strings.ReplaceAll(row.Time, " ", ""), "ms") != cell {
						t.Errorf("%s is said to be %q, want %q", at, row.Time, cell)
					}
				default:
					read(column, mean)
					if estimated {
						read(column+"SEM", sem)
					}
				}
			}
		}
	}
	// Tab. analytical has 58 numbers and 10 errors, the two parts of iclr-main-results 48 and, with what
	// two methods share twice, 19; the next four 12, 8, 22 and 19, the text one.
	if want := 58 + 10 + 48 + 19 + 12 + 8 + 22 + 19 + 1; cells != want {
		t.Errorf("%d numbers were compared, the tables have %d", cells, want)
	}
	for name, methods := range rows {
		for method, row := range methods {
			v := reflect.ValueOf(row)
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if f.Type.Kind() == reflect.Float64 && !math.IsNaN(v.Field(i).Float()) && !given[name+" "+method+" "+f.Name] {
					t.Errorf("%s %s has %s %v, which is in none of the tables", name, method, f.Name, v.Field(i).Float())
				}
			}
		}
	}
}
