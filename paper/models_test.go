package paper_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/paper/models"
)

// Every bundled map is accepted by its case as it is now, and every case of the catalogue has one.
func TestBundledMapsFit(t *testing.T) {
	catalogue := paper.Cases()
	for _, file := range require.Get(fs.Glob(models.Bundled, "*.safetensors"))(t) {
		require.Get(require.Get(catalogue.Find(strings.TrimSuffix(file, ".safetensors")))(t).Model(""))(t)
	}
	for _, c := range catalogue.All() {
		if !c.Bundled() {
			t.Errorf("case %s has no bundled map", c.Name())
		}
	}
}
