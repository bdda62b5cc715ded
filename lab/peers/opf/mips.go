package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/grid/matpower/cases"
)

// findMIPS looks for Octave and for MATPOWER in a folder, and asks both for their
// versions.
func findMIPS(matpower string) (peer, error) {
	octave, err := exec.LookPath("octave-cli")
	if err != nil {
		return peer{}, errors.New("MIPS: octave-cli is not on the path (Debian's package octave)")
	}
	if matpower == "" {
		return peer{}, errors.New("MIPS: --matpower names no folder of MATPOWER")
	}
	if matpower, err = filepath.Abs(matpower); err != nil {
		return peer{}, fmt.Errorf("MIPS: %w", err)
	}
	if _, err := os.Stat(filepath.Join(matpower, "mips", "lib", "mips.m")); err != nil {
		return peer{}, fmt.Errorf("MIPS: %s is no folder of MATPOWER: %w", matpower, err)
	}
	m := mips{octave, matpower}
	text, err := m.run(`printf('%s %s %s\n', mpver(), mipsver(), OCTAVE_VERSION());`)
	if err != nil {
		return peer{}, fmt.Errorf("MIPS: %w", err)
	}
	versions := strings.Fields(text)
	if len(versions) != 3 {
		return peer{}, fmt.Errorf("MIPS: asked for three versions, Octave printed %q", text)
	}
	return peer{fmt.Sprintf("MIPS %s of MATPOWER %s in Octave %s", versions[1], versions[0], versions[2]), m.time}, nil
}

// mips is MATPOWER's interior point solver in Octave.
type mips struct{ octave, matpower string }

// run executes a script with MATPOWER on Octave's path, on one thread, and returns
// what it prints.
func (m mips) run(script string) (string, error) {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "peers_script.m")
	path := fmt.Sprintf("addpath('%[1]s/lib','%[1]s/mips/lib','%[1]s/mp-opt-model/lib','%[1]s/mptest/lib');\n", m.matpower)
	if err := os.WriteFile(file, []byte(path+script), 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command(m.octave, "--norc", "--quiet", file)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
	var log bytes.Buffer
	cmd.Stderr = &log
	printed, err := cmd.Output()
	if err != nil && len(printed) == 0 { // Octave may fail while it exits, after all is done
		return "", fmt.Errorf("octave-cli: %w: %s", err, firstLine(log.String()))
	}
	return string(printed), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// timing makes three solves after one that warms up, by MATPOWER's older core,
// which is the faster one.
const timing = `mpc = loadcase('%s');
mpopt = mpoption('out.all', 0, 'verbose', 0, 'opf.ac.solver', 'MIPS', 'opf.start', 1, 'exp.use_legacy_core', 1);
runopf(mpc, mpopt);
for k = 1:3
  t = cputime; r = runopf(mpc, mpopt); t = cputime - t;
  printf('%%.9f %%.12g %%d\n', 1e6*t, r.f, r.success);
end
`

// time is the shortest of three solves.
func (m mips) time(name string) (us, objective float64, err error) {
	text, err := cases.Text(name)
	if err != nil {
		return 0, 0, err
	}
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name+".m")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return 0, 0, err
	}
	printed, err := m.run(fmt.Sprintf(timing, file))
	if err != nil {
		return 0, 0, err
	}
	var took []float64
	for line := range strings.Lines(printed) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "1" {
			return 0, 0, fmt.Errorf("%s: MATPOWER printed %q", name, line)
		}
		t, errTime := strconv.ParseFloat(f[0], 64)
		value, errValue := strconv.ParseFloat(f[1], 64)
		if errTime != nil || errValue != nil {
			return 0, 0, fmt.Errorf("%s: MATPOWER printed %q", name, line)
		}
		took, objective = append(took, t), value
	}
	if len(took) != 3 {
		return 0, 0, fmt.Errorf("%s: MATPOWER printed %d times, want 3: %q", name, len(took), printed)
	}
	return slices.Min(took), objective, nil
}
