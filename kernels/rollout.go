package kernels

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// The structures of include/domain.cuh.

type rolloutJob struct {
	s, c, cost, margin, plan, best, input, stateOut, contextOut driver.Pointer
	rows, h, project, encode                                    int32
}

type preferenceJob struct {
	weights, slot, semantic, mean, scale driver.Pointer
	adaptive, _                          int32
}

type steeringJob struct {
	state, plan, c, how, sigma, weights, flags driver.Pointer
	gain                                       float64
	rows, ldplan                               int32
}

// priority queues σ and the effective weights of rows of latents.
func (f *flow) priority(t *driver.Thread, rows int, job *steeringJob, preference *preferenceJob, inverseRange driver.Pointer) error {
	return f.backend.launch(t, "gpc_domain_priority_"+f.code, driver.Dim{X: ceil(rows, 128)}, 128, 0,
		driver.Struct(job), driver.Struct(preference), driver.Address(f.constants), driver.Address(inverseRange))
}

// semanticOf packs eq. iclr-semantic: k/ε of each objective, then ρ.
func semanticOf(spec *domain.Spec) []float64 {
	m := spec.Semantic
	v := make([]float64, 0, len(m.K)+1)
	for i, k := range m.K {
		v = append(v, k/m.Epsilon[i])
	}
	return append(v, m.Rho)
}
