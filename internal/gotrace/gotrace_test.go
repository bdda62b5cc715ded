package gotrace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/equations/program"
	"github.com/gpc-engine/gpc/internal/testing/constructs"
)

func load(t *testing.T, main Source) *Package {
	t.Helper()
	p, err := Load(main, Source{"github.com/gpc-engine/gpc/equations/dual", dual.Source})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// traced is case i of a list as a function.
func traced(t *testing.T, p *Package, list string, i int) (*program.Function, error) {
	t.Helper()
	o, err := p.Run(list, i)
	if err != nil {
		t.Fatal(err)
	}
	f, err := o.Field("F")
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	b := program.NewBuilder("f", program.Argument{Name: "x", Size: constructs.Size})
	after, _, err := f.Trace(b, []string{"x", "y"}, Values(b.In(0)), make([]Entry, constructs.Size))
	if err != nil {
		return nil, err
	}
	results := make([]program.Value, constructs.Size)
	for k, e := range after[1] {
		v, ok := e.Written()
		if !ok {
			return nil, fmt.Errorf("y[%d] is not written", k)
		}
		results[k] = v
	}
	return b.Function([]program.Argument{{Name: "y", Size: constructs.Size}}, results), nil
}

// What Go computes its program computes, to the bit.
func TestConstructs(t *testing.T) {
	p := load(t, Source{"constructs", constructs.Source})
	rng := rand.New(rand.NewPCG(1, 2))
	for i, c := range constructs.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			f, err := traced(t, p, "Numbered", i)
			if err != nil {
				t.Fatal(err)
			}
			for range 300 {
				x, want, got := make([]float64, 4), make([]float64, 4), make([]float64, 4)
				for k := range x {
					if x[k] = 2*rng.Float64() - 1; rng.IntN(10) == 0 {
						x[k] = 0
					}
				}
				c.F(slices.Clone(x), want)
				f.Evaluate(x, got)
				for k := range want {
					same := math.Float64bits(got[k]) == math.Float64bits(want[k])
					if runtime.GOARCH != "amd64" { // products and sums may be fused there
						same = math.Abs(got[k]-want[k]) <= 1e-12*(1+math.Abs(want[k]))
					}
					if !same {
						t.Fatalf("y[%d] is %v, by the program %v, at %v", k, want[k], got[k], x)
					}
				}
			}
		})
	}
}

// What cannot be followed is refused with its reason and its line.
func TestRefusals(t *testing.T) {
	p := load(t, Source{"constructs", constructs.Source})
	text, err := constructs.Source.ReadFile("constructs.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range constructs.Refused() {
		line := 1 + strings.Count(string(text[:strings.Index(string(text), fmt.Sprintf("// REFUSED %d", i))]), "\n")
		_, err := traced(t, p, "Refusal", i)
		var e *Error
		if !errors.As(err, &e) || !slices.ContainsFunc(strings.Split(c.Name, "|"), func(s string) bool { return strings.Contains(e.Msg, s) }) {
			t.Errorf("%q is refused by %v", c.Name, err)
			continue
		}
		if e.Pos.Filename != "constructs.go" || e.Pos.Line != line {
			t.Errorf("%q is refused at %s, want line %d: %v", c.Name, e.Pos, line, err)
		}
	}
}

// file is a package of one.
func file(text string) Source {
	return Source{"p", fstest.MapFS{"p.go": {Data: []byte("package p\n" + text)}, "p_test.go": {Data: []byte("package p_test\nno Go")}, "other_plan9.go": {Data: []byte("package p\nvar x int = \"\"")}}}
}

// What a package has besides its equations does not matter; what they need and is not here is named.
func TestPartsThatAreNotKnown(t *testing.T) {
	p := load(t, file(`
import (
	"example.com/elsewhere"
	"os"
)
type S struct { F, G, H func(x, y []float64) }
var table = elsewhere.Table(3)
func size() int { return os.Getpid() }
func main() { elsewhere.Main(os.Args) }
func helper() float64 { return elsewhere.Value }
func System(n int) S {
	return S{
		F: func(x, y []float64) { y[0] = float64(n) * x[0] },
		G: func(x, y []float64) { y[0] = helper() },
		H: func(x, y []float64) { y[0] = x[size()] },
	}
}`))
	o, err := p.Run("System", 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ field, want string }{
		{"F", ""}, {"G", "helper, which is not followed (p.go:11:42: undefined: elsewhere.Value)"}, {"H", "size, which is not followed (p.go:9:29: undefined: os.Getpid)"},
	} {
		f, err := o.Field(c.field)
		if err != nil {
			t.Fatal(err)
		}
		b := program.NewBuilder("f", program.Argument{Name: "x", Size: 1})
		_, _, err = f.Trace(b, []string{"x", "y"}, Values(b.In(0)), make([]Entry, 1))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.field, err, c.want)
		}
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		source Source
		want   string
	}{
		{Source{"p", fstest.MapFS{}}, "no Go files"},
		{file("func f( {"), "p.go:2:9"},
	} {
		if _, err := Load(c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	p := load(t, file("func F(x float64) int { return 1 }\nfunc G() (int, int) { return 1, 2 }\nfunc H() int { panic(1) }"))
	for _, c := range []struct {
		name string
		args []any
		want string
	}{
		{"E", nil, "no function E"}, {"F", nil, "1 parameters"}, {"F", []any{1}, "given 1 of type int"}, {"G", nil, "2 results"}, {"H", nil, "p.go:4:21: a panic"},
	} {
		if _, err := p.Run(c.name, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%v: %v, want %s", c.name, c.args, err, c.want)
		}
	}
}
