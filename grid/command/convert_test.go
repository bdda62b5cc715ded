package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A file of PSS/E is solved by its own names, and converted to a case and tables that give the same power flow.
func TestConvert(t *testing.T) {
	raw, folder := "../formats/testdata/wscc9.raw", t.TempDir()
	solved, converted := filepath.Join(folder, "solved"), filepath.Join(folder, "nine.m")
	code, first, log := run("pf", raw, "--csv", solved)
	if code != 0 || !strings.Contains(first, "STATION A") || !strings.Contains(log, "switched shunts stay") {
		t.Fatalf("exit code %d: %s%s", code, first, log)
	}
	buses := string(require.Get(os.ReadFile(filepath.Join(solved, "bus.csv")))(t))
	if !strings.HasPrefix(buses, "bus,type,vm_pu,va_deg,pd_mw,qd_mvar,vmin_pu,vmax_pu,bs_mvar,name\n1,3,1.04,0,0,0,0.95,1.05,0,GEN 1\n") {
		t.Errorf("tables of the solution: %s", buses)
	}
	if code, out, log := run("pf", "convert", raw, "--out", converted, "--csv", folder); code != 0 || out != "wscc9: 9 buses, 3 units, 10 branches\n" {
		t.Fatalf("exit code %d: %s%s", code, out, log)
	}
	branches := string(require.Get(os.ReadFile(filepath.Join(folder, "branch.csv")))(t))
	if !strings.HasPrefix(branches, "fbus,tbus,r,x,b,rateA,rateB,rateC,ratio,angle,status,angmin,angmax,name\n4,5,0.01,0.085,0.076,250,250,250,0,0,1,-360,360,4-5-1\n") {
		t.Errorf("tables of the case: %s", branches)
	}
	code, second, _ := run("pf", converted)
	tables := func(out string) string { return out[strings.Index(out, "\n\n"):] }
	if code != 0 || tables(first) != tables(second) {
		t.Errorf("exit code %d: %s, of the file %s", code, second, first)
	}
	if code, out, _ := run("pf", "convert", converted, "--csv", folder, "--json"); code != 0 || !strings.Contains(out, `"notes":[]`) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, _, _ := run("pf", "convert", raw); code != 2 {
		t.Errorf("without an output: exit code %d", code)
	}
}
