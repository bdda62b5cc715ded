package export_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/paper"
)

// compiler is gcc or what CC names.
func compiler(t testing.TB) string {
	t.Helper()
	name := os.Getenv("CC")
	if name == "" {
		name = "gcc"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no C compiler %s: what is exported is not compiled here", name)
	}
	return path
}

// build compiles an exported folder with its test.
func build(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "main_test")
	args := slices.Concat([]string{"-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffp-contract=off"}, flags, require.Get(filepath.Glob(filepath.Join(dir, "*.c")))(t), []string{"-o", program, "-lm"})
	if out, err := exec.Command(compiler(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", flags, err, out)
	}
	return program
}

// figures are the lines "name value" of a test's output.
func figures(out string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = value
	}
	return all
}

// run compiles and runs the test of an exported folder and returns its figures.
func run(t testing.TB, dir string, flags ...string) map[string]string {
	t.Helper()
	out, err := exec.Command(build(t, dir, flags...)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", flags, err, out)
	}
	return figures(string(out))
}

// order is a way to sum on this machine: a set of Go's kernels, and the flags with which
// C sums in the same order with the same roundings.
type order struct {
	kernels string
	flags   []string
}

// orders are those that this machine has: fused where it has AVX2, and that of Go's own
// kernel, which the compiler for amd64 does not fuse.
func orders() (all []order) {
	if runtime.GOARCH == "amd64" {
		all = append(all, order{"generic", nil})
	}
	for _, l := range isa.Available() {
		if l != isa.Generic {
			all = append(all, order{l.String(), []string{"-DGPC_FMA", "-mfma"}})
		}
	}
	if testing.Short() && len(all) > 2 {
		all = append(all[:1], all[len(all)-1])
	}
	return all
}

// hold exports a map in each order and holds C to it bit for bit, with every set of
// flags.
func hold(t *testing.T, c *gpc.Case, m *model.Model, half bool, variants ...[]string) {
	t.Helper()
	compiler(t)
	found := orders()
	if len(found) == 0 {
		t.Skipf("no kernel on %s whose roundings C can repeat by a flag", runtime.GOARCH)
	}
	for _, o := range found {
		t.Setenv(isa.Environment, o.kernels)
		dir := filepath.Join(t.TempDir(), "c")
		r := require.Get(c.Export(t.Context(), m, gpc.ExportOptions{MapOnly: true, Dir: dir, Half: half, Records: 24, Seed: 991}))(t)
		for _, flags := range variants {
			got := run(t, dir, append(flags, o.flags...)...)
			all := 24 * c.Spec().PlanSize()
			if want := fmt.Sprintf("%d of %d", all, all); got["equal_bits"] != want {
				t.Errorf("%s, half %v, %s, %v: %s entries equal, %s from float32", r.Case, half, o.kernels, flags, got["equal_bits"], got["deviation_from_float"])
			}
		}
	}
}

// bundled is a case of the paper with its map.
func bundled(t testing.TB, name string) (*gpc.Case, *model.Model) {
	t.Helper()
	cases := paper.Cases()
	c := require.Get(cases.Find(name))(t)
	return c, require.Get(c.Model(""))(t)
}

func TestBundledMapsDecideTheSameInC(t *testing.T) {
	for _, name := range []string{"integrator-convex", "integrator-nonconvex", "opf30", "opf30-uncertain"} {
		if testing.Short() && name != "integrator-convex" && name != "opf30" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c, m := bundled(t, name)
			variants := [][]string{{"-O3"}}
			if !testing.Short() {
				variants = append(variants, []string{"-O0"}, []string{"-O2", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"})
			}
			for _, half := range []bool{false, true} {
				hold(t, c, m, half, variants...)
			}
		})
	}
}

// based is the cart with a Base of its own choice.
type based struct {
	*testdomain.Cart
	base func(s, c, plan []float64)
}

func (b based) Base(s, c, plan []float64) { b.base(s, c, plan) }

