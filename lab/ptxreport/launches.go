package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
)

// counted is a launch with the instructions that its warps executed.
type counted struct {
	Of           string `json:"of"`
	Place        int    `json:"place"`
	Batch        int    `json:"batch"`
	TF32         bool   `json:"tf32"`
	Kernel       string `json:"kernel"`
	Instructions uint64 `json:"instructions"`
	Barriers     uint64 `json:"barriers"` // of blocks
	*shape
}

// shape is what a launch of a whole job needs besides, since no record has it.
type shape struct {
	Case   string `json:"case"`
	Chain  uint64 `json:"chain"` // through the slowest block
	Blocks int    `json:"blocks"`
	Block  int    `json:"block"`
	Shared int    `json:"shared"`
	Local  uint64 `json:"local"` // instructions of these
	Frame  int    `json:"frame"` // bytes of local memory that a thread has
}

// launches appends the counts of every launch of a case's step and training update, or of its whole jobs, to a file, in the order in which
// gpc bench kernels times them.
func launches(file, name string, batch int, tf32, jobs bool) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d := device.New(ptx.Options{Tolerate: true})
	b, err := interpreted(d, tf32)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	t := &counting{Backend: b}
	d.Launched = func() {
		var c counted
		for _, k := range d.Counts() {
			c.Kernel, c.Barriers = k.Kernel, k.Barriers
			c.shape = &shape{Case: name, Chain: k.Chain, Local: k.Warps[ptx.ClassLocal], Frame: k.Local}
			for _, n := range k.Warps {
				c.Instructions += n
			}
		}
		t.all = append(t.all, c)
		d.Forget()
	}
	out := json.NewEncoder(f)
	var failed error
	_, err = bench.Run(context.Background(), t, nil, bench.Options{
		Ops: []string{"kernels"}, Case: name, Batches: []int{batch}, Seed: 1, Cases: cases(), Model: bundled,
		Report: func(r bench.Result) {
			c := t.all[r.Launch.Place-1]
			l := r.Launch
			c.Of, c.Place, c.Batch, c.TF32 = l.Of, l.Place, batch, tf32
			c.Blocks, c.Block, c.Shared = max(1, l.Grid[0])*max(1, l.Grid[1]), l.Block, l.Shared
			switch whole := l.Of != "step" && l.Of != "train"; {
			case whole != jobs:
				return
			case !whole:
				c.shape = nil
			}
			failed = errors.Join(failed, out.Encode(c))
		},
	})
	return errors.Join(err, failed)
}

// counting is a backend that keeps the counts of the traced call's launches alone.
type counting struct {
	*kernels.Backend
	all []counted
}

// Trace implements backend.Tracer.
func (t *counting) Trace(calls int, prepare, call func() error) ([]backend.Launch, error) {
	return t.Backend.Trace(calls, prepare, func() error {
		t.all = nil
		return call()
	})
}
