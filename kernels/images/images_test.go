package images_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	interpreter "github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// packed is an image as its file has it.
func packed(t testing.TB, image []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := images.Write(dir, "image", "ptx", image); err != nil {
		t.Fatal(err)
	}
	return require.Get(os.ReadFile(filepath.Join(dir, images.FileName("image", "ptx"))))(t)
}

// Every committed image belongs to the source as it is now.
func TestImagesAreNotStale(t *testing.T) {
	m := require.Get(images.Find("."))(t)
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

func check(root string) error { return images.Module{Root: root, Engine: root}.Check() }

// checkout writes a small module with one kernel and its images.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"kernels/add.cu":           "#include \"gpc.cuh\"\nGPC_KERNEL(gpc_add)\n",
		"kernels/include/gpc.cuh":  "#include \"deep.cuh\"\n#include \"shim.h\"\n",
		"kernels/include/deep.cuh": "// one\n",
		"kernels/include/free.cuh": "// nobody includes this\n",
	} {
		write(t, root, name, []byte(text))
	}
	hash := require.Get(images.Module{Root: root, Engine: root}.SourceHash(filepath.Join(root, "kernels/add.cu")))(t)
	files := ""
	for _, target := range images.Targets {
		image := []byte("image for " + target.Name + " with gpc_add")
		blob := packed(t, image)
		write(t, root, "kernels/images/"+images.FileName("add", target.Name), blob)
		if files != "" {
			files += ","
		}
		files += `"` + target.Name + `":"` + images.Hash(image) + `"`
	}
	write(t, root, "kernels/images/manifest.json",
		[]byte(`{"images":[{"name":"add","source":"`+hash+`","kernels":["gpc_add"],"files":{`+files+`}}]}`))
	return root
}

func write(t *testing.T, root, name string, text []byte) {
	t.Helper()
	path := filepath.Join(root, name)
	require.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFindsWhatIsStale(t *testing.T) {
	if err := check(checkout(t)); err != nil {
		t.Fatalf("a whole checkout: %v", err)
	}
	for name, test := range map[string]struct {
		file, text, want string
	}{
		"source":          {"kernels/add.cu", "#include \"gpc.cuh\"\nGPC_KERNEL(gpc_add) \n", "changed since"},
		"included header": {"kernels/include/deep.cuh", "// two\n", "changed since"},
		"other kernels":   {"kernels/add.cu", "GPC_KERNEL(gpc_add)\nGPC_KERNEL(gpc_sub)\n", "gpc_sub"},
		"new source":      {"kernels/mul.cu", "", "mul.cu has no image"},
		"domain":          {"domains/tank/tank.cu", "", "tank.cu has no image"},
		"damaged image":   {"kernels/images/add.sm_90.cubin.zst", "x", "not the file"},
	} {
		root := checkout(t)
		write(t, root, test.file, []byte(test.text))
		if err := check(root); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.want)
		}
	}
	root := checkout(t)
	write(t, root, "kernels/include/free.cuh", []byte("// other\n"))
	if err := check(root); err != nil {
		t.Errorf("a header that nobody includes: %v", err)
	}
	require.OK(t, os.Remove(filepath.Join(root, "kernels/add.cu")))
	if err := check(root); err == nil || !strings.Contains(err.Error(), "no source") {
		t.Errorf("an image without source: %v", err)
	}
}

// gpu hides that the library is the shim, which loads any ELF or PTX.
type (
	hostShim = shim.Library
	gpu      struct{ *hostShim }
)

func (gpu) HostShim() bool { return false }

