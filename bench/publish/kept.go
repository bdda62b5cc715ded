package publish

import (
	"encoding/json"
	"fmt"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
)

// keptKind is a kind of record that pages show and the report does not: its name there, and what a record has to be.
type keptKind[T any] struct {
	name  string
	check func(*T) error
}

// The kinds that pages alone show.
var (
	tortures         = keptKind[Torture]{"torture", (*Torture).check}
	servings         = keptKind[Served]{"bench serve", nil}
	deadlineLoops    = keptKind[bench.Deadlines]{"bench deadline", nil}
	benchmarked      = keptKind[Benchmarked]{"bench record", (*Benchmarked).check}
	learnedRuns      = keptKind[LearnedFlows]{"learned optimal power flows", nil}
	besidePandapower = keptKind[BesidePandapower]{"peers of pandapower", nil}
)

// checkKept says which of the records of these kinds is none.
func checkKept(all []*report.Records) error {
	for _, r := range all {
		for _, valid := range []func(*report.Records) error{tortures.valid, servings.valid, deadlineLoops.valid, benchmarked.valid, learnedRuns.valid, besidePandapower.valid} {
			if err := valid(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// read gives the records of the kind.
func (k keptKind[T]) read(r *report.Records) (all []T, err error) {
	for _, text := range r.Kept(k.name) {
		var v T
		err := json.Unmarshal(text, &v)
		if err == nil && k.check != nil {
			err = k.check(&v)
		}
		if err != nil {
			return nil, fmt.Errorf("publish: a record of %s, %s: %w", r.Device, k.name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

func (k keptKind[T]) valid(r *report.Records) error {
	_, err := k.read(r)
	return err
}

// of are the records of the kind, all of them valid.
func (k keptKind[T]) of(r *report.Records) []T {
	all, _ := k.read(r)
	return all
}
