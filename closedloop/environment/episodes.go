package environment

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// prepared is how many scenes a plant with domain.PlantAbilities.Prepare keeps, together how many of them a thread draws.
const (
	prepared  = 128
	drawBatch = 2 * lanes
)

// begin begins the next episodes of some environments.
func (f *Fleet[T]) begin(ctx context.Context, list []int, rows *Rows[T]) error {
	prepare := domain.AbilitiesOfPlant(f.plant).Prepare
	if prepare == nil || len(list) == 1 {
		return f.open(ctx, list, rows)
	}
	for part := range slices.Chunk(list, prepared) {
		var numbers []int
		for _, i := range part {
			numbers = append(numbers, f.number(i))
		}
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		// No more together than leaves every thread some.
		share := min(max((len(numbers)+len(f.workers)-1)/len(f.workers), 1), drawBatch)
		err := f.parallel(len(numbers), share, func(_ *worker, lo, hi int) error {
			return prepare(ctx, f.opt.Seed, numbers[lo:hi], domain.EpisodeOptions{Regime: f.opt.Regime, Preference: f.opt.Preference})
		})
		if err != nil {
			return fmt.Errorf("environment: %w", err)
		}
		if err := f.open(ctx, part, rows); err != nil {
			return err
		}
	}
	return nil
}

// number is that of the episode that follows in environment i.
func (f *Fleet[T]) number(i int) int {
	if f.opt.Cycle > 0 {
		return int(f.slots[i].next % int64(f.opt.Cycle))
	}
	return int(f.slots[i].next)
}

// open opens the next episodes of some environments.
func (f *Fleet[T]) open(ctx context.Context, list []int, rows *Rows[T]) error {
	return f.parallel(len(list), 1, func(_ *worker, index, _ int) error {
		i := list[index]
		e := &f.slots[i]
		number := f.number(i)
		ep, err := f.plant.Episode(f.opt.Seed, number, domain.EpisodeOptions{
			Noise: f.opt.Noise, Regime: f.opt.Regime, Preference: f.opt.Preference, Context: ctx,
		})
		if err != nil {
			return fmt.Errorf("environment: episode %d of %s: %w", number, f.spec.Name, err)
		}
		e.arrived = domain.AbilitiesOfEpisode(ep).Arrived
		e.episode, e.number = ep, int64(number)
		e.next += int64(len(f.slots))
		e.remaining, e.finished = ep.Steps(), false
		ep.Observe(e.s, e.c)
		f.observe(rows.Observation, i)
		store(rows.Episode, i, e.number)
		return nil
	})
}

// observe writes what environment i observed.
func (f *Fleet[T]) observe(dst []T, i int) {
	if dst == nil {
		return
	}
	e, row := &f.slots[i], dst[i*(f.ns+f.nc):]
	for k, v := range e.s {
		row[k] = T(v)
	}
	for k, v := range e.c {
		row[f.ns+k] = T(v)
	}
}

func store[V any](dst []V, i int, v V) {
	if dst != nil {
		dst[i] = v
	}
}

func storeRow(dst []float64, i int, v []float64) {
	if dst != nil {
		copy(dst[i*len(v):], v)
	}
}
