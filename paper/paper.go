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

// Later are the cases by name, none of them made: integrator-convex, integrator-nonconvex, multiagent-static,
// multiagent-moving, opf30, opf30-uncertain, opf-secure.
func Later() []gpc.Later {
	return []gpc.Later{
		{Name: "integrator-convex", Make: integrator.Convex}, {Name: "integrator-nonconvex", Make: integrator.Nonconvex},
		{Name: "multiagent-static", Make: multiagent.Static}, {Name: "multiagent-moving", Make: multiagent.Moving},
		{Name: "opf30", Make: opf.Thirty}, {Name: "opf30-uncertain", Make: opf.ThirtyUncertain}, {Name: "opf-secure", Make: opf.Secure},
	}
}

// Catalogue is that of opf:FILE.m and opf-secure:FILE.m alone, with the maps of all cases.
func Catalogue() gpc.Catalogue {
	return gpc.Catalogue{Open: open, Embedded: opf.Embedded, Models: models.Bundled}
}

// Cases is the catalogue with the cases of Later.
func Cases() gpc.Catalogue {
	k := Catalogue()
	for _, l := range Later() {
		k.Cases = append(k.Cases, l.Make())
	}
	return k
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
