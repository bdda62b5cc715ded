package ptx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// everything checks all that there is to check.
var everything = Options{Shared: true, Global: true, Count: true}

func text(t testing.TB, name string) string {
	t.Helper()
	return string(require.Get(os.ReadFile(filepath.Join("testdata", name)))(t))
}

// upload puts numbers into the memory of a machine.
func upload[T float32 | uint32 | int32 | float64 | uint64](t testing.TB, m *Machine, values []T) uint64 {
	t.Helper()
	p := m.Memory.Alloc(len(values) * int(unsafe.Sizeof(values[0])))
	copy(unsafe.Slice((*T)(unsafe.Pointer(&require.Get(m.Memory.Bytes(p, len(values)*int(unsafe.Sizeof(values[0])), true))(t)[0])), len(values)), values)
	return p
}

func download[T float32 | uint32 | int32 | float64 | uint64](t testing.TB, m *Machine, p uint64, n int) []T {
	t.Helper()
	var e T
	b := require.Get(m.Memory.Bytes(p, n*int(unsafe.Sizeof(e)), false))(t)
	return slices.Clone(unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n))
}

// arguments lays arguments out as parameters lie.
func arguments(k *Kernel, values ...any) []byte {
	b := make([]byte, k.args)
	for i, v := range values {
		switch v := v.(type) {
		case uint64:
			*(*uint64)(unsafe.Pointer(&b[k.Params[i].Offset])) = v
		case int:
			*(*int32)(unsafe.Pointer(&b[k.Params[i].Offset])) = int32(v)
		case float32:
			*(*float32)(unsafe.Pointer(&b[k.Params[i].Offset])) = v
		}
	}
	return b
}

// A program is a text with a launch that says whether the result is right.
type program struct {
	file, entry string
	run         func(t testing.TB, m *Machine, k *Kernel) (right bool, err error)
}

func ramp(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i%37) - 11
	}
	return v
}

var programs = map[string]program{
	"tile": {"tile.ptx", "transpose", func(t testing.TB, m *Machine, k *Kernel) (bool, error) {
		const n = 64
		in := ramp(n * n)
		from, to := upload(t, m, in), m.Memory.Alloc(4*n*n)
		err := m.Launch(k, Launch{Grid: [3]int{2, 2, 1}, Block: [3]int{256, 1, 1}}, arguments(k, from, to, n))
		out := download[float32](t, m, to, n*n)
		for i := range n {
			for j := range n {
				if out[i*n+j] != in[j*n+i] {
					return false, err
				}
			}
		}
		return true, err
	}},
	"reduce": {"reduce.ptx", "reduce", func(t testing.TB, m *Machine, k *Kernel) (bool, error) {
		in := ramp(1000)
		want := float32(0)
		for _, v := range in {
			want += v // whole numbers: exact in any order
		}
		from, to := upload(t, m, in), m.Memory.Alloc(4)
		err := m.Launch(k, Launch{Block: [3]int{128, 1, 1}}, arguments(k, from, to, len(in)))
		return download[float32](t, m, to, 1)[0] == want, err
	}},
	"product": {"product.ptx", "product", func(t testing.TB, m *Machine, k *Kernel) (bool, error) {
		A, B, C := ramp(16*8), ramp(8 * 8)[:64], ramp(16*8)
		slices.Reverse(B)
		D := slices.Clone(C)
		for i := range 16 {
			for j := range 8 {
				for l := range 8 {
					D[i*8+j] += A[i*8+l] * B[l*8+j]
				}
			}
		}
		a, b, c := upload(t, m, A), upload(t, m, B), upload(t, m, C)
		err := m.Launch(k, Launch{Block: [3]int{32, 1, 1}}, arguments(k, a, b, c))
		return slices.Equal(download[float32](t, m, c, 16*8), D), err
	}},
}

// edited runs a program with one passage of its text replaced.
func edited(t *testing.T, name, old, with string, o Options) (right bool, err error) {
	t.Helper()
	p := programs[name]
	source := text(t, p.file)
	if old != "" {
		if strings.Count(source, old) < 1 {
			t.Fatalf("%s does not hold %q", p.file, old)
		}
		source = strings.Replace(source, old, with, 1)
	}
	module := require.Get(Parse(p.file, []byte(source)))(t)
	return p.run(t, NewMachine(o), require.Get(module.Kernel(p.entry))(t))
}