// caseOf is a case about a problem with a simulated plant.
func caseOf(t testing.TB, p domain.Problem) *gpc.Case {
	t.Helper()
	if p.Spec().Training.Latent == 0 {
		p.Spec().Training.Latent = 4 // what makes it a case with a map
	}
	return require.Get(gpc.NewCase(domain.Case{Problem: p, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start)}))(t)
}

func TestRandomMapsDecideTheSameInC(t *testing.T) {
	rng := rand.New(rand.NewPCG(991, 0))
	every := [][]string{
		{"-O3"}, {"-O0"}, {"-O2", "-DGPC_DENSE"}, {"-O2", "-DGPC_SCRATCH="}, {"-O3", "-DGPC_BLOCK=3"},
		{"-O2", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"},
	}
	for i, hidden := range [][]int{{}, {1}, {17}, {33, 64}, {100, 7, 130}, {48, 48, 48, 48}} {
		plan := 1 + 2*(i%3)
		cart := testdomain.NewPlanCart(8, plan)
		c := caseOf(t, based{cart, func(s, c, u []float64) {
			for j := range u {
				u[j] = []float64{s[1], c[0], -0.25, s[0]}[(i+j)%4]
			}
		}})
		m := testdomain.Untrained(rng, c.Spec(), 1+3*i, 0, hidden...)
		for _, n := range []*model.Normalizer{&m.NormX, &m.NormU} {
			for j := range n.Mean {
				n.Mean[j], n.Scale[j] = float32(rng.NormFloat64()), float32(0.2+rng.Float64())
			}
		}
		for _, l := range m.EncoderX.Layers {
			for j := range l.B {
				l.B[j] = float32(0.3 * rng.NormFloat64())
			}
		}
		if i%2 == 1 {
			m.Calibration.PreferenceFloor = 0.003
		}
		variants := every
		if testing.Short() {
			variants = every[i%len(every):][:1]
		}
		hold(t, c, m, i%2 == 0, variants...)
	}
}

// The deviation between Go's orders of sums, and from float64, keeps the tolerance that
// the written test holds to, with the roundings that are not those of the machine that
// exported.
func TestOtherRoundingsKeepTheTolerance(t *testing.T) {
	c, m := bundled(t, "integrator-convex")
	found := orders()
	if len(found) < 2 {
		t.Skip("one order of sums only")
	}
	t.Setenv(isa.Environment, found[1].kernels)
	dir := filepath.Join(t.TempDir(), "c")
	require.Get(c.Export(t.Context(), m, gpc.ExportOptions{MapOnly: true, Dir: dir, Records: 32, Seed: 992}))(t)
	got := run(t, dir, "-O2")
	off := require.Get(strconv.ParseFloat(got["deviation_from_float"], 64))(t)
	if off == 0 {
		t.Error("products that are rounded give the bits of products that are not")
	}
	if off > 5e-6 {
		t.Errorf("off by %g of the scale", off)
	}
}

// The written test fails where a parameter is another, or an observation.
func TestTheWrittenTestCanFail(t *testing.T) {
	c, m := bundled(t, "integrator-convex")
	dir := filepath.Join(t.TempDir(), "c")
	r := require.Get(c.Export(t.Context(), m, gpc.ExportOptions{MapOnly: true, Dir: dir, Records: 4, Seed: 991}))(t)
	for _, change := range []struct{ file, after string }{
		{"gpc_" + r.Symbol + "_weights.h", "decoder2_b[2] = {\n    "},
		{"gpc_" + r.Symbol + "_weights.h", "encoder0_b[256] = {\n    "},
		{"gpc_" + r.Symbol + "_weights.h", "input_scale[12] = {\n    "},
		{"test_vectors.h", "recorded[RECORDS] = {\n    {\n        { "},
	} {
		path := filepath.Join(dir, change.file)
		whole := require.Get(os.ReadFile(path))(t)
		before, after, found := strings.Cut(string(whole), change.after)
		if !found {
			t.Fatalf("%s has no %q", change.file, change.after)
		}
		require.OK(t, os.WriteFile(path, []byte(before+change.after+"1.0f + "+after), 0o644))
		out, err := exec.Command(build(t, dir, "-O1")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "FAILED") {
			t.Errorf("with another number behind %q the test prints\n%s", change.after, out)
		}
		require.OK(t, os.WriteFile(path, whole, 0o644))
	}
}

func TestBaseIsCopiedOnlyWhereItIsACopy(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	for _, v := range []struct {
		name string
		base func(s, c, plan []float64)
		want string
	}{
		{"zeros", func(_, _, plan []float64) { clear(plan) }, "copied"},
		{"a constant", func(_, _, plan []float64) { plan[0] = 0.3 }, "copied"},
		{"the previous action", func(_, c, plan []float64) { plan[0] = c[0] }, "copied"},
		{"a feedback", func(s, _, plan []float64) { plan[0] = -0.5 * s[0] }, "hook"},
		{"a copy within a limit that no episode reaches", func(s, _, plan []float64) { plan[0] = min(max(s[0], -40), 40) }, "hook"},
		{"a sign", func(s, _, plan []float64) {
			plan[0] = 1
			if s[0] < -100 {
				plan[0] = -1
			}
		}, "hook"},
	} {
		c := caseOf(t, based{testdomain.NewCart(8), v.base})
		m := testdomain.Untrained(rng, c.Spec(), 3, 0, 5)
		dir := filepath.Join(t.TempDir(), "c")
		r := require.Get(c.Export(t.Context(), m, gpc.ExportOptions{MapOnly: true, Dir: dir, Records: 6, Seed: 991}))(t)
		if r.Base != v.want {
			t.Errorf("%s is %s, want %s", v.name, r.Base, v.want)
		}
		header := string(require.Get(os.ReadFile(filepath.Join(dir, "gpc_cart.h")))(t))
		if strings.Contains(header, "gpc_cart_base") != (v.want == "hook") {
			t.Errorf("%s: the header's functions do not fit", v.name)
		}
		run(t, dir, "-O1")
	}
}

func TestAFolderIsWrittenWholeOrNotAtAll(t *testing.T) {
	p := testdomain.NewCart(8)
	c := caseOf(t, p)
	m := testdomain.Map(p, 9, true)
	parent := t.TempDir()
	dir := filepath.Join(parent, "c")
	opt := gpc.ExportOptions{MapOnly: true, Dir: dir, Records: 4, Seed: 991}
	left := func() (names []string) {
		for _, e := range require.Get(os.ReadDir(parent))(t) {
			names = append(names, e.Name())
		}
		return names
	}

	require.OK(t, os.Mkdir(dir, 0o755))
	r := require.Get(c.Export(t.Context(), m, opt))(t)
	if got := left(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("beside the folder there are %v", got)
	}
	source := filepath.Join(dir, "gpc_cart.c")
	before := require.Get(os.ReadFile(source))(t)
	if !strings.Contains(string(before), r.SHA256) {
		t.Error("the source does not name its model")
	}

	if _, err := c.Export(t.Context(), m, opt); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a folder with files was accepted: %v", err)
	}
	if after := require.Get(os.ReadFile(source))(t); string(after) != string(before) {
		t.Error("a refused export changed a file")
	}

	deeper := opt
	deeper.Dir = filepath.Join(t.TempDir(), "out", "c")
	require.Get(c.Export(t.Context(), m, deeper))(t)
	if text := require.Get(os.ReadFile(filepath.Join(deeper.Dir, "gpc_cart.c")))(t); string(text) != string(before) {
		t.Error("below a folder that did not exist it is another source")
	}

	opt.Dir, opt.Half = filepath.Join(parent, "half"), true
	large := *m
	large.EncoderX = m.EncoderX.Clone()
	large.EncoderX.Layers[1].W.Data[3] = 7e4
	if _, err := c.Export(t.Context(), &large, opt); err == nil || !strings.Contains(err.Error(), "weight 3 of layer 1 of E_x is 70000") {
		t.Errorf("a weight beyond float16 gives %v", err)
	}
	if got := left(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("a failed export left %v", got)
	}
}

