package images

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Compiler names what `make kernels` compiles with. Another compiler, another hash.
const Compiler = "NVRTC 12.2"

// Targets are what each source is compiled to, with their flags. The folder of the
// headers is the engine's (Module.Include), wherever that lies.
var Targets = []Target{
	{Name: "compute_80.ptx", Flags: []string{"--gpu-architecture=compute_80", "--std=c++17", "--include-path=kernels/include"}},
	{Name: "sm_90.cubin", Flags: []string{"--gpu-architecture=sm_90", "--std=c++17", "--include-path=kernels/include"}},
}

// Extra are architectures that no image is committed for: the bundle for a machine with a
// GPU carries them, so that nothing is compiled when it starts there. sm_80 runs on every
// device of compute capability 8.x, the others are made for theirs. NVRTC 12.2 knows none
// newer than 9.0: what is newer takes the PTX.
var Extra = []Target{extra("sm_80"), extra("sm_86"), extra("sm_89")}

func extra(isa string) Target {
	return Target{Name: isa + ".cubin", Flags: []string{"--gpu-architecture=" + isa, "--std=c++17", "--include-path=kernels/include"}}
}

// Target is one kind of image.
type Target struct {
	Name  string
	Flags []string
}

// Manifest says which sources the images of a folder were compiled from.
type Manifest struct {
	Compiler string  `json:"compiler"`
	Images   []Entry `json:"images"`
}

// Entry is one source and its images.
type Entry struct {
	Name    string            `json:"name"`    // of the source, without .cu
	Source  string            `json:"source"`  // hash of source, headers, compiler and flags
	Kernels []string          `json:"kernels"` // entry points
	Files   map[string]string `json:"files"`   // target → hash of the image
}

// SourceHash covers the source, every header it includes (by quotes, in its own
// folder or the engine's kernels/include), the compiler and the flags.
func (m Module) SourceHash(source string) (string, error) {
	files, err := Text(source, m.Include())
	if err != nil {
		return "", err
	}
	names := map[string][]byte{}
	for path, text := range files {
		name, err := m.name(path)
		if err != nil {
			return "", err
		}
		names[name] = text
	}
	h := sha256.New()
	fmt.Fprintln(h, Compiler)
	for _, t := range Targets {
		fmt.Fprintln(h, t.Name, t.Flags)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintln(h, name, len(names[name]))
		h.Write(names[name])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

var entryPoint = regexp.MustCompile(`(?m)^[ \t]*GPC_KERNEL\((\w+)\)`)

// EntryPoints lists the kernels that a source registers.
func EntryPoints(source []byte) []string {
	names := []string{}
	for _, m := range entryPoint.FindAllSubmatch(source, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// ReadManifest reads the manifest of a folder of images; one that is not there is empty.
func ReadManifest(dir string) (Manifest, error) {
	s, err := New(os.DirFS(dir))
	if errors.Is(err, os.ErrNotExist) {
		return Manifest{}, nil
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", dir, err)
	}
	return s.manifest, nil
}

// Entry finds an entry by name.
func (m Manifest) Entry(name string) (Entry, bool) {
	if i := slices.IndexFunc(m.Images, func(e Entry) bool { return e.Name == name }); i >= 0 {
		return m.Images[i], true
	}
	return Entry{}, false
}

// CheckFile says why the file of an image in a folder is not the one that was compiled.
func (e Entry) CheckFile(dir string, t Target) error {
	path := filepath.Join(dir, FileName(e.Name, t.Name))
	blob, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if image, err := Unpack(blob); err != nil || Hash(image) != e.Files[t.Name] {
		return fmt.Errorf("%s is not the file that was compiled (%v)", path, err)
	}
	return nil
}

// Images is the folder of the images of a folder of kernels.
func (m Module) Images(folder string) string { return filepath.Join(m.Root, folder, "images") }

// Check says what of the committed images does not belong to the sources: an image
// that is missing, older than its source, damaged, or without a source. It needs no
// compiler.
func (m Module) Check() error {
	folders, err := m.Folders()
	if err != nil {
		return err
	}
	var wrong []string
	for _, folder := range folders {
		dir := m.Images(folder)
		manifest, err := ReadManifest(dir)
		if err != nil {
			return err
		}
		sources, err := m.Sources(folder)
		if err != nil {
			return err
		}
		expected := map[string]bool{}
		for _, source := range sources {
			name := strings.TrimSuffix(filepath.Base(source), ".cu")
			expected[name] = true
			hash, err := m.SourceHash(source)
			if err != nil {
				return err
			}
			e, ok := manifest.Entry(name)
			switch {
			case !ok:
				wrong = append(wrong, folder+"/"+name+".cu has no image")
				continue
			case e.Source != hash:
				wrong = append(wrong, folder+"/"+name+".cu, a header or the flags changed since its image was compiled")
			}
			text, err := os.ReadFile(source)
			if err != nil {
				return err
			}
			if entryPoints := EntryPoints(text); strings.Join(entryPoints, " ") != strings.Join(e.Kernels, " ") {
				wrong = append(wrong, fmt.Sprintf("%s/%s.cu registers %v, its image %v", folder, name, entryPoints, e.Kernels))
			}
			for _, t := range Targets {
				if err := e.CheckFile(dir, t); err != nil {
					wrong = append(wrong, err.Error())
				}
			}
		}
		for _, e := range manifest.Images {
			if !expected[e.Name] {
				wrong = append(wrong, folder+"/images holds "+e.Name+", which has no source")
			}
		}
	}
	if wrong != nil {
		return errors.New("the kernel images are stale, compile them (make kernels, or go run " + engine + "/kernels/build compile) and commit:\n  " + strings.Join(wrong, "\n  "))
	}
	return nil
}

// Hash is the hash of an image in a manifest.
func Hash(image []byte) string {
	s := sha256.Sum256(image)
	return hex.EncodeToString(s[:])
}

// FileName is the name of an image's file.
func FileName(name, target string) string { return name + "." + target + ".zst" }
