package nvrtc

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// machine is where a library is looked for: the environment, and the root of the file system.
type machine struct {
	getenv func(string) string
	root   string // "/", or that of a test
}

// path is an absolute path of the machine.
func (m machine) path(path string) string { return filepath.Join(m.root, path) }

// libraries are the files of the library that a machine has, the likeliest first: of CUDA toolkits, then of the wheels of PyPI, which
// PyTorch brings with it, in the environments of Python. Within one folder the newest comes first. What is not absolute is left out: a library in the folder that
// gpc happens to run in is not trusted.
func (m machine) libraries() (list []string) {
	visited := map[string]bool{}
	add := func(folders ...string) {
		for _, folder := range folders {
			var files []string
			for _, pattern := range []string{"libnvrtc.so.1[0-9]", "libnvrtc.so"} {
				matches, _ := filepath.Glob(filepath.Join(folder, pattern)) // the pattern is not malformed
				slices.SortFunc(matches, newerFirst)
				files = append(files, matches...)
			}
			for _, f := range files {
				real, err := filepath.EvalSymlinks(f)
				if err == nil && !visited[real] {
					visited[real] = true
					list = append(list, f)
				}
			}
		}
	}
	for _, toolkit := range m.toolkits() {
		add(filepath.Join(toolkit, "lib64"))
		add(m.glob(filepath.Join(toolkit, "targets", "*-linux", "lib"))...)
	}
	for _, packages := range m.sitePackages() {
		add(m.glob(filepath.Join(packages, "nvidia", "cu[0-9]*", "lib"))...)
		add(filepath.Join(packages, "nvidia", "cuda_nvrtc", "lib"))
	}
	for _, prefix := range m.prefixes() { // conda's packages
		add(filepath.Join(prefix, "lib"))
	}
	return list
}

// toolkits are the folders of CUDA toolkits.
func (m machine) toolkits() (folders []string) {
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"} {
		if v := m.getenv(name); filepath.IsAbs(v) {
			folders = append(folders, v)
		}
	}
	folders = append(folders, m.path("usr/local/cuda"))
	return append(append(folders, m.glob(m.path("usr/local/cuda-*"))...), m.path("opt/cuda"))
}

// prefixes are what environments of Python are installed in: the active ones, those of the interpreters on the path, and usual places.
func (m machine) prefixes() (folders []string) {
	add := func(prefix string) {
		if filepath.IsAbs(prefix) && !slices.Contains(folders, prefix) {
			folders = append(folders, prefix)
		}
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		add(m.getenv(name))
	}
	for _, dir := range filepath.SplitList(m.getenv("PATH")) {
		for _, name := range []string{"python3", "python"} {
			program := filepath.Join(dir, name)
			info, err := os.Stat(program)
			if err != nil || info.IsDir() {
				continue
			}
			add(filepath.Dir(dir))
			// Of an environment, the interpreter that it was made from.
			if real, err := filepath.EvalSymlinks(program); err == nil {
				add(filepath.Dir(filepath.Dir(real)))
			}
			add(m.madeFrom(filepath.Dir(dir)))
		}
	}
	for _, pattern := range []string{"opt/venv", "opt/*/venv", "opt/*/.venv", "opt/venvs/*", "opt/conda", "opt/*conda*"} {
		for _, prefix := range m.glob(m.path(pattern)) {
			add(prefix)
		}
	}
	if home := m.getenv("HOME"); home != "" {
		add(filepath.Join(home, ".local"))
	}
	for _, prefix := range []string{"usr/local", "usr"} {
		add(m.path(prefix))
	}
	return folders
}

// madeFrom is the prefix of the interpreter that an environment was made from, by its pyvenv.cfg, "" where there is none.
func (m machine) madeFrom(prefix string) string {
	text, err := os.ReadFile(filepath.Join(prefix, "pyvenv.cfg"))
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && strings.TrimSpace(name) == "home" {
			return filepath.Dir(strings.TrimSpace(value))
		}
	}
	return ""
}

// sitePackages are the folders that Python's packages lie in.
func (m machine) sitePackages() (folders []string) {
	for _, dir := range filepath.SplitList(m.getenv("PYTHONPATH")) {
		if filepath.IsAbs(dir) {
			folders = append(folders, dir)
		}
	}
	for _, prefix := range m.prefixes() {
		for _, pattern := range []string{"lib*/python3*/site-packages", "lib*/python3*/dist-packages"} {
			libraries := m.glob(filepath.Join(prefix, pattern))
			slices.SortFunc(libraries, newerFirst)
			folders = append(folders, libraries...)
		}
	}
	return folders
}

// glob is filepath.Glob, which finds nothing by a malformed pattern, as of a folder with a bracket in its name.
func (m machine) glob(pattern string) []string {
	matches, _ := filepath.Glob(pattern)
	return matches
}

// newerFirst orders names by the numbers in them, the larger first.
func newerFirst(a, b string) int { return slices.Compare(numbers(b), numbers(a)) }

// numbers are the numbers in a name.
func numbers(name string) (out []int) {
	for _, field := range strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(field) // digits alone, and too many of them are as many
		out = append(out, n)
	}
	return out
}