// BenchmarkDirect is one decision at recorded observations: by this module, whose
// projection is left out, and by C, compiled for this machine.
func BenchmarkDirect(b *testing.B) {
	for _, name := range []string{"integrator-convex", "opf30"} {
		c, m := bundled(b, name)
		b.Run(name+"/go", func(b *testing.B) { benchmarkGo(b, c, m) })
		for _, half := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/c/half=%v", name, half), func(b *testing.B) {
				dir := filepath.Join(b.TempDir(), "c")
				require.Get(c.Export(b.Context(), m, gpc.ExportOptions{MapOnly: true, Dir: dir, Half: half, Records: 64, Seed: 991}))(b)
				program := build(b, dir, "-O3", "-march=native", "-DGPC_FMA")
				for b.Loop() {
					out := require.Get(exec.Command(program).Output())(b)
					b.ReportMetric(require.Get(strconv.ParseFloat(figures(string(out))["ns"], 64))(b), "ns/decision")
				}
			})
		}
	}
}

// benchmarkGo is the median of decisions along one episode.
func benchmarkGo(b *testing.B, c *gpc.Case, m *model.Model) {
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(b)
	defer e.Close()
	loop := require.Get(c.Loop(e, gpc.Setup{Method: "direct", Model: m}))(b)
	s, cx := make([]float64, c.Spec().MeasuredSize()), make([]float64, c.Spec().ContextSize())
	var each []float64
	for b.Loop() {
		ep := require.Get(c.Definition().Plant.Episode(991, 0, domain.EpisodeOptions{}))(b)
		for !ep.Done() {
			ep.Observe(s, cx)
			d := require.Get(loop.Decide(s, cx, domain.Preference{Adaptive: true}))(b)
			each = append(each, float64((d.Times.Localize + d.Times.Step).Nanoseconds()))
			require.Get(ep.Apply(d.U))(b)
		}
	}
	slices.Sort(each)
	b.ReportMetric(each[len(each)/2], "ns/decision")
}

