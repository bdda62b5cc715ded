package acopf

import "math"

// Sizes of Preferences.
const (
	simplexSteps      = 5 // 21 points of the lattice on the simplex, edges and corners among them
	logarithmicPoints = 29
	minShare          = 1e-4 // of the two penalties together, next to the economic corner
)

// Preferences are the 50 weights of a sweep over the three objectives. Some form a lattice on the simplex with its
// edges. The others are a logarithmic design towards the economic corner (0, 0, 1), where cost trades off against
// the penalties. There the share of both penalties falls from 1 to 10⁻⁴ in equal ratios and is divided between them
// in quarters. The order is by falling share of cost, so that neighbours are alike.
func Preferences() [][3]float64 {
	var out [][3]float64
	for i := range logarithmicPoints {
		share := math.Pow(minShare, 1-float64(i)/logarithmicPoints)
		thermal := share * float64(i%5) / 4
		out = append(out, [3]float64{thermal, share - thermal, 1 - share})
	}
	for cost := simplexSteps; cost >= 0; cost-- {
		remaining := simplexSteps - cost
		for k := range remaining + 1 {
			thermal := k
			if cost%2 == 0 {
				thermal = remaining - k
			}
			out = append(out, [3]float64{float64(thermal) / simplexSteps, float64(remaining-thermal) / simplexSteps, float64(cost) / simplexSteps})
		}
	}
	return out
}
