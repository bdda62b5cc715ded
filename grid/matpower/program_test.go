package matpower_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/formats"
	"github.com/gpc-engine/gpc/grid/matpower"
	_ "github.com/gpc-engine/gpc/grid/matpower/cases"
)

const three = `function mpc = three
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
1 3 0 0 0 0 1 1 0 110 1 1.1 0.9;
2 1 20 10 0 0 1 1 0 110 1 1.1 0.9;
5 1 30 15 0 0 1 1 0 110 1 1.1 0.9];
mpc.gen = [1 50 0 Inf -Inf 1 100 1 90 0; 2 10 3 Inf -Inf 1 100 1 Inf -Inf; 5 7 2 9 -9 1 100 1 20 0];
mpc.branch = [1 2 0.01 0.1 0 0 0 0 0 0 1; 2 5 0.01 0.1 0 0 0 0 0 0 1];
`

// TestStatementsOfFiles: what case files do with their tables comes to the numbers that MATLAB has.
func TestStatementsOfFiles(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want func(c *matpower.Case) bool
	}{
		"range":            {"mpc.bus(:, 3:4) = mpc.bus(:, 3:4) * 1.5;", func(c *matpower.Case) bool { return c.Bus[1].Pd == 30 && c.Bus[2].Qd == 22.5 }},
		"range to the end": {"mpc.bus(2:end, 3) = 7;", func(c *matpower.Case) bool { return c.Bus[0].Pd == 0 && c.Bus[1].Pd == 7 && c.Bus[2].Pd == 7 }},
		"last":             {"mpc.bus(end, 3) = 7;", func(c *matpower.Case) bool { return c.Bus[1].Pd == 20 && c.Bus[2].Pd == 7 }},
		"comparison":       {"mpc.bus(mpc.bus(:,1)==5, 3) = 50;", func(c *matpower.Case) bool { return c.Bus[1].Pd == 20 && c.Bus[2].Pd == 50 }},
		"and, not":         {"mpc.bus(mpc.bus(:,1)>=2 & ~(mpc.bus(:,1)==5), 3) = 50;", func(c *matpower.Case) bool { return c.Bus[1].Pd == 50 && c.Bus[2].Pd == 30 }},
		"or":               {"mpc.bus(mpc.bus(:,1) < 2 | mpc.bus(:,1) ~= 2, 3) = 4;", func(c *matpower.Case) bool { return c.Bus[0].Pd == 4 && c.Bus[1].Pd == 20 && c.Bus[2].Pd == 4 }},
		"find": {"k = find(isinf(mpc.gen(:, 4)) & isinf(mpc.gen(:, 9)));\nmpc.gen(k, 9) = mpc.gen(k, 2); mpc.gen(k, 10) = mpc.gen(k, 2);",
			func(c *matpower.Case) bool { return c.Gen[1].PMax == 10 && c.Gen[1].PMin == 10 && c.Gen[0].PMax == 90 }},
		"find none":   {"k = find(mpc.gen(:, 2) > 99); mpc.gen(k, 9) = mpc.gen(k, 2);", func(c *matpower.Case) bool { return c.Gen[0].PMax == 90 }},
		"row":         {"mpc.gen(3, :) = [5 8 2 9 -9 1 100 1 25 0];", func(c *matpower.Case) bool { return c.Gen[2].Pg == 8 && c.Gen[2].PMax == 25 }},
		"row removed": {"mpc.gen(2, :) = [];", func(c *matpower.Case) bool { return len(c.Gen) == 2 && c.Gen[1].Bus == 5 && c.Gen[1].PMax == 20 }},
		"if":          {"fixed = 1;\nif fixed\n mpc.bus(2, 3) = 1;\nelse\n mpc.bus(2, 3) = 2;\nend\nmpc.bus(3, 3) = 3;", func(c *matpower.Case) bool { return c.Bus[1].Pd == 1 && c.Bus[2].Pd == 3 }},
		"if not": {"fixed = 0;\nif fixed && 1\n if fixed, mpc.bus(2, 3) = 5; end\n mpc.bus(2, 3) = 1;\nelseif fixed == 0\n mpc.bus(2, 3) = 2;\nelse\n mpc.bus(2, 3) = 3;\nend\nmpc.bus(3, 3) = 3;",
			func(c *matpower.Case) bool { return c.Bus[1].Pd == 2 && c.Bus[2].Pd == 3 }},
		"if none": {"if 0\n mpc.bus(2, 3) = 1;\nend\nif 1, if 1, mpc.bus(3, 3) = 4; end, mpc.bus(2, 4) = 6; end", func(c *matpower.Case) bool { return c.Bus[1].Pd == 20 && c.Bus[2].Pd == 4 && c.Bus[1].Qd == 6 }},
	} {
		if c := read(t, three+test.text); !test.want(c) {
			t.Errorf("%s: buses %+v, generators %+v", name, c.Bus, c.Gen)
		}
	}
	for text, want := range map[string]string{
		"if 0\nmpc.bus(2,3) = 1;":     `x.m:10: the "if" here has no "end"`,
		"mpc = scale_load(1.1, mpc);": "x.m:10: scale_load(…) cannot be evaluated",
		"mpc = loadcase('no_such');":  `x.m:10: no case "no_such"`,
		"mpc = loadcase('../x');":     `x.m:10: no case "../x"`,
		"mpc.bus(4:9, 3) = 1;":        "x.m:10: there is no row 4: there are 3",
	} {
		_, err := matpower.Read("x.m", strings.NewReader(three+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestLoadcase: a file that loads another, or a network of the program, has its tables and changes them.
func TestLoadcase(t *testing.T) {
	c := read(t, "function mpc = mine\nmpc = loadcase('case9');\nmpc.bus(:, 3:4) = mpc.bus(:, 3:4) * 2;\nmpc.baseMVA = 50;\n")
	if c.Name != "mine" || len(c.Bus) != 9 || c.Bus[4].Pd != 180 || c.Bus[4].Line != 2 || c.BaseMVA != 50 || !c.HasCost {
		t.Errorf("%s: %d buses, %+v, base %g", c.Name, len(c.Bus), c.Bus[4], c.BaseMVA)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"three.m": three, "mine.m": "function mpc = mine\nmpc = three;\nmpc.bus(2, 3) = 21;", "self.m": "mpc = loadcase('self');"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := formats.ReadFile(filepath.Join(dir, "mine.m"))
	if err != nil || len(c.Gen) != 3 || c.Bus[1].Pd != 21 {
		t.Errorf("%v, %+v", err, c)
	}
	if _, err := formats.ReadFile(filepath.Join(dir, "self.m")); err == nil || !strings.Contains(err.Error(), "load one another") {
		t.Errorf("a file that loads itself: %v", err)
	}
}
