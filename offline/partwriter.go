package offline

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/gpc-engine/gpc/internal/durable"
)

// makePart writes the part of a chunk, whose rows fill gives to the writer, then its manifest
// with the counters that fill returns. An error of fill is returned as it is, and leaves
// neither.
func makePart(dir string, h *Header, chunk int, fill func(*partWriter) (Counters, error)) (Counters, error) {
	m := manifest{Chunk: chunk}
	sum := sha256.New()
	var failed error
	err := durable.Create(filepath.Join(dir, partName(chunk)), func(w io.Writer) error {
		p, err := newPartWriter(io.MultiWriter(w, sum, (*length)(&m.Bytes)), *h, chunk)
		if err != nil {
			return err
		}
		if m.Counters, failed = fill(p); failed != nil {
			return failed
		}
		m.Rows, m.SamplesSHA256 = p.rows, p.hash.String()
		return p.close()
	})
	if failed != nil {
		return Counters{}, failed
	}
	if err == nil {
		m.PartSHA256 = durable.Sum([sha256.Size]byte(sum.Sum(nil)))
		err = durable.WriteSealed(filepath.Join(dir, manifestName(chunk)), &m)
	}
	if err != nil {
		return Counters{}, fmt.Errorf("offline: part %d of %s: %w", chunk, dir, err)
	}
	return m.Counters, nil
}

// length counts what is written to it.
type length int64

func (n *length) Write(b []byte) (int, error) {
	*n += length(len(b))
	return len(b), nil
}

// partWriter writes a part as parquet, as its samples come. What it holds is at most a group
// of rows.
type partWriter struct {
	out    *parquet.GenericWriter[any]
	row    parquet.Row
	ids    [5]int  // columns of scenario, trajectory, step, perturbed and adaptive
	floats [][]int // columns of the components of every block
	rows   int
	hash   contentHash
}

func newPartWriter(w io.Writer, header Header, chunk int) (*partWriter, error) {
	header.SHA256, header.Command = "", "" // of another file, and of no matter to a part
	text, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("offline: dataset header: %w", err)
	}
	schema := schemaOf(header.Layout)
	options := []parquet.WriterOption{
		schema,
		parquet.Compression(&parquet.Uncompressed),
		parquet.MaxRowsPerRowGroup(rowGroupRows),
		parquet.CreatedBy("gpc", header.Provenance.Program, ""),
		parquet.KeyValueMetadata(keyHeader, string(text)),
		parquet.KeyValueMetadata(keyChunk, strconv.Itoa(chunk)),
	}
	for k, v := range describe(header.Layout) {
		options = append(options, parquet.KeyValueMetadata(k, v))
	}
	index := func(name string) int {
		leaf, ok := schema.Lookup(name)
		if !ok {
			panic("offline: the schema has no column " + name)
		}
		return leaf.ColumnIndex
	}
	p := &partWriter{
		out: parquet.NewGenericWriter[any](w, options...), row: make(parquet.Row, len(schema.Columns())),
		ids: [5]int{index("scenario"), index("trajectory"), index("step"), index("perturbed"), index("adaptive")},
	}
	for _, b := range newColumns(header.Layout, 0).blocks() {
		at := make([]int, b.m.Cols)
		for j := b.from; j < b.m.Cols; j++ {
			at[j] = index(b.column(j))
		}
		p.floats = append(p.floats, at)
	}
	return p, nil
}

// write adds samples to the part.
func (p *partWriter) write(c *Columns) error {
	p.hash.add(c.hash(0, c.Rows()))
	blocks := c.blocks()
	put := func(col int, v parquet.Value) { p.row[col] = v.Level(0, 0, col) }
	for i := range c.Rows() {
		put(p.ids[0], parquet.Int32Value(c.Scenario[i]))
		put(p.ids[1], parquet.Int64Value(c.Trajectory[i]))
		put(p.ids[2], parquet.Int32Value(c.Step[i]))
		put(p.ids[3], parquet.BooleanValue(c.Perturbed[i]))
		put(p.ids[4], parquet.BooleanValue(c.Preference.Row(i)[0] == 0))
		for b, bl := range blocks {
			for j := bl.from; j < bl.m.Cols; j++ {
				put(p.floats[b][j], parquet.FloatValue(bl.m.Row(i)[j]))
			}
		}
		if _, err := p.out.WriteRows([]parquet.Row{p.row}); err != nil {
			return fmt.Errorf("offline: writing row %d: %w", p.rows+i, err)
		}
	}
	p.rows += c.Rows()
	return nil
}

// close ends the file.
func (p *partWriter) close() error {
	if err := p.out.Close(); err != nil {
		return fmt.Errorf("offline: writing the parquet footer: %w", err)
	}
	return nil
}
