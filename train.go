package gpc

import (
	"context"

	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/train"
)

// build is what datasets and models say of the program that made them.
func build() string { return version.Version + " " + version.Build() }

// Train trains a map on the data in folders of datasets, their shards or both (see offline.Load); see train.Run. Backend,
// Problem, Data and Version of opt are filled in. progress may be nil.
func (c *Case) Train(ctx context.Context, e *Engine, dirs []string, opt train.Options, progress func(train.Progress)) (*train.Result, error) {
	opt.Backend, opt.Problem, opt.Version = e.backend, c.def.MapProblem(), build()
	var rounds []*offline.Dataset
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := offline.Open(dir)
		if err != nil {
			return nil, BadInput(err)
		}
		rounds = append(rounds, d)
	}
	var err error
	if opt.Data, err = train.FromDataset(c.def.MapProblem(), rounds...); err != nil {
		return nil, BadInput(err)
	}
	if err := opt.Validate(); err != nil {
		return nil, BadInput(err)
	}
	result, err := train.Run(ctx, opt, progress)
	return result, refused(err)
}
