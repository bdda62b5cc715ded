package dataset

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

// makePart writes the part of a chunk, then its manifest. fill writes the rows and returns the counters. After an
// error of fill, which it returns unchanged, neither file exists.
func makePart(dir string, h *Header, chunk int, fill func(*partWriter) (Counters, error)) (Counters, error) {
	m := manifest{Chunk: chunk}
	sum := sha256.New()
	var fillErr error
	err := durable.Create(filepath.Join(dir, partName(chunk)), func(w io.Writer) error {
		p, err := newPartWriter(io.MultiWriter(w, sum, (*length)(&m.Bytes)), *h, chunk)
		if err != nil {
			return err
		}
		if m.Counters, fillErr = fill(p); fillErr != nil {
			return fillErr
		}
		m.Rows, m.SamplesSHA256 = p.rows, p.hash.String()
		return p.close()
	})
	if fillErr != nil {
		return Counters{}, fillErr
	}
	if err == nil {
		m.PartSHA256 = durable.Sum([sha256.Size]byte(sum.Sum(nil)))
		err = durable.WriteSealed(filepath.Join(dir, manifestName(chunk)), &m)
	}
	if err != nil {
		return Counters{}, fmt.Errorf("dataset: part %d of %s: %w", chunk, dir, err)
	}
	return m.Counters, nil
}

// length counts the bytes written to it.
type length int64

func (n *length) Write(b []byte) (int, error) {
	*n += length(len(b))
	return len(b), nil
}

// partWriter writes a part as parquet, sample by sample. It holds at most one group of rows.
type partWriter struct {
	out    *parquet.GenericWriter[any]
	row    parquet.Row
	ids    [5]int  // columns of scenario, trajectory, step, perturbed and adaptive
	floats [][]int // columns of the components of every block
	rows   int
	hash   contentHash
}

func newPartWriter(w io.Writer, header Header, chunk int) (*partWriter, error) {
	header.SHA256, header.Command = "", "" // those of another file
	text, err := json.Marshal(header)
	if err != nil {
		return nil, fmt.Errorf("dataset: dataset header: %w", err)
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
			panic("dataset: the schema has no column " + name)
		}
		return leaf.ColumnIndex
	}
	p := &partWriter{
		out: parquet.NewGenericWriter[any](w, options...), row: make(parquet.Row, len(schema.Columns())),
		ids: [5]int{index("scenario"), index("trajectory"), index("step"), index("perturbed"), index("adaptive")},
	}
	for _, b := range newColumns(header.Layout, 0).blocks() {
		columns := make([]int, b.m.Cols)
		for j := b.from; j < b.m.Cols; j++ {
			columns[j] = index(b.column(j))
		}
		p.floats = append(p.floats, columns)
	}
	return p, nil
}

// write adds samples to the part.
func (p *partWriter) write(c *Columns) error {
	p.hash.add(c.hash(0, c.Rows()))
	blocks := c.blocks()
	set := func(col int, v parquet.Value) { p.row[col] = v.Level(0, 0, col) }
	for i := range c.Rows() {
		set(p.ids[0], parquet.Int32Value(c.Scenario[i]))
		set(p.ids[1], parquet.Int64Value(c.Trajectory[i]))
		set(p.ids[2], parquet.Int32Value(c.Step[i]))
		set(p.ids[3], parquet.BooleanValue(c.Perturbed[i]))
		set(p.ids[4], parquet.BooleanValue(c.Preference.Row(i)[0] == 0))
		for b, bl := range blocks {
			for j := bl.from; j < bl.m.Cols; j++ {
				set(p.floats[b][j], parquet.FloatValue(bl.m.Row(i)[j]))
			}
		}
		if _, err := p.out.WriteRows([]parquet.Row{p.row}); err != nil {
			return fmt.Errorf("dataset: writing row %d: %w", p.rows+i, err)
		}
	}
	p.rows += c.Rows()
	return nil
}

// close ends the file.
func (p *partWriter) close() error {
	if err := p.out.Close(); err != nil {
		return fmt.Errorf("dataset: writing the parquet footer: %w", err)
	}
	return nil
}
