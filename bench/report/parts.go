package report

import (
	"strings"
)

// ablated are the parts of Algorithm 2 that the paper names, by what their ablations end in.
var ablated = []string{"-no-semantic", "-no-rollout", "-no-lie", "-no-retraction"}

// unprojected is what an ablation without the projection ends in.
const unprojected = "-no-projection"

// WholeOf is the method that an ablation of the paper's is one of.
func WholeOf(ablation string) (whole string, is bool) {
	for _, part := range ablated {
		if whole, is = strings.CutSuffix(ablation, part); is {
			return whole, whole == AlgorithmTwo || whole == Planner
		}
	}
	return "", false
}
