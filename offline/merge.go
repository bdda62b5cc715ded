package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
)

// Merge joins the shards in dirs, in whatever order, into one dataset at out. Shards must be
// of one provenance, complete, and together the whole; one that was made twice counts once,
// if both have the same samples. Every sample is compared with its recorded hash on the way,
// and the parts that are written are those that one machine writes. Where out holds that
// dataset already nothing is written. Any other there, and shards that are none, are a
// durable.Refusal. The header is written last, so an interrupted merge is none, and the same
// call completes it.
func Merge(ctx context.Context, out string, dirs ...string) (*Dataset, error) {
	shards, err := openShards(dirs)
	if err != nil {
		return nil, &durable.Refusal{Err: err}
	}
	taken, err := parts(shards)
	if err != nil {
		return nil, &durable.Refusal{Err: err}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	lock, err := durable.Acquire(out)
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	defer lock.Release()
	h := shards[0].Header
	h.Shard = Shard{0, 1}
	if _, err := os.Stat(filepath.Join(out, headerName)); !errors.Is(err, fs.ErrNotExist) {
		return merged(out, &h, taken)
	}
	for chunk, from := range taken {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := newColumns(h.Layout, from.Rows)
		if err := from.of.Header.decode(from.of.dir, from.manifest, c, 0); err != nil {
			return nil, &durable.Refusal{Err: err}
		}
		if _, err := makePart(out, &h, chunk, func(p *partWriter) (Counters, error) { return from.Counters, p.write(c) }); err != nil {
			return nil, err
		}
	}
	if err := durable.WriteSealed(filepath.Join(out, headerName), &h); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	return Open(out)
}

// merged is the dataset at out, which has to be the one of that header and those parts.
func merged(out string, h *Header, taken []part) (*Dataset, error) {
	d, err := Open(out)
	if err == nil {
		err = d.Verify()
	}
	if err != nil {
		return nil, &durable.Refusal{Err: err}
	}
	diff := h.differs(&d.Header)
	if diff == "" && d.Header.Shard != h.Shard {
		diff = fmt.Sprintf("it is shard %s", d.Header.Shard)
	}
	for i := 0; i < len(taken) && diff == ""; i++ {
		if m := &d.parts[i]; m.SamplesSHA256 != taken[i].SamplesSHA256 {
			diff = fmt.Sprintf("part %d has other samples than %s", m.Chunk, taken[i].of.dir)
		}
	}
	if diff != "" {
		return nil, durable.Refusef("offline: %s holds another dataset than these shards are: %s; choose an empty folder", out, diff)
	}
	return d, nil
}

// openShards opens complete shards of one provenance, in their order. The error names every
// one that is not.
func openShards(dirs []string) ([]*Dataset, error) {
	if len(dirs) == 0 {
		return nil, errors.New("offline: no shard to merge")
	}
	var shards []*Dataset
	var bad []error
	for _, dir := range dirs {
		d, err := Open(dir)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		shards = append(shards, d)
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	first := shards[0]
	for _, d := range shards {
		if diff := d.Header.differs(&first.Header); diff != "" {
			return nil, fmt.Errorf("offline: %s does not belong to %s: %s; training takes both as rounds, unmerged", d.dir, first.dir, diff)
		}
	}
	slices.SortStableFunc(shards, func(a, b *Dataset) int { return a.Header.Shard.Index - b.Header.Shard.Index })
	return shards, nil
}

// part is a part of a dataset with the shard that it is taken from.
type part struct {
	*manifest
	of *Dataset
}

// parts are those of the whole, by their number, each from the first shard that has it.
func parts(shards []*Dataset) ([]part, error) {
	h := &shards[0].Header
	taken := make([]part, h.chunks())
	rows := 0
	for _, d := range shards {
		rows += d.rows
		for i := range d.parts {
			m := &d.parts[i]
			there := &taken[m.Chunk]
			if there.manifest == nil {
				*there = part{m, d}
			} else if there.SamplesSHA256 != m.SamplesSHA256 {
				return nil, fmt.Errorf("offline: %s and %s both hold part %d (shard %s), with other samples", there.of.dir, d.dir, m.Chunk, d.Header.Shard)
			}
		}
	}
	var missing []string
	for chunk, p := range taken {
		n := h.Shard.Count
		if s := (Shard{chunk % n, n}).String(); p.manifest == nil && !slices.Contains(missing, s) {
			missing = append(missing, s)
		}
	}
	switch {
	case len(missing) == 1:
		return nil, fmt.Errorf("offline: shard %s is missing", missing[0])
	case len(missing) > 1:
		return nil, fmt.Errorf("offline: shards %s are missing", strings.Join(missing, ", "))
	case rows == 0:
		return nil, fmt.Errorf("offline: no samples in any of the %d shards", len(shards))
	}
	return taken, nil
}

// refuseSharedParts refuses datasets of which two hold the same part.
func refuseSharedParts(shards []*Dataset) error {
	owner := map[int]string{}
	for _, d := range shards {
		for _, m := range d.parts {
			if other, ok := owner[m.Chunk]; ok {
				return fmt.Errorf("offline: %s (shard %s) and %s both hold part %d", d.dir, d.Header.Shard, other, m.Chunk)
			}
			owner[m.Chunk] = d.dir
		}
	}
	return nil
}
