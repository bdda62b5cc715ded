package gpc_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Check has remarks on the integrator too. Findings are of a system of one's own: the cases of a program with maps have tests.
func TestACaseIsChecked(t *testing.T) {
	text := string(require.Get(os.ReadFile("equations/systemfile/testdata/crane.json"))(t))
	text = strings.Replace(text, `"span_s":0.1`, `"span_s":0.6`, 1)
	text = strings.Replace(text, `["mul",11,11],["mul",8,8]`, `["floor",11],["mul",8,8]`, 1)
	c := require.Get(gpc.SystemText([]byte(text)))(t)
	all, found := c.Check(), c.Findings()
	last := all[len(all)-1]
	if len(all) != len(found)+1 || last.Severity != diagnosis.Remark || last.Function != "ode" || !strings.HasSuffix(last.Message, ")") || !strings.HasPrefix(last.Fix, "give ode substeps=") {
		t.Errorf("all are %+v, the equations' %+v", all, found)
	}
	if found.Fatal() != nil || found[0].Subject != "objective position" {
		t.Errorf("they are %+v", found)
	}
	for models, want := range map[bool]bool{true: false, false: true} {
		k := gpc.Catalogue{Cases: []domain.Case{*c.Definition()}}
		if models {
			k.Models = fstest.MapFS{}
		}
		if own := require.Get(k.Find("crane"))(t); (own.Findings() != nil) != want || len(own.Check()) != len(all) {
			t.Errorf("with maps: %t; it has %+v", models, own.Findings())
		}
	}
}