// The programs are right and free of findings in every order of lanes and warps.
func TestProgramsAreClean(t *testing.T) {
	for name := range programs {
		for _, order := range []Order{Lockstep, Lanes} {
			for seed := range uint64(4) {
				o := everything
				o.Order, o.Seed, o.Errors = order, seed, seed
				if right, err := edited(t, name, "", "", o); err != nil || !right {
					t.Errorf("%s, order %d, seed %d: right %v, %v", name, order, seed, right, err)
				}
			}
		}
	}
}

// halfOfAWarp names to each lane of a warp those of its half.
const halfOfAWarp = ".reg .pred %q;\n\t.reg .b32 %m;\n\tsetp.gt.s32 %q, %r3, 15;\n\tselp.b32 %m, -65536, 65535, %q;\n\t"

// Parts of a warp shuffle by themselves, each with its own lanes named.
func TestPartsOfAWarpShuffle(t *testing.T) {
	for _, order := range []Order{Lockstep, Lanes} {
		o := everything
		o.Order = order
		if right, err := edited(t, "reduce", "shfl.sync.bfly.b32 %r7|%p3, %r6, 8, 31, -1", halfOfAWarp+"shfl.sync.bfly.b32 %r7|%p3, %r6, 8, 31, %m", o); err != nil || !right {
			t.Errorf("order %d: right %v, %v", order, right, err)
		}
	}
}

// The chain of a launch is that of its slowest block: between barriers that of the slowest warp.
func TestChainsOfBlocks(t *testing.T) {
	for name, want := range map[string][2]float64{"tile": {1, 1}, "reduce": {1.01, 1.2}} { // of a warp's share of all; the first warp of a reduction has its end too
		m := NewMachine(Options{})
		p := programs[name]
		k := require.Get(require.Get(Parse(p.file, []byte(text(t, p.file))))(t).Kernel(p.entry))(t)
		require.Get(p.run(t, m, k))(t)
		c := m.Counts()[0]
		var all uint64
		for _, n := range c.Warps {
			all += n
		}
		share := float64(c.Chain) / (float64(all) / float64(c.Blocks*uint64(c.Threads/32)))
		if !(share >= want[0] && share <= want[1]) {
			t.Errorf("%s: a chain of %d, %.2f of a warp's share", name, c.Chain, share)
		}
	}
}