func TestModulesChooseTheImage(t *testing.T) {
	l := shim.OpenFiles(t, "kernels/shim/testdata/sum.cu")
	ptx := packed(t, []byte("// PTX"))
	cubin := packed(t, []byte("\x7fELF"))
	const manifest = `{"images":[{"name":"sum","kernels":["gpc_test_sum","gpc_test_missing"],"files":{"compute_80.ptx":"a","sm_80.cubin":"c","sm_86.cubin":"d","sm_90.cubin":"b"}}]}`
	for name, test := range map[string]struct {
		major, minor int
		file         string // the only one that is there
		content      []byte
		ok           bool
	}{
		"cubin of its own":                      {9, 0, "sm_90.cubin", cubin, true},
		"cubin of an older minor revision":      {8, 9, "sm_86.cubin", cubin, true},
		"cubin of the oldest":                   {8, 5, "sm_80.cubin", cubin, true},
		"PTX for a newer major revision":        {10, 0, "compute_80.ptx", ptx, true},
		"PTX where compatibility is none":       {8, 7, "compute_80.ptx", ptx, true},
		"neither ELF nor PTX":                   {12, 0, "compute_80.ptx", bytes.Repeat([]byte{1}, 9), false},
		"the file of the architecture is lost":  {9, 0, "sm_80.cubin", cubin, false},
		"a cubin of another major is not taken": {12, 0, "sm_90.cubin", cubin, false},
	} {
		l.SetAttribute(75, test.major)
		l.SetAttribute(76, test.minor)
		ctx := require.Get(driver.Open(gpu{l}, 0))(t)
		files := fstest.MapFS{"manifest.json": {Data: []byte(manifest)}, images.FileName("sum", test.file): {Data: test.content}}
		set := require.Get(images.New(files))(t)
		modules := images.NewModules(set)
		err := ctx.Do(func(th *driver.Thread) error {
			_, err := modules.Kernel(th, "gpc_test_sum")
			return err
		})
		var image *driver.ImageError
		if test.ok && err != nil || !test.ok && !errors.As(err, &image) {
			t.Errorf("%s: %v", name, err)
		}
		for _, kernel := range []string{"gpc_test_missing", "gpc_test_nowhere"} {
			err = ctx.Do(func(th *driver.Thread) error {
				_, err := modules.Kernel(th, kernel)
				return err
			})
			if !errors.As(err, &image) || test.ok && image.Kernel != kernel {
				t.Errorf("%s: %s: %v, want an *ImageError", name, kernel, err)
			}
		}
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The interpreter says an architecture that a cubin may be there for, and executes PTX alone: it is given PTX. Where
// only a cubin is there, that is an error.
func TestTheInterpreterIsGivenPTX(t *testing.T) {
	const manifest = `{"images":[{"name":"eig","kernels":["gpc_eig_32"],"files":{"compute_80.ptx":"a","sm_80.cubin":"b"}}]}`
	ptx := require.Get(os.ReadFile(images.FileName("eig", "compute_80.ptx")))(t)
	files := fstest.MapFS{
		"manifest.json":                          {Data: []byte(manifest)},
		images.FileName("eig", "sm_80.cubin"):    {Data: packed(t, []byte("\x7fELF"))},
		images.FileName("eig", "compute_80.ptx"): {Data: ptx},
	}
	for _, there := range []bool{true, false} {
		if !there {
			delete(files, images.FileName("eig", "compute_80.ptx"))
		}
		ctx := require.Get(driver.Open(device.New(interpreter.Options{}), 0))(t)
		if d := ctx.Device(); d.Major != 8 || d.Minor != 0 {
			t.Fatalf("the interpreter is %s, and the cubin that it must not be given is of sm_80", d.ISA())
		}
		err := ctx.Do(func(th *driver.Thread) error {
			_, err := images.NewModules(require.Get(images.New(files))(t)).Kernel(th, "gpc_eig_32")
			return err
		})
		if (err == nil) != there {
			t.Errorf("with PTX %v: %v", there, err)
		}
		require.OK(t, ctx.Close())
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed(f, []byte("an image")))
	f.Fuzz(func(t *testing.T, blob []byte) {
		image, err := images.Unpack(blob)
		if err == nil && len(blob) == 0 && len(image) != 0 {
			t.Errorf("nothing unpacks to %d bytes", len(image))
		}
	})
}

// Kernels are compiled from a module that is this one or requires it; anything else is
// an error that says where it looked.
func TestFindSaysWhatIsNotAModuleWithKernels(t *testing.T) {
	m, err := images.Find("../shim/host")
	if err != nil || m.Root != m.Engine || filepath.Base(filepath.Dir(m.Include())) != "kernels" {
		t.Errorf("a folder of this module: %+v, %v", m, err)
	}
	alone := t.TempDir()
	if _, err := images.Find(alone); err == nil || !strings.Contains(err.Error(), alone+" lies in no Go module") {
		t.Errorf("a folder outside every module: %v", err)
	}
	if _, err := images.Find(filepath.Join(alone, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	write(t, alone, "go.mod", []byte("module example.com/alone\n\ngo 1.26\n"))
	t.Setenv("GOWORK", "off")
	t.Setenv("GOPROXY", "off")
	if _, err := images.Find(alone); err == nil || !strings.Contains(err.Error(), alone) || !strings.Contains(err.Error(), "github.com/gpc-engine/gpc") {
		t.Errorf("a module that does not require this one: %v", err)
	}
}

// Folders are those of the go command's packages: what belongs to another module, to
// tests or to a compiler is none, and images whose sources are gone still are.
func TestFoldersOfAModule(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"top.cu", "a/b/deep.cu", "a/second.cu", "gone/images/manifest.json",
		"other/go.mod", "other/x.cu", "a/testdata/x.cu", "vendor/x.cu", "build/nvcc/x.cu", "_asm/x.cu", ".git/x.cu", "data/manifest.json",
	} {
		write(t, root, name, nil)
	}
	got, err := images.Module{Root: root, Engine: root}.Folders()
	if want := []string{".", "a", "a/b", "gone"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("folders %v, %v; want %v", got, err, want)
	}
}
