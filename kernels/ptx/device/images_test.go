package device_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/ptx"
)

// image unpacks a committed image.
func image(t testing.TB, dir, name, target string) []byte {
	t.Helper()
	return require.Get(images.Unpack(require.Get(os.ReadFile(filepath.Join(dir, images.FileName(name, target))))(t)))(t)
}

// each calls f with every image of the module and of the example outside of it.
func each(t testing.TB, f func(dir string, e images.Entry)) {
	t.Helper()
	n := 0
	root := require.Get(images.Find("."))(t).Root
	for _, m := range []images.Module{{Root: root, Engine: root}, {Root: filepath.Join(root, "examples", "outside"), Engine: root}} {
		for _, folder := range require.Get(m.Folders())(t) {
			dir := m.Images(folder)
			for _, e := range require.Get(images.ReadManifest(dir))(t).Images {
				f(dir, e)
				n++
			}
		}
	}
	if n < 43 {
		t.Errorf("%d images, there were 43", n)
	}
}

// Numbers of attributes in a cubin's .nv.info sections, and their forms.
const (
	registersOf    = 0x2f
	maxThreads     = 0x05
	parameter      = 0x17
	sized          = 4
	reservedShared = 1 << 10
)

func attributes(t testing.TB, file *elf.File, section string, f func(number byte, words []uint32)) {
	t.Helper()
	s := file.Section(section)
	if s == nil {
		t.Fatalf("no section %s", section)
	}
	data := require.Get(s.Data())(t)
	for len(data) >= 4 {
		size := 0
		if data[0] == sized {
			size = int(binary.LittleEndian.Uint16(data[2:]))
		}
		words := make([]uint32, size/4)
		for i := range words {
			words[i] = binary.LittleEndian.Uint32(data[4+4*i:])
		}
		f(data[1], words)
		data = data[4+size:]
	}
}

// The machine code of a source is made from the same entries as its PTX: the same names,
// shared memory, bound on the block, and sizes of parameters, with as many registers as that
// block can have. That the code does what the text says is not tested: nothing executes it.
func TestCubinsMatchPTX(t *testing.T) {
	each(t, func(dir string, e images.Entry) {
		m := require.Get(ptx.Parse(e.Name, image(t, dir, e.Name, "compute_80.ptx")))(t)
		if got := m.Entries(); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(e.Kernels))) {
			t.Errorf("%s: entries %v, the manifest has %v", e.Name, got, e.Kernels)
		}
		cubin := image(t, dir, e.Name, "sm_90.cubin")
		cubin[0x14] = byte(elf.EV_CURRENT) // its compiler's version stands there
		file := require.Get(elf.NewFile(bytes.NewReader(cubin)))(t)
		symbols := require.Get(file.Symbols())(t)
		registers := map[string]int{}
		attributes(t, file, ".nv.info", func(number byte, words []uint32) {
			if number == registersOf {
				registers[symbols[words[0]-1].Name] = int(words[1])
			}
		})
		var entries []string
		for _, s := range file.Sections {
			if name, ok := strings.CutPrefix(s.Name, ".text."); ok {
				entries = append(entries, name)
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(entries)), slices.Sorted(slices.Values(e.Kernels))) {
			t.Errorf("%s: the cubin has %v, the PTX %v", e.Name, entries, e.Kernels)
		}
		for _, name := range e.Kernels {
			k := require.Get(m.Kernel(name))(t)
			shared := 0
			if s := file.Section(".nv.shared." + name); s != nil {
				shared = max(0, int(s.Size)-reservedShared)
			}
			if shared != k.Shared {
				t.Errorf("%s: %d bytes of shared memory in the cubin, %d in the PTX", name, shared, k.Shared)
			}
			threads := 0
			sizes := map[int]int{}
			attributes(t, file, ".nv.info."+name, func(number byte, words []uint32) {
				switch number {
				case maxThreads:
					threads = int(words[0] * words[1] * words[2])
				case parameter: // index, ordinal and offset, then flags with the size above bit 18
					sizes[int(words[1]&0xffff)] = int(words[2] >> 18)
				}
			})
			most := k.MaxThreads[0] * k.MaxThreads[1] * k.MaxThreads[2]
			if threads != most || most == 0 {
				t.Errorf("%s: blocks of %d threads in the cubin, %d in the PTX", name, threads, most)
			}
			if n := registers[name]; n == 0 || n > 255 || (n+7)/8*8*most > 65536 {
				t.Errorf("%s: %d registers for blocks of %d threads", name, n, most)
			}
			if len(sizes) != len(k.Params) {
				t.Errorf("%s: %d parameters in the cubin, %d in the PTX", name, len(sizes), len(k.Params))
			}
			for i, p := range k.Params {
				if sizes[i] != p.Size {
					t.Errorf("%s: parameter %d has %d bytes in the cubin, %d in the PTX", name, i, sizes[i], p.Size)
				}
			}
		}
	})
}
