package compile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/durable"
)

const (
	journalName    = "compile.json"
	journalVersion = 1
)

// journal is what a run has done: with it the next run of the same options goes on.
type journal struct {
	Version   int     `json:"version"`
	Case      string  `json:"case"`
	Seed      uint64  `json:"seed"`
	Scenarios int     `json:"scenarios"`
	Starts    int     `json:"starts"`
	Rounds    []Round `json:"rounds"`
	Seconds   float64 `json:"seconds"` // of all runs so far
}

// open reads the journal of an earlier run, or begins one.
func (r *run) open() error {
	want := journal{Version: journalVersion, Case: r.c.Name(), Seed: r.opt.Seed, Scenarios: r.opt.Scenarios, Starts: r.opt.Starts}
	path := filepath.Join(r.dir, journalName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		r.journal = want
		if err := os.MkdirAll(r.dir, 0o755); err != nil {
			return fmt.Errorf("compile: %w", err)
		}
		return r.save()
	}
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if err := json.Unmarshal(data, &r.journal); err != nil {
		return gpc.BadInput(fmt.Errorf("compile: %s: %w", path, err))
	}
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"version", r.journal.Version, want.Version}, {"case", r.journal.Case, want.Case}, {"seed", r.journal.Seed, want.Seed},
		{"scenarios", r.journal.Scenarios, want.Scenarios}, {"starts", r.journal.Starts, want.Starts},
	} {
		if f.got != f.want {
			return gpc.BadInput(fmt.Errorf("compile: %s is of another run: field %s is %v, want %v; choose another --out or remove the folder", path, f.name, f.got, f.want))
		}
	}
	return nil
}

func (r *run) save() error {
	r.journal.Seconds = r.spent()
	return writeJSON(filepath.Join(r.dir, journalName), &r.journal)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if err := durable.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}