// BenchmarkRounded is what rounding a map to float16 changes in closed loop: `direct` by both maps on
// the same episodes, and the largest change of a plan among recorded decisions.
func BenchmarkRounded(b *testing.B) {
	for _, v := range []struct {
		name     string
		episodes int
	}{{"integrator-convex", 200}, {"integrator-nonconvex", 200}, {"opf30", 10}} {
		c, m := bundled(b, v.name)
		b.Run(v.name, func(b *testing.B) {
			for b.Loop() {
				r := require.Get(c.Export(b.Context(), m, gpc.ExportOptions{MapOnly: true, Dir: filepath.Join(b.TempDir(), "c"), Half: true, Records: 1000, Seed: 991}))(b)
				file := filepath.Join(b.TempDir(), "half.safetensors")
				require.OK(b, require.Get(export.Rounded(m))(b).WriteFile(file))
				p := require.Get(c.Pair(b.Context(), []gpc.Contender{{Method: "direct"}, {Method: "direct", File: file}}, "", engine.Options{Backend: "cpu", Threads: 1}, closedloop.Options{Episodes: v.episodes, Seed: 991, Preference: domain.Preference{Adaptive: true}, Threads: runtime.NumCPU()}))(b)
				whole, half := p.Pairs[0], p.Pairs[1]
				b.ReportMetric(float64(half.Episodes), "episodes")
				b.ReportMetric(float64(whole.Safe), "safe")
				b.ReportMetric(float64(half.Safe), "safe_rounded")
				b.ReportMetric(float64(half.DifferencePct), "difference_%")
				b.ReportMetric(float64(half.DifferenceCI95), "interval_%")
				b.ReportMetric(r.HalfError, "largest_change")
			}
		})
	}
}
