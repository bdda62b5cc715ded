package paper_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domains/paper"
	"github.com/gpc-engine/gpc/domains/paper/models"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every bundled map is one of its case as it is now. A dash behind the first word of a name may be a case's colon.
func TestBundledMapsFit(t *testing.T) {
	catalogue := paper.Cases()
	files := require.Get(fs.Glob(models.Bundled, "*.safetensors"))(t)
	for _, file := range files {
		name := strings.TrimSuffix(file, ".safetensors")
		if of, ok := strings.CutPrefix(name, "opf-secure-"); ok {
			name = "opf-secure:" + of
		}
		c := require.Get(catalogue.Find(name))(t)
		if !c.Bundled() {
			t.Errorf("case %s finds no bundled map", name)
			continue
		}
		require.Get(c.Model(""))(t)
	}
	for _, c := range catalogue.All() {
		if !c.Bundled() {
			t.Errorf("case %s has no bundled map", c.Name())
		}
	}
}

// A network of the same name and size with other numbers is not that of the bundled map.
func TestBundledMapRefusesAnotherNetwork(t *testing.T) {
	const base = "pglib_opf_case118_ieee"
	text := require.Get(cases.Text(base))(t)
	other := bytes.Replace(text, []byte("mpc.baseMVA = 100.0"), []byte("mpc.baseMVA = 100.5"), 1)
	if bytes.Equal(other, text) {
		t.Fatal("the file is as it was")
	}
	path := filepath.Join(t.TempDir(), base+".m")
	require.OK(t, os.WriteFile(path, other, 0o600))
	catalogue := paper.Cases()
	for _, name := range []string{path, base + ".m,emergency=1.2", base + ".m,outages=units"} {
		c := require.Get(catalogue.Find("opf-secure:" + name))(t)
		if _, err := c.Model(""); err == nil {
			t.Errorf("%s takes the bundled map", name)
		}
	}
}
