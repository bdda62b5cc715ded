package main

import (
	"fmt"
	"slices"
	"strings"
)

// phase is what kernels of a refinement are for, by the beginnings of their names.
type phase struct {
	name    string
	kernels []string
}

// phasesOfRefinement are in the order of a refinement. A kernel is of the first that names it.
var phasesOfRefinement = []phase{
	{"codes: localization, distances, neighbours", []string{"gpc_search", "gpc_localize", "gpc_refine_distances", "gpc_refine_neighbours"}},
	{"flow of the proposals: fields, metric, eigenpairs", []string{"gpc_mlp_vjp", "gpc_jacobian", "gpc_eig", "gpc_step", "gpc_domain_gradient", "gpc_domain_base"}},
	{"networks of the proposals: the base policy at 19 steps, flow, preferences", []string{"gpc_mlp_forward"}},
	{"networks of the rounds: the base policy at 20 steps", []string{"gpc_mlp_bent"}},
	{"roll-out in float64", []string{"gpc_domain_rollout"}},
	{"drawing, choice, priority", []string{"gpc_rollout", "gpc_refine", "gpc_domain_priority"}},
}

// of is the phase that a kernel is of, by its place.
func phaseOf(kernel string) int {
	return slices.IndexFunc(phasesOfRefinement, func(p phase) bool {
		return slices.ContainsFunc(p.kernels, func(begin string) bool { return strings.HasPrefix(kernel, begin) })
	})
}

// phases lays a refinement of the convex integrator out by phase, and what bounds each.
func phases(list []Record) string {
	var s strings.Builder
	s.WriteString("| phase of a refinement of 4096, `integrator-convex` | precision | launches | kernels | blocks a launch | instructions of warps, million | float32, float64, tensor, others % | least µs | bound by |\n|---|---|---:|---|---:|---:|---:|---:|---|\n")
	for i, p := range phasesOfRefinement {
		for _, precision := range []string{"fp32", "tf32"} {
			var row total
			for _, r := range list {
				if r.Of == "refine" && r.Case == "integrator-convex" && r.Precision == precision && phaseOf(r.Kernel) == i && r.OfOneCall > 0 {
					row.add(r)
				}
			}
			if row.launches == 0 {
				continue
			}
			share := func(class string) float64 { return 100 * row.classes[class] / row.instructions }
			single, double, tensor := share("float32"), share("float64"), share("tensor")
			fmt.Fprintf(&s, "| %s | %s | %d | %s | %.0f | %.3g | %.0f, %.0f, %.0f, %.0f | %.0f | %s |\n", p.name, precision, row.launches, strings.Join(row.kernels, ", "),
				row.blocks/float64(row.launches), row.instructions/1e6, single, double, tensor, 100-single-double-tensor, row.least, row.bound())
		}
	}
	return s.String()
}

// total adds the kernels of a phase up.
type total struct {
	launches             int
	kernels              []string
	blocks, instructions float64
	classes, bounds      map[string]float64
	least                float64
}

func (t *total) add(r Record) {
	if t.classes == nil {
		t.classes, t.bounds = map[string]float64{}, map[string]float64{}
	}
	t.launches += r.OfOneCall
	t.kernels = append(t.kernels, "`"+strings.TrimPrefix(r.Kernel, "gpc_")+"`")
	t.blocks += float64(r.Blocks) * float64(r.OfOneCall) / float64(r.Launches)
	for class, n := range r.Instructions {
		t.classes[class] += float64(n) * r.scale()
		t.instructions += float64(n) * r.scale()
	}
	least, by, _ := r.bounds()
	t.least += least
	t.bounds[by] += least
}

// bound is what the largest part of the least time is of.
func (t *total) bound() string {
	most := ""
	for _, name := range limits {
		if t.bounds[name] > t.bounds[most] {
			most = name
		}
	}
	return most
}