// Each fault that is put into the text of a program is found, as what it is and where it is:
// a finding or fault of the kind at the line that holds the words, or, for Kind "", a result
// that is not right.
func TestSeededFaults(t *testing.T) {
	for _, f := range []struct {
		name, program, old, with string
		kind                     Kind
		at                       string // words of the line that the finding names
		source                   string // that .loc names
	}{
		{"a wrong fragment index in mma", "product", "{%r5,%r6,%r7,%r8}", "{%r5,%r7,%r6,%r8}", "", "", ""},
		{"fragments of B exchanged", "product", "{%r10,%r11}", "{%r11,%r10}", "", "", ""},
		{"an accumulator of the wrong row", "product", "[%rd9+256], {%f7", "[%rd9+256], {%f8", "", "", ""},
		{"a product by a part of a warp", "product", "\tmov.u32 %r1, %tid.x;", "\tmov.u32 %r1, %tid.x;\n\t.reg .pred %q;\n\tsetp.gt.u32 %q, %r1, 29;\n\t@%q ret;", FaultDivergence, "mma.sync", ""},
		{"a missing barrier", "tile", "\tbar.sync 0;\n", "\n", FindRace, "ld.shared", "tile.cu:16"},
		{"an off-by-one in a tile's bound", "tile", "setp.lt.s32 %p2, %r10, 32", "setp.le.s32 %p2, %r10, 32", FindUnwritten, "st.global", "tile.cu:16"},
		{"a row too many filled", "tile", "setp.lt.s32 %p1, %r10, 32", "setp.le.s32 %p1, %r10, 32", FaultBounds, "st.shared", "tile.cu:11"},
		{"a tile that is a row short", "tile", "tile[4224]", "tile[4092]", FaultBounds, "st.shared", "tile.cu:11"},
		{"an uninitialised shared word", "tile", "\tst.shared.f32 [%r14], %f1;", "\t.reg .pred %q;\n\tsetp.ne.s32 %q, %r13, 400;\n\t@%q st.shared.f32 [%r14], %f1;", FindUnwritten, "st.global", "tile.cu:16"},
		{"an address that is not of a word", "tile", "\tshl.b32 %r15, %r15, 2;", "\tmul.lo.s32 %r15, %r15, 3;", FaultMisaligned, "ld.shared", "tile.cu:16"},
		{"blocks that write the same place", "tile", "add.s32 %r17, %r7, %r10", "add.s32 %r17, 0, %r10", FindRace, "st.global", "tile.cu:16"},
		{"a read behind the matrix", "tile", "add.s32 %r12, %r12, %r3", "add.s32 %r12, %r12, %r2", FaultBounds, "ld.global", "tile.cu:11"},
		{"a barrier inside a branch", "tile", "\tbar.sync 0;\n", "\t.reg .pred %q;\n\tsetp.gt.s32 %q, %r3, 15;\n\t@%q bra $OVER;\n\tbar.sync 0;\n$OVER:\n", FindBarrier, "bar.sync", "tile.cu:14"},
		{"lanes that end before a barrier", "reduce", "\t@%p1 bra $ADDED;", "\t.reg .pred %q;\n\tsetp.gt.s32 %q, %r2, 120;\n\t@%q ret;\n\t@%p1 bra $ADDED;", FindBarrier, "bar.sync", "reduce.cu:14"},
		{"a warp that ends before a barrier", "reduce", "\t@%p1 bra $ADDED;", "\t.reg .pred %q;\n\tsetp.gt.s32 %q, %r2, 95;\n\t@%q ret;\n\t@%p1 bra $ADDED;", FindBarrier, "bar.sync", "reduce.cu:14"},
		{"a race in a reduction between warps", "reduce", "\tbar.sync 0;\n", "\tbar.warp.sync -1;\n", FindRace, "st.shared.f32", "reduce.cu:13"},
		{"a race in a reduction between lanes", "reduce", "\tbar.warp.sync -1;\n", "\n", FindRace, "ld.shared.v2", "reduce.cu:19"},
		{"a swapped shuffle", "reduce", "%r6, 4, 31", "%r6, 8, 31", "", "", ""},
		{"a shuffle of another kind", "reduce", "shfl.sync.bfly.b32 %r7|%p3, %r6, 16", "shfl.sync.up.b32 %r7|%p3, %r6, 16", "", "", ""},
		{"a shuffle that some lanes miss", "reduce", "\tmov.b32 %r6, %f1;\n", "\t@%p1 bra $DONE2;\n\tmov.b32 %r6, %f1;\n", FaultDivergence, "shfl.sync", "reduce.cu:11"},
		{"a shuffle that names too few lanes", "reduce", "%r6, 16, 31, -1", "%r6, 16, 31, 65535", FaultDivergence, "shfl.sync", "reduce.cu:11"},
		{"a shuffle from another part of the warp", "reduce", "shfl.sync.bfly.b32 %r7|%p3, %r6, 16, 31, -1", halfOfAWarp + "shfl.sync.bfly.b32 %r7|%p3, %r6, 16, 31, %m", FindShuffle, "shfl.sync", "reduce.cu:11"},
		{"parts that overlap", "reduce", "%r6, 16, 31, -1", "%r6, 16, 31, %r3", FaultDivergence, "shfl.sync", "reduce.cu:11"},
		{"a sum that begins nowhere", "reduce", "\tmov.f32 %f1, 0f00000000;\n", "\n", FindUnwritten, "st.global", "reduce.cu:19"},
		{"one number too many", "reduce", "setp.lt.s32 %p2, %r5, %r1", "setp.le.s32 %p2, %r5, %r1", FaultBounds, "ld.global", "reduce.cu:9"},
		{"the wrong pointer", "reduce", "cvta.to.global.u64 %rd3, %rd1", "cvta.to.global.u64 %rd3, %rd2", FaultBounds, "ld.global", "reduce.cu:9"},
		{"a sum that goes on from a result that is not there", "reduce", "mov.f32 %f1, 0f00000000;", "ld.global.f32 %f1, [%rd4];", FindUnwritten, "st.global", "reduce.cu:19"},
	} {
		t.Run(f.name, func(t *testing.T) {
			with := f.with
			program, old := f.program, f.old
			if strings.Contains(with, "$DONE2") { // lanes of a branch that wait elsewhere
				with = "\t.reg .pred %q;\n\tsetp.gt.s32 %q, %r3, 15;\n\t@%q bra $FOLDED;\n" + f.old
			}
			right, err := edited(t, program, old, with, everything)
			if f.kind == "" {
				if err != nil || right {
					t.Errorf("right %v, %v; want a wrong result alone", right, err)
				}
				return
			}
			var found []Finding
			var fault *Fault
			var several *FoundError
			if errors.As(err, &fault) {
				found = []Finding{fault.Finding}
			}
			if errors.As(err, &several) {
				found = append(found, several.Findings...)
			}
			source := strings.Split(strings.Replace(text(t, programs[program].file), old, with, 1), "\n")
			for _, g := range found {
				if g.Kind == f.kind && g.Line > 0 && strings.Contains(source[g.Line-1], f.at) && g.Source == f.source {
					return
				}
			}
			t.Errorf("want %q at %q (%s), got %v", f.kind, f.at, f.source, err)
		})
	}
}

