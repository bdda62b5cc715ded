package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/gpc-engine/gpc/internal/durable"
)

// Merge joins the shards in dirs into one dataset at out. Shards must be of one
// provenance, complete, disjoint, and together the whole; every sample is
// compared with its recorded hash on the way. out must not hold a dataset yet:
// its header is written last, so an interrupted merge is none.
func Merge(ctx context.Context, out string, dirs ...string) (*Dataset, error) {
	if len(dirs) == 0 {
		return nil, errors.New("offline: no shard to merge")
	}
	if _, err := os.Stat(filepath.Join(out, headerName)); err == nil {
		return nil, fmt.Errorf("offline: %s holds a dataset already", out)
	}
	shards, owner, err := openShards(dirs...)
	if err != nil {
		return nil, err
	}
	first := shards[0]
	for chunk := range first.Header.chunks() {
		if _, ok := owner[chunk]; !ok {
			n := first.Header.Shard.Count
			return nil, fmt.Errorf("offline: part %d of %d is in none of the folders: shard %s is missing", chunk, first.Header.chunks(), Shard{chunk % n, n})
		}
	}
	if slices.IndexFunc(shards, func(d *Dataset) bool { return d.rows > 0 }) < 0 {
		return nil, fmt.Errorf("offline: no samples in any of the %d shards", len(shards))
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	lock, err := durable.Acquire(out)
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	defer lock.Release()
	for _, d := range shards {
		if err := d.Verify(); err != nil {
			return nil, err
		}
		for _, m := range d.parts {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := copyFile(filepath.Join(out, partName(m.Chunk)), filepath.Join(d.dir, partName(m.Chunk))); err != nil {
				return nil, err
			}
			if err := durable.WriteSealed(filepath.Join(out, manifestName(m.Chunk)), &m); err != nil {
				return nil, fmt.Errorf("offline: %w", err)
			}
		}
	}
	h := first.Header
	h.Shard = Shard{0, 1}
	if err := durable.WriteSealed(filepath.Join(out, headerName), &h); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	return Open(out)
}

// openShards opens shards of one provenance that hold no part twice; they need not
// be all. The map says which folder holds a part.
func openShards(dirs ...string) ([]*Dataset, map[int]string, error) {
	var shards []*Dataset
	for _, dir := range dirs {
		d, err := Open(dir)
		if err != nil {
			return nil, nil, err
		}
		if len(shards) > 0 {
			first := shards[0]
			if diff := d.Header.differs(&first.Header); diff != "" {
				return nil, nil, fmt.Errorf("offline: %s does not belong to %s: %s; training takes both as rounds, unmerged", dir, first.dir, diff)
			}
		}
		shards = append(shards, d)
	}
	owner, err := owners(shards)
	return shards, owner, err
}

// owners says which folder holds a part of a dataset; a part in two is an error.
func owners(shards []*Dataset) (map[int]string, error) {
	owner := map[int]string{}
	for _, d := range shards {
		for _, m := range d.parts {
			if other, ok := owner[m.Chunk]; ok {
				return nil, fmt.Errorf("offline: %s (shard %s) and %s both hold part %d", d.dir, d.Header.Shard, other, m.Chunk)
			}
			owner[m.Chunk] = d.dir
		}
	}
	return owner, nil
}

func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	defer src.Close()
	if err := durable.Create(to, func(w io.Writer) error {
		_, err := io.Copy(w, src)
		return err
	}); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	return nil
}
