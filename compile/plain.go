package compile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/train"
)

// Plain is a plain network: E_x and D_u of the map's sizes, trained by the action loss alone with the map's data, epochs,
// batches, learning rates and seeds. It drives from the starts of the test by the method chosen for the map, behind the same
// projection and guard.
type Plain struct {
	Score
	// Direct is it and Map the map by `direct` from these starts: what a search or a solver improves hides what they decode.
	Direct Score `json:"direct"`     // of `direct` with it from the same starts
	Map    Score `json:"map_direct"` // of `direct` with the map from the same starts
}

// plain trains the network in the stages that the map was trained in, and drives it. Its time is not the budget's.
func (r *run) plain(ctx context.Context, best int, mapped *model.Model, test *Score) (*Plain, error) {
	began := r.now()
	defer func() { r.aside += r.since(began) }()
	m, err := r.plainMap(ctx, best)
	if err != nil {
		return nil, err
	}
	by := func(m *model.Model, method string) (Score, error) {
		return r.drive(ctx, loops{of: r.c, model: m, method: method, purpose: tested, episodes: test.Episodes})
	}
	out := &Plain{Map: *test}
	if out.Direct, err = by(m, "direct"); err != nil || test.Method == "direct" {
		out.Score = out.Direct
		return out, err
	}
	if out.Map, err = by(mapped, "direct"); err != nil {
		return nil, err
	}
	out.Score, err = by(m, test.Method)
	return out, err
}

// plainMap is the plain network of a round, from that of the round that its map went on from.
func (r *run) plainMap(ctx context.Context, number int) (m *model.Model, err error) {
	chain := []int{number}
	for chain[0] > 0 {
		chain = slices.Insert(chain, 0, r.journal.Rounds[chain[0]].From)
	}
	for _, i := range chain {
		file := filepath.Join(r.dir, fmt.Sprintf("plain-%02d.safetensors", i))
		if _, err := os.Stat(file); err == nil {
			if m, err = r.c.Model(file); err != nil {
				return nil, err
			}
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		opt := train.Options{Plain: true, Initial: m, Checkpoint: file + ".checkpoint", Resume: true}
		got, err := r.trained(ctx, i, r.journal.Rounds[i].Epochs, opt, func(p train.Progress) {
			r.opt.Progress(Progress{Stage: "train plain", Done: p.Step, Total: p.Steps})
		})
		if err != nil {
			return nil, err
		}
		m = got.Model
		if err := m.WriteFile(file); err != nil {
			return nil, err
		}
		if err := os.Remove(opt.Checkpoint); err != nil {
			return nil, err
		}
	}
	return m, nil
}
