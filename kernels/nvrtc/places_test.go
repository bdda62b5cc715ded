//go:build unix

package nvrtc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLibrariesAreFoundWithoutAVariable lays libraries where CUDA toolkits, PyPI's wheels of CUDA 12 and 13 and conda put them, and looks for
// them as a program does that was told of none.
func TestLibrariesAreFoundWithoutAVariable(t *testing.T) {
	root := t.TempDir()
	env := map[string]string{}
	m := machine{func(name string) string { return env[name] }, root}
	put := func(path string) string {
		full := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(path), 0o600)); err != nil {
			t.Fatal(err)
		}
		return full
	}
	if found := m.libraries(); len(found) > 0 {
		t.Errorf("nothing is there, and found is %q", found)
	}
	usual := []string{ // in this order
		put("usr/local/cuda/lib64/libnvrtc.so.12"),
		put("usr/local/cuda-13.0/targets/x86_64-linux/lib/libnvrtc.so.13"),
		put("opt/pytorch/venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
		put("usr/local/lib/python3.11/dist-packages/nvidia/cu13/lib/libnvrtc.so.13"),
		put("usr/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
	}
	put("usr/local/cuda/lib64/libnvrtc-builtins.so.12.2")
	put("usr/local/cuda/lib64/libnvrtc.alt.so.12")
	if err := os.Symlink("libnvrtc.so.12", filepath.Join(root, "usr/local/cuda/lib64/libnvrtc.so")); err != nil {
		t.Fatal(err)
	}
	if found := m.libraries(); !slices.Equal(found, usual) {
		t.Errorf("found %q, want %q", found, usual)
	}
	for name, of := range map[string]struct{ set, library string }{
		"CUDA_HOME":    {"sdk", "sdk/lib64/libnvrtc.so.12"},
		"VIRTUAL_ENV":  {"home/me/project/env", "home/me/project/env/lib/python3.10/site-packages/nvidia/cu13/lib/libnvrtc.so.13"},
		"CONDA_PREFIX": {"home/me/conda/envs/x", "home/me/conda/envs/x/lib/libnvrtc.so.12"},
		"PYTHONPATH":   {"home/me/packages", "home/me/packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"},
		"HOME":         {"home/me", "home/me/.local/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"},
	} {
		library := put(of.library)
		if found := m.libraries(); slices.Contains(found, library) {
			t.Errorf("%s is found without %s", of.library, name)
		}
		env[name] = filepath.Join(root, of.set)
		if found := m.libraries(); !slices.Contains(found, library) {
			t.Errorf("%s is not found by %s: %q", of.library, name, found)
		}
		delete(env, name)
	}
	// An interpreter on the path, in an environment that was made from another.
	put("venvs/a/bin/python3")
	if err := os.WriteFile(filepath.Join(root, "venvs/a/pyvenv.cfg"), []byte("home = "+filepath.Join(root, "pythons/3.13/bin")+"\nversion = 3.13.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	library := put("pythons/3.13/lib/python3.13/site-packages/nvidia/cu13/lib/libnvrtc.so.13")
	env["PATH"] = strings.Join([]string{"relative", filepath.Join(root, "venvs/a/bin")}, string(filepath.ListSeparator))
	if found := m.libraries(); !slices.Contains(found, library) {
		t.Errorf("of what made the environment of an interpreter on the path %q is not found: %q", library, found)
	}
}

// TestNewestComesFirst orders by numbers, not by letters.
func TestNewestComesFirst(t *testing.T) {
	names := []string{"python3.9", "python3.13", "python3.10"}
	if slices.SortFunc(names, newerFirst); !slices.Equal(names, []string{"python3.13", "python3.10", "python3.9"}) {
		t.Errorf("order %q", names)
	}
}

// TestFoundCompilerFitsTheDriver takes the compiler of `make nvcc`, where it is, for drivers as new as it or of its major version, and refuses it for older ones.
func TestFoundCompilerFitsTheDriver(t *testing.T) {
	wheel, err := filepath.Abs("../../build/nvcc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(wheel, "nvidia")); err != nil {
		t.Skip("make nvcc did not run here")
	}
	for _, name := range []string{Variable, "CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "VIRTUAL_ENV", "CONDA_PREFIX", "PATH"} {
		t.Setenv(name, "")
	}
	t.Setenv("PYTHONPATH", wheel)
	for _, driver := range []int{0, 13000, 12020, 12000} {
		c, err := Find(driver)
		if err != nil {
			t.Fatalf("driver %d: %v", driver, err)
		}
		if driver == 12000 && c.Major != 12 || driver >= 12020 && c.Older(driver) || !slices.Contains(c.Architectures(), 90) {
			t.Errorf("driver %d: %+v, architectures %v", driver, c, c.Architectures())
		}
	}
	var newer *NewerError
	if _, err := Find(11080); !errors.As(err, &newer) || !strings.Contains(err.Error(), "up to CUDA 11.8") {
		t.Errorf("a driver of CUDA 11.8: %v", err)
	}
}
