package dataset

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

// Merge joins the shards in dirs, in any order, into one dataset at out. Shards must have one provenance, be
// complete, and together make the whole. A shard that was made twice counts once, if both have the same samples.
// Merge compares every sample with its recorded hash, and writes the same parts as one machine would. Where out holds
// that dataset already, it writes nothing. Another dataset there, and folders that are no such shards, are a
// durable.Refusal. The header is written last: an interrupted merge is no dataset, and the same call completes it.
func Merge(ctx context.Context, out string, dirs ...string) (*Dataset, error) {
	shards, err := openShards(dirs)
	if err != nil {
		return nil, &durable.Refusal{Err: err}
	}
	sources, err := parts(shards)
	if err != nil {
		return nil, &durable.Refusal{Err: err}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	lock, err := durable.Acquire(out)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	defer lock.Release()
	h := shards[0].Header
	h.Shard = Shard{0, 1}
	if _, err := os.Stat(filepath.Join(out, headerName)); !errors.Is(err, fs.ErrNotExist) {
		return merged(out, &h, sources)
	}
	for chunk, source := range sources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := newColumns(h.Layout, source.Rows)
		if err := source.shard.Header.decode(source.shard.dir, source.manifest, c, 0); err != nil {
			return nil, &durable.Refusal{Err: err}
		}
		if _, err := makePart(out, &h, chunk, func(p *partWriter) (Counters, error) { return source.Counters, p.write(c) }); err != nil {
			return nil, err
		}
	}
	if err := durable.WriteSealed(filepath.Join(out, headerName), &h); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return Open(out)
}

// merged is the dataset at out, which must have that header and those parts.
func merged(out string, h *Header, sources []part) (*Dataset, error) {
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
	for i := 0; i < len(sources) && diff == ""; i++ {
		if m := &d.parts[i]; m.SamplesSHA256 != sources[i].SamplesSHA256 {
			diff = fmt.Sprintf("part %d has other samples than %s", m.Chunk, sources[i].shard.dir)
		}
	}
	if diff != "" {
		return nil, durable.Refusef("dataset: %s holds another dataset than these shards are: %s; choose an empty folder", out, diff)
	}
	return d, nil
}

// openShards opens complete shards of one provenance and sorts them. The error names every bad one.
func openShards(dirs []string) ([]*Dataset, error) {
	if len(dirs) == 0 {
		return nil, errors.New("dataset: no shard to merge")
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
			return nil, fmt.Errorf("dataset: %s does not belong to %s: %s; training takes both as rounds, unmerged", d.dir, first.dir, diff)
		}
	}
	slices.SortStableFunc(shards, func(a, b *Dataset) int { return a.Header.Shard.Index - b.Header.Shard.Index })
	return shards, nil
}

// part is a part with its shard.
type part struct {
	*manifest
	shard *Dataset
}

// parts are the parts of the whole by number, each from the first shard that has it.
func parts(shards []*Dataset) ([]part, error) {
	h := &shards[0].Header
	sources := make([]part, h.chunks())
	rows := 0
	for _, d := range shards {
		rows += d.rows
		for i := range d.parts {
			m := &d.parts[i]
			source := &sources[m.Chunk]
			if source.manifest == nil {
				*source = part{m, d}
			} else if source.SamplesSHA256 != m.SamplesSHA256 {
				return nil, fmt.Errorf("dataset: %s and %s both hold part %d (shard %s), with other samples", source.shard.dir, d.dir, m.Chunk, d.Header.Shard)
			}
		}
	}
	var missing []string
	for chunk, p := range sources {
		n := h.Shard.Count
		if s := (Shard{chunk % n, n}).String(); p.manifest == nil && !slices.Contains(missing, s) {
			missing = append(missing, s)
		}
	}
	switch {
	case len(missing) == 1:
		return nil, fmt.Errorf("dataset: shard %s is missing", missing[0])
	case len(missing) > 1:
		return nil, fmt.Errorf("dataset: shards %s are missing", strings.Join(missing, ", "))
	case rows == 0:
		return nil, fmt.Errorf("dataset: no samples in any of the %d shards", len(shards))
	}
	return sources, nil
}

// refuseSharedParts refuses datasets of which two hold the same part.
func refuseSharedParts(shards []*Dataset) error {
	owners := map[int]string{}
	for _, d := range shards {
		for _, m := range d.parts {
			if owner, ok := owners[m.Chunk]; ok {
				return fmt.Errorf("dataset: %s (shard %s) and %s both hold part %d", d.dir, d.Header.Shard, owner, m.Chunk)
			}
			owners[m.Chunk] = d.dir
		}
	}
	return nil
}
