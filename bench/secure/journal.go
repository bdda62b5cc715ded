package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

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
}

// journal are the parts that a comparison has come to, in a file whose first line says of what: the same command goes on there.
type journal struct {
	file  *os.File // nil: nothing is kept
	parts []part
}

// openJournal reads the parts in a file of the same comparison, "" for none.
func openJournal(path string, o options) (*journal, error) {
	j := &journal{}
	if path == "" {
		return j, nil
	}
	of := fmt.Sprintf("%s %s %q %d %v %d %s", o.name, o.file, o.regime, o.seed, o.gaps, o.bounds, version.Build())
	text, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if j.file, err = os.Create(path); err == nil {
			_, err = fmt.Fprintln(j.file, of)
		}
		return j, err
	} else if err != nil {
		return nil, err
	}
	defer text.Close()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<26)
	if !lines.Scan() || lines.Text() != of {
		return nil, fmt.Errorf("%s is of %.200q, not of %q: take another file", path, lines.Text(), of)
	}
	whole := int64(len(lines.Text()) + 1)
	for lines.Scan() {
		var p part
		if json.Unmarshal(lines.Bytes(), &p) != nil {
			break // where the program was stopped while it wrote
		}
		j.parts = append(j.parts, p)
		whole += int64(len(lines.Bytes()) + 1)
	}
	if j.file, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		return nil, err
	}
	if err := j.file.Truncate(whole); err != nil {
		return nil, err
	}
	_, err = j.file.Seek(whole, 0)
	return j, err
}

// find is a part that is known.
func (j *journal) find(method string, episode, steps int) (part, bool) {
	for _, p := range j.parts {
		if p.Method == method && p.Episode == episode && p.Steps == steps {
			return p, true
		}
	}
	return part{}, false
}

// add keeps a part.
func (j *journal) add(p part) error {
	j.parts = append(j.parts, p)
	if j.file == nil {
		return nil
	}
	return json.NewEncoder(j.file).Encode(p)
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
