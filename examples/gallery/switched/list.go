// Package switched collects control problems whose inputs are switched: pumps and valves that are open or closed,
// modes, gears. Seven are of mintOC, the library of mixed-integer optimal control (https://mintoc.de; Sager, "A
// benchmark library of mixed-integer optimal control problems", 2012). Their starts vary; each says what else differs.
//
// An integral cost is a state, as in mintOC, and its growth is the cost of a decision. The sum of the costs of an
// episode is then the cost of the problem, integrated as the dynamics are.
package switched

import (
	"embed"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
)

//go:embed *.go
var source embed.FS

func v(name, unit string, lo, hi float64) domain.Variable {
	return domain.Variable{Name: name, Unit: unit, Lo: lo, Hi: hi}
}

// withoutRanges are the variables without their ranges.
func withoutRanges(list []domain.Variable) []domain.Variable {
	all := make([]domain.Variable, len(list))
	for i, o := range list {
		all[i] = v(o.Name, o.Unit, 0, 0)
	}
	return all
}

// last is 1 in the last of an episode's decisions, else 0: the weight of a cost of the final state.
func last[T dual.Scalar](clock T, decisions float64) T {
	return dual.Max(0, dual.Min(1, dual.Const[T](decisions)*clock-dual.Const[T](decisions-2)))
}

// rise goes from 0 to 1 about x = 0.
func rise[T dual.Scalar](x T) T { return 0.5 + 0.5*dual.Tanh(x) }

// positive is the positive part of x, rounded off within about width.
func positive[T dual.Scalar](x T, width float64) T {
	w := dual.Const[T](width)
	return 0.5 * (x + dual.Sqrt(x*x+w*w))
}

// indicator is 1 where u is the mode i of the modes 1 to n, and 0 at the others: Lagrange's polynomial.
func indicator[T dual.Scalar](u T, i, n int) T {
	share := dual.Const[T](1)
	for k := 1; k <= n; k++ {
		if k != i {
			share *= (u - dual.Const[T](float64(k))) * dual.Const[T](1/float64(i-k))
		}
	}
	return share
}

// root is a square root that stays finite where a tank runs dry.
func root[T dual.Scalar](level T) T { return dual.Sqrt(dual.Max(1e-6, level)) }
