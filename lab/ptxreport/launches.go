package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/ptx"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
	"github.com/gpc-engine/gpc/lab/report"
)

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
		c := report.CountedLaunch{Case: name}
		for _, k := range d.Counts() {
			c.Kernel, c.Barriers = k.Kernel, float64(k.Barriers)
			c.Chain, c.Local, c.Frame = float64(k.Chain), float64(k.Warps[ptx.ClassLocal]), k.Local
			for _, n := range k.Warps {
				c.Instructions += float64(n)
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
			// A whole training is so many updates of a size.
			whole := l.Of != "step" && l.Of != "train" || jobs && strings.HasPrefix(name, "size:")
			if whole != jobs {
				return
			}
			c.Operation, c.Place, c.Batch, c.TF32 = l.Of, l.Place, batch, tf32
			if whole {
				c.Shaped(l)
			} else { // its record has the shape
				c.Case, c.Chain = "", 0
				c.Local, c.Frame = 0, 0
			}
			failed = errors.Join(failed, out.Encode(c))
		},
	})
	return errors.Join(err, failed)
}

// counting is a backend that keeps the counts of the traced call's launches alone.
type counting struct {
	*kernels.Backend
	all []report.CountedLaunch
}

// Trace implements backend.Tracer.
func (t *counting) Trace(calls int, prepare, call func() error) ([]backend.Launch, error) {
	return t.Backend.Trace(calls, prepare, func() error {
		t.all = nil
		return call()
	})
}