// Without a check of races, a race between lanes shows in the result where lanes run one
// after the other: an order that a device is free to take.
func TestLanesInAnotherOrder(t *testing.T) {
	o := Options{Order: Lanes}
	wrong := 0
	for seed := uint64(1); seed <= 8; seed++ {
		o.Seed = seed
		right, err := edited(t, "reduce", "\tbar.warp.sync -1;\n", "\n", o)
		if err != nil {
			t.Fatal(err)
		}
		if !right {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("eight orders of lanes gave the right sum without the barrier")
	}
}

// What the subset lacks is an error that names the line.
func TestUnknownIsAnError(t *testing.T) {
	for old, with := range map[string]string{
		"bar.sync 0;":            "cp.async.wait_all;",
		"shl.b32 %r15, %r15, 2;": "shl.b32 %r15, %r15;",
		"$EMPTY:":                "$NOWHERE:",
		"mov.u32 %r5, %ctaid.x;": "mov.u32 %r5, %clusterid.x;",
		"ld.shared.f32 %f2":      "ld.shared.f64 %f2",
	} {
		source := strings.Replace(text(t, "tile.ptx"), old, with, 1)
		m, err := Parse("tile.ptx", []byte(source))
		if err == nil {
			_, err = m.Kernel("transpose")
		}
		var e *SyntaxError
		if !errors.As(err, &e) || e.Line < 20 || e.File != "tile.ptx" {
			t.Errorf("%q: %v", with, err)
		}
	}
	if _, err := Parse("x", []byte("hello")); err == nil {
		t.Error("a text that is no PTX was parsed")
	}
}

// The bank rule is that of kernels/include/banks.cuh: rows of 33 words are free of
// conflicts, rows of 32 are not.
func TestBankConflicts(t *testing.T) {
	for _, c := range []struct {
		old, with string
		want      float64 // requests for each that its bytes need
	}{{"", "", 1}, {"mad.lo.s32 %r13, %r10, 33, %r3;", "mad.lo.s32 %r13, %r10, 32, %r3;", 16.5}} {
		source := text(t, "tile.ptx")
		if c.old != "" {
			source = strings.ReplaceAll(strings.ReplaceAll(source, c.old, c.with), "%r3, 33, %r10", "%r3, 32, %r10")
		}
		m := NewMachine(everything)
		k := require.Get(require.Get(Parse("tile.ptx", []byte(source)))(t).Kernel("transpose"))(t)
		if right, err := programs["tile"].run(t, m, k); !right || err != nil {
			t.Fatal(right, err)
		}
		s := m.Counts()[0].Spaces["shared"]
		if got := float64(s.Transactions) / float64(s.Minimal); got != c.want {
			t.Errorf("%q: %v requests for each that is needed, want %v", c.with, got, c.want)
		}
		g := m.Counts()[0].Spaces["global"]
		if g.Transactions != g.Minimal || g.Bytes != 2*4*64*64 {
			t.Errorf("global memory: %+v, want no sector more than needed", g)
		}
	}
}

// The sum of a product of float32 rounds once, at ties and below the normal range too.
func TestFusedMultiplyAdd(t *testing.T) {
	exact := func(a, b, c float32) float32 {
		p, s := float64(a)*float64(b), float64(a)*float64(b)+float64(c)
		return fmaSlow(p, float64(c), s)
	}
	for _, v := range [][4]float32{
		{1 + 0x1p-23, 1 + 0x1p-23, 0, 1 + 0x1p-22},
		{1 + 0x1p-12, 1 + 0x1p-12, 0x1p-60, 1 + 0x1p-11 + 0x1p-23}, // 2^-24 above a tie by what float64 loses
		{1 + 0x1p-12, 1 + 0x1p-12, -0x1p-60, 1 + 0x1p-11},
		{0x1p-100, 0x1p-40, 0x1p-149, 513 * 0x1p-149},
		{3, 5, 7, 22},
	} {
		if got := exact(v[0], v[1], v[2]); got != v[3] {
			t.Errorf("%g · %g + %g = %g, want %g", v[0], v[1], v[2], got, v[3])
		}
	}
	if got := fmaToward(1, 1, 0x1p-40, 1); got != math.Nextafter32(1, 2) {
		t.Errorf("1 + 2^-40 rounded up: %v", got)
	}
	if got := fmaToward(1, 1, -0x1p-40, -1); got != math.Nextafter32(1, 0) {
		t.Errorf("1 − 2^-40 rounded down: %v", got)
	}
}

func ExampleFinding() {
	fmt.Println(Finding{Location: Location{File: "a.ptx", Line: 7, Source: "a.cu:3"}, Kind: FindRace, Kernel: "k", Op: "ld.shared.f32", Thread: 33, What: "reads a word that thread 1 wrote", Times: 2})
	// Output: race: a.ptx:7 (a.cu:3): kernel k, block [0 0 0], thread 33: ld.shared.f32: reads a word that thread 1 wrote, and 1 times more
}

// Threads that write neighbouring bytes of a word do not race; two that write one byte do.
func TestBytesOfAWord(t *testing.T) {
	const source = `.version 8.2
.target sm_80
.address_size 64
.visible .entry bytes(.param .u64 bytes_param_0)
{
	.reg .b32 %r<8>;
	.reg .b16 %rs<4>;
	.shared .align 4 .b8 of[64];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, of;
	SHIFT
	add.s32 %r4, %r2, %r3;
	mov.u16 %rs1, 1;
	cvt.u16.u32 %rs1, %r1;
	st.shared.u8 [%r4], %rs1;
	ld.shared.u8 %rs2, [%r4];
	add.s16 %rs2, %rs2, %rs1;
	st.shared.u8 [%r4], %rs2;
	ret;
}`
	for shift, race := range map[string]bool{"mov.u32 %r3, %r1;": false, "shr.u32 %r3, %r1, 1;": true} {
		m := require.Get(Parse("bytes.ptx", []byte(strings.Replace(source, "SHIFT", shift, 1))))(t)
		machine := NewMachine(everything)
		err := machine.Launch(require.Get(m.Kernel("bytes"))(t), Launch{Block: [3]int{64, 1, 1}}, make([]byte, 8))
		var found *FoundError
		if got := errors.As(err, &found) && found.Findings[0].Kind == FindRace; got != race {
			t.Errorf("%s: %v, want a race: %v", shift, err, race)
		}
	}
}

// A text of any kind is compiled or is an error, which names a line: nothing panics, and nothing is made of sizes that
// no device has.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"tile.ptx", "reduce.ptx", "product.ptx", "vectorAdd.ptx"} {
		f.Add(text(f, name))
	}
	for _, body := range []string{"ld;", "and.pred;", "selp.b32 %r1;", "mov.b64 {}, %r1;", "st.global.v4.f32 [%r1], {};", ".loc 1", "@", "call (", "f32 %r1, %r2;", "setp.lt.s32 %r1|%r2;", ".reg .b32 %r<99999999999>;"} {
		f.Add(".version 8.2\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<4>;\n" + body + "\n}\n")
	}
	f.Add(".version 8.2\n.global .align 8 .b8 x[4], y[8] = {1, 2}, z[")
	f.Fuzz(func(t *testing.T, source string) {
		m, err := Parse("any.ptx", []byte(source))
		if err != nil {
			return
		}
		for _, name := range m.Entries() {
			_, err := m.Kernel(name)
			var e *SyntaxError
			if errors.As(err, &e) && (e.Line < 1 || e.File != "any.ptx") {
				t.Errorf("an error without a line: %v", err)
			}
		}
	})
}

