package images

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const engine = "github.com/gpc-engine/gpc"

// Module is a Go module with kernels: this one, or one that takes its headers from
// this one.
type Module struct {
	Root   string // its folder
	Engine string // the folder of github.com/gpc-engine/gpc, whose kernels/include holds the headers
}

// Find gives the module that dir lies in. The go command tells where a module that
// requires github.com/gpc-engine/gpc has it; one that does not is an error.
func Find(dir string) (Module, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return Module{}, err
	}
	if _, err := os.Stat(start); err != nil {
		return Module{}, err
	}
	root := start
	for {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module "+engine+"\n")) {
			return Module{root, root}, nil
		}
		if err == nil {
			break
		}
		parent := filepath.Dir(root)
		if parent == root {
			return Module{}, fmt.Errorf("%s lies in no Go module: kernels are compiled from a module's sources", start)
		}
		root = parent
	}
	// A vendor folder has no headers.
	list := exec.Command("go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", engine)
	list.Dir = root
	out, err := list.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(string(bytes.TrimSpace(exit.Stderr)))
	}
	if err != nil {
		return Module{}, fmt.Errorf("the headers of the kernels of %s: %w", root, err)
	}
	m := Module{root, strings.TrimSpace(string(out))}
	if m.Engine == "" {
		return Module{}, fmt.Errorf("the headers of the kernels of %s: %s is not downloaded, run go mod download", root, engine)
	}
	return m, nil
}

// Include is the folder of the headers that every kernel may include.
func (m Module) Include() string { return filepath.Join(m.Engine, "kernels", "include") }

// Folders lists the folders that hold kernels, by their slash-separated paths from
// the root: those with a .cu file or with images of one, but for what the go command leaves out (testdata,
// vendor, names that begin with a dot or a line, modules of their own) and build, where
// compilers lie. The images of a folder lie in its folder images.
func (m Module) Folders() ([]string, error) {
	var folders []string
	err := filepath.WalkDir(m.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			_, statErr := os.Stat(filepath.Join(path, "go.mod"))
			if path != m.Root && (statErr == nil || name[0] == '.' || name[0] == '_' || slices.Contains([]string{"testdata", "vendor", "build"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		dir := filepath.Dir(path)
		switch {
		case filepath.Ext(name) == ".cu":
		case name == "manifest.json" && filepath.Base(dir) == "images":
			dir = filepath.Dir(dir)
		default:
			return nil
		}
		folder, err := filepath.Rel(m.Root, dir)
		folders = append(folders, filepath.ToSlash(folder))
		return err
	})
	slices.Sort(folders)
	return slices.Compact(folders), err
}

// Sources lists the .cu files of folders.
func (m Module) Sources(folders ...string) ([]string, error) {
	var all []string
	for _, folder := range folders {
		sources, err := filepath.Glob(filepath.Join(m.Root, folder, "*.cu"))
		if err != nil {
			return nil, err
		}
		all = append(all, sources...)
	}
	return all, nil
}

var include = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*"([^"]+)"`)

// Text is a source and every header that it includes by quotes, by their paths. A
// header is looked for in the folder of the file that includes it, then in headers.
// One that is in none of them is left out.
func Text(source string, headers ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var visit func(path string) error
	visit = func(path string) error {
		if _, ok := files[path]; ok {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// A checkout may have rewritten line ends.
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		files[path] = text
		for _, m := range include.FindAllSubmatch(text, -1) {
			for _, dir := range append([]string{filepath.Dir(path)}, headers...) {
				header := filepath.Join(dir, string(m[1]))
				if _, err := os.Stat(header); err == nil {
					if err := visit(header); err != nil {
						return err
					}
					break
				}
			}
		}
		return nil
	}
	return files, visit(source)
}

// name is how a hash and an error call a file of the module or a header of the
// engine: by its slash-separated path from the root of its module.
func (m Module) name(path string) (string, error) {
	root := m.Root
	if isWithin(m.Include(), path) {
		root = m.Engine
	}
	rel, err := filepath.Rel(root, path)
	return filepath.ToSlash(rel), err
}

func isWithin(dir, path string) bool {
	return strings.HasPrefix(path, dir+string(filepath.Separator))
}

// Compile gives the image of a source for a target, by a process of kernels/build.
func Compile(program, source string, target Target) ([]byte, error) {
	cmd := exec.Command(program, "image", source, target.Name)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	image, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, bytes.TrimSpace(messages.Bytes()))
	}
	return image, nil
}
