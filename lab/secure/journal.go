package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/version"
)

// part is what a method made of one trajectory.
type part struct {
	Method    string    `json:"method"`
	Episode   int       `json:"episode"`
	Steps     int       `json:"steps"`
	Decisions int       `json:"decisions"`
	Secure    int       `json:"secure"`
	Margin    float64   `json:"margin_pu"`
	Worst     string    `json:"worst"`
	Cost      float64   `json:"cost"`
	Optimum   float64   `json:"optimum"` // of the exact chain over the same steps
	CPU       []float64 `json:"cpu_ms"`
	Bound     []float64 `json:"bound_pct"`
	Gap       []float64 `json:"gap_pct,omitempty"`
	Below     int       `json:"below,omitempty"`
	Action    []float64 `json:"action"`
	// Failure says what ended the trajectory, such as a dispatch without a power flow: what was left to decide counts as not secure, and
	// the cost as none.
	Failure string `json:"failure,omitempty"`
}

// journal are the parts that a comparison has come to, in a file that says of what: the same command goes on there.
type journal struct {
	path string // "": nothing is kept

	Of    string `json:"of"`
	Parts []part `json:"parts"`
	durable.Seal
}

// journalBytes are the most that a journal may have; ten thousand decisions of nine methods have a twentieth of it.
const journalBytes = 1 << 27

// openJournal reads the parts in a file of the same comparison, "" for none.
func openJournal(path string, o options) (*journal, error) {
	of := fmt.Sprintf("%s %s %q %d %v %d %s", o.name, o.file, o.regime, o.seed, o.gaps, o.bounds, version.Build())
	j := &journal{path: path}
	if path != "" {
		if err := durable.ReadSealed(path, j, journalBytes); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if j.Of != "" && j.Of != of {
			return nil, fmt.Errorf("%s is of %.200q, not of %q: take another file", path, j.Of, of)
		}
	}
	j.Of = of
	return j, nil
}

// find is a part that is known.
func (j *journal) find(method string, episode, steps int) (part, bool) {
	for _, p := range j.Parts {
		if p.Method == method && p.Episode == episode && p.Steps == steps {
			return p, true
		}
	}
	return part{}, false
}

// add keeps a part.
func (j *journal) add(p part) error {
	j.Parts = append(j.Parts, p)
	if j.path == "" {
		return nil
	}
	return durable.WriteSealed(j.path, j)
}