// Variables of one declaration have extents of their own.
func TestDeclaredTogether(t *testing.T) {
	m := require.Get(Parse("x.ptx", []byte(".version 8.2\n.global .b32 a[4], b[8], c;\n")))(t)
	for name, want := range map[string]int{"a": 16, "b": 32, "c": 4} {
		if got := m.variables[name].bytes; got != want {
			t.Errorf("%s has %d bytes, want %d", name, got, want)
		}
	}
}

// Atomics do not race with what was read before a barrier.
func TestAtomicsBehindABarrier(t *testing.T) {
	const source = `.version 8.2
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.reg .pred %p<2>;
	.shared .align 4 .b8 sum[4];
	mov.u32 %r1, %tid.x;
	setp.ne.u32 %p1, %r1, 0;
	@%p1 bra $OVER;
	st.shared.u32 [sum], 0;
$OVER:
	bar.sync 0;
	ld.shared.u32 %r2, [sum];
	BARRIER
	red.shared.add.u32 [sum], 1;
	bar.sync 0;
	ld.shared.u32 %r3, [sum];
	add.u32 %r3, %r3, %r2;
	@%p1 bra $END;
	ld.param.u64 %rd1, [out];
	st.global.u32 [%rd1], %r3;
$END:
	ret;
}`
	for barrier, race := range map[string]bool{"bar.sync 0;": false, "": true} {
		machine := NewMachine(everything)
		k := require.Get(require.Get(Parse("k.ptx", []byte(strings.Replace(source, "BARRIER", barrier, 1))))(t).Kernel("k"))(t)
		to := machine.Memory.Alloc(4)
		err := machine.Launch(k, Launch{Block: [3]int{64, 1, 1}}, arguments(k, to))
		var found *FoundError
		if errors.As(err, &found) != race || !race && download[uint32](t, machine, to, 1)[0] != 64 {
			t.Errorf("barrier %q: %v, want a race: %v", barrier, err, race)
		}
	}
}

