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

// Plain is the result of a plain network: E_x and D_u of the map's sizes, trained by the action loss alone. Data,
// epochs, batches, learning rates and seeds are the map's. It drives from the starts of the test by the method chosen
// for the map, with the same projection and guard.
type Plain struct {
	Score
	// Direct is the network and Map the map, both by `direct` from these starts: a search or a solver hides what they
	// decode.
	Direct Score `json:"direct"`     // of `direct` with it from the same starts
	Map    Score `json:"map_direct"` // of `direct` with the map from the same starts
}

// comparePlain trains the network in the stages of the map's training and drives it. Its time is not the budget's.
func (r *run) comparePlain(ctx context.Context, best int, mapModel *model.Model, test *Score) (*Plain, error) {
	start := r.clock()
	r.excluded.Store(true)
	defer func() {
		r.excludedTime.Add(int64(r.clock().Sub(start)))
		r.excluded.Store(false)
	}()
	m, err := r.plainMap(ctx, best)
	if err != nil {
		return nil, err
	}
	drive := func(name string, m *model.Model, method string) (Score, error) {
		d, err := r.drive(ctx, loops{name: name, gpcCase: r.c, model: m, method: method, purpose: tested, episodes: test.Episodes})
		return d.Score, err
	}
	out := &Plain{Map: *test}
	if out.Direct, err = drive("plain", m, "direct"); err != nil || test.Method == "direct" {
		out.Score = out.Direct
		return out, err
	}
	if out.Map, err = drive("map", mapModel, "direct"); err != nil {
		return nil, err
	}
	out.Score, err = drive("plain", m, test.Method)
	return out, err
}

// plainMap is the plain network of a round; it continues from that of the round that its map continued from.
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
		trained, err := r.trainRounds(ctx, i, r.journal.Rounds[i].Epochs, opt, "train plain", nil)
		if err != nil {
			return nil, err
		}
		m = trained.Model
		if err := m.WriteFile(file); err != nil {
			return nil, err
		}
		if err := os.Remove(opt.Checkpoint); err != nil {
			return nil, err
		}
	}
	return m, nil
}
