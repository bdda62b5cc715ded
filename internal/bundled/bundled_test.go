package bundled

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
)

// Every case is in a group that lists show, every group has one, and names and maps are those of one catalogue.
func TestEveryCaseIsInAGroup(t *testing.T) {
	k := Cases()
	if err := k.Validate(); err != nil {
		t.Error(err)
	}
	for i, name := range k.Names() {
		if of := k.All()[i].Name(); of != name {
			t.Errorf("case %s is named %s", of, name)
		}
	}
	seen, maps := map[string]bool{}, map[string]bool{}
	for _, c := range k.All() {
		group := c.Describe().Group
		seen[group] = true
		if !slices.ContainsFunc(k.Groups, func(g gpc.Group) bool { return g.Name == group }) {
			t.Errorf("%s is in group %q", c.Name(), group)
		}
		if c.Bundled() {
			maps[group] = true
			if _, err := c.Model(""); err != nil {
				t.Error(err)
			}
		}
	}
	if len(seen) != len(k.Groups) || len(maps) != len(k.Groups) {
		t.Errorf("groups with cases %v, with maps %v", seen, maps)
	}
}

// A case has a few methods to choose from, its first among them, no ablation, and none that needs a file of weights.
func TestMethodsToChooseFromAreFew(t *testing.T) {
	k := Cases()
	for _, c := range k.All() {
		var shown []string
		for _, m := range c.DescribeMethods() {
			if m.Shown {
				shown = append(shown, m.Name)
			}
			if m.Shown && (m.Group == "ablation" || m.Weights) {
				t.Errorf("%s shows %s", c.Name(), m.Name)
			}
		}
		if len(shown) < 3 || len(shown) > 10 || !slices.Contains(shown, c.DefaultMethod()) {
			t.Errorf("%s has %v to choose from", c.Name(), shown)
		}
	}
}
