// Package paper is the catalogue of the paper's four cases with their bundled maps,
// and of the dispatch of any other network by its file.
package paper

import (
	"strings"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/integrator"
	"github.com/gpc-engine/gpc/paper/models"
	"github.com/gpc-engine/gpc/paper/multiagent"
	"github.com/gpc-engine/gpc/paper/opf"
)

// Cases returns the catalogue: integrator-convex, integrator-nonconvex,
// multiagent-static, multiagent-moving, opf30, opf30-uncertain, opf-secure, and opf:FILE.m and
// opf-secure:FILE.m.
func Cases() gpc.Catalogue {
	return gpc.Catalogue{
		Cases: []domain.Case{
			integrator.Convex(), integrator.Nonconvex(), multiagent.Static(), multiagent.Moving(),
			opf.Thirty(), opf.ThirtyUncertain(), opf.Secure(),
		},
		Open:     open,
		Embedded: opf.Embedded,
		Models:   models.Bundled,
	}
}

// open makes the case of a network: opf:FILE.m or opf-secure:FILE.m.
func open(name string) (domain.Case, bool, error) {
	if strings.HasPrefix(name, opf.SecurePrefix) {
		c, err := opf.SecureFromFile(name)
		return c, true, err
	}
	if !strings.HasPrefix(name, opf.FilePrefix) {
		return domain.Case{}, false, nil
	}
	c, err := opf.FromFile(name)
	return c, true, err
}
