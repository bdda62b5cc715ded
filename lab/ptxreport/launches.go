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
	"github.com/gpc-engine/gpc/paper"
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
}

// launches appends the counts of every launch of a case's step and training update to a file, in the order in which
// gpc bench kernels times them.
func launches(file, name string, batch int, tf32 bool) (err error) {
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
		Ops: []string{"kernels"}, Case: name, Batches: []int{batch}, Seed: 1, Cases: paper.Cases().Cases, Model: bundled,
		Report: func(r bench.Result) {
			c := t.all[r.Launch.Place-1]
			c.Of, c.Place, c.Batch, c.TF32 = r.Launch.Of, r.Launch.Place, batch, tf32
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