// Blocks on several cores that write bytes of one word have written them all.
func TestBytesOfAWordByBlocks(t *testing.T) {
	const source = `.version 8.2
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
{
	.reg .b32 %r<4>;
	.reg .b16 %rs<4>;
	.reg .b64 %rd<8>;
	mov.u32 %r1, %ctaid.x;
	cvt.u64.u32 %rd1, %r1;
	mov.u16 %rs1, 7;
	LOAD
	ld.param.u64 %rd4, [to];
	add.s64 %rd5, %rd4, %rd1;
	st.global.u8 [%rd5], %rs1;
	ret;
}`
	machine := NewMachine(everything)
	kernel := func(load string) *Kernel {
		return require.Get(require.Get(Parse("k.ptx", []byte(strings.Replace(source, "LOAD", load, 1))))(t).Kernel("k"))(t)
	}
	put, copied := kernel(""), kernel("ld.param.u64 %rd2, [from];\nadd.s64 %rd3, %rd2, %rd1;\nld.global.u8 %rs1, [%rd3];")
	const blocks = 1 << 14
	from, to := machine.Memory.Alloc(blocks), machine.Memory.Alloc(blocks)
	launch := Launch{Grid: [3]int{blocks, 1, 1}, Block: [3]int{1, 1, 1}}
	require.OK(t, machine.Launch(put, launch, arguments(put, from, from)))
	require.OK(t, machine.Launch(copied, launch, arguments(copied, from, to)))
}
