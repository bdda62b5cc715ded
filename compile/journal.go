package compile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/version"
)

const (
	journalName    = "compile.json"
	journalVersion = 6
	maxJournal     = 64 << 20 // bytes
)

// journal is what a run has done: with it the next run of the same options goes on.
type journal struct {
	Version       int     `json:"version"`
	Case          string  `json:"case"`
	ProblemSHA256 string  `json:"problem_sha256"`
	Program       string  `json:"program"`
	ISA           string  `json:"isa"`
	Training      string  `json:"training"`        // domain.Training in words
	Plant         string  `json:"plant,omitempty"` // what of it is not the model's, in words
	Seed          uint64  `json:"seed"`
	Scenarios     int     `json:"scenarios"`
	Starts        int     `json:"starts"`
	Cap           float64 `json:"cap_pct"` // of Score.Capped: the largest regret that the first run asked for
	Rounds        []Round `json:"rounds"`
	Pace          pace    `json:"pace"`
	Seconds       float64 `json:"seconds"` // of all runs so far
	durable.Seal
}

// open makes this run the one writer of its folder, which the returned function ends, and
// reads the journal of an earlier run there, or begins one.
func (r *run) open() (release func() error, err error) {
	level, err := isa.Name()
	if err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	want := journal{
		Version: journalVersion, Case: r.c.Name(), ProblemSHA256: durable.Sum(domain.FingerprintOf(r.c.Definition().MapProblem())),
		Program: version.Version + " " + version.Build(), ISA: level, Training: fmt.Sprintf("%+v", r.c.MapSpec().Training), Seed: r.opt.Seed, Scenarios: r.opt.Scenarios, Starts: r.opt.Starts,
		Cap: r.opt.Tail, Plant: plantOf(r.c.Definition()),
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	lock, err := durable.Acquire(r.dir)
	if err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	defer func() {
		if err != nil {
			lock.Release()
		}
	}()
	path := filepath.Join(r.dir, journalName)
	err = durable.ReadSealed(path, &r.journal, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		r.journal = want
		return lock.Release, r.save()
	}
	if err != nil {
		return nil, gpc.BadInput(fmt.Errorf("compile: %w", err))
	}
	if r.journal.Version == want.Version && r.journal.Case == want.Case && r.journal.ProblemSHA256 != want.ProblemSHA256 {
		return nil, gpc.BadInput(fmt.Errorf("compile: %s belongs to system %s before it was edited: field problem_sha256 is %s, want %s; choose another --out, or remove the folder", path, want.Case, r.journal.ProblemSHA256, want.ProblemSHA256))
	}
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"version", r.journal.Version, want.Version}, {"case", r.journal.Case, want.Case},
		{"program", r.journal.Program, want.Program}, {"isa", r.journal.ISA, want.ISA}, {"training", r.journal.Training, want.Training}, {"plant", r.journal.Plant, want.Plant}, {"seed", r.journal.Seed, want.Seed},
		{"scenarios", r.journal.Scenarios, want.Scenarios}, {"starts", r.journal.Starts, want.Starts},
	} {
		if f.got != f.want {
			return nil, gpc.BadInput(fmt.Errorf("compile: %s belongs to another run: field %s is %v, want %v; choose another --out, or remove the folder", path, f.name, f.got, f.want))
		}
	}
	r.continued = true
	return lock.Release, nil
}

func (r *run) save() error {
	r.journal.Seconds = r.spent()
	if err := durable.WriteSealed(filepath.Join(r.dir, journalName), &r.journal); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

// plantOf says in words what of the plant is not that of the model, measured exactly and at once.
func plantOf(c *domain.Case) string {
	words := slices.Clone(c.Altered)
	if m := c.Measurement; m != nil {
		words = append(words, fmt.Sprintf("measured: %v ± %v, process %v, unknown %+v, kept off %g", m.Outputs, m.Deviation, m.Process, m.Unknown, c.Level))
		if m.Window > 0 || m.Lo != nil {
			words = append(words, fmt.Sprintf("estimated over %d decisions within %v to %v", m.Window, m.Lo, m.Hi))
		}
	}
	if c.Delay.Periods > 0 {
		words = append(words, fmt.Sprintf("delay: %g periods", c.Delay.Periods))
	}
	return strings.Join(words, "; ")
}
