package gpc

import (
	"slices"

	"github.com/gpc-engine/gpc/baselines/policy"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// Methods are all ways to decide in the case, in the order of its tables: the
// navigator's variants where the case has a map about its own problem, then the
// case's own, then those of closedloop.Rows and policy.Methods with names that are not
// among them.
func (c *Case) Methods() []domain.Method {
	var all []domain.Method
	if c.def.Learned == nil && (c.def.Solver != nil || c.Spec().Training.Latent > 0) {
		all = batchnav.Methods(c.def.Problem, c.guarded())
	}
	all = append(all, c.def.Methods...)
	for _, m := range slices.Concat(closedloop.Rows(&c.def), policy.Methods(&c.def, c.trained())) {
		if !slices.ContainsFunc(all, func(o domain.Method) bool { return o.Name == m.Name }) {
			all = append(all, m)
		}
	}
	return all
}

// DefaultMethod is the first of Methods: Algorithm 2 whole, or what the case has in its place; ""
// where there is no method at all.
func (c *Case) DefaultMethod() string {
	if all := c.Methods(); len(all) > 0 {
		return all[0].Name
	}
	return ""
}

// MethodName is the present name of a method by any that it had, "" for DefaultMethod; what no
// method of the case is called stays as it is.
func (c *Case) MethodName(name string) string {
	if m, err := c.method(name); err == nil {
		return m.Name
	}
	return name
}

// trained is the problem that the case's policies are made for, nil where it is not at hand.
func (c *Case) trained() domain.Problem {
	switch {
	case len(c.def.Shift) == 0 && !c.remade:
		return c.def.Problem
	case c.def.Learned == nil:
		return c.unshifted // nil: a trace embeds the shifted plant
	}
	return nil
}
