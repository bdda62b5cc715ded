package dataset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gpc-engine/gpc/tensor"
)

// A part is one parquet file: a chunk's samples, one required column per
// scalar, PLAIN and uncompressed. Columns are scenario and step (INT32),
// trajectory (INT64), perturbed and adaptive (BOOLEAN), kkt and w_0, s_0, c_0,
// u_0, target_0, sigma_0, J_0, margin_0, … (FLOAT). w is zero where adaptive is
// true. The key-value metadata has the header of the dataset, the chunk, and
// for every float column its variable and unit under "column:NAME".
//
// The strict layout is for the reader's sake: float32 optima do not compress,
// and sizes are known before anything is allocated.
const rowGroupRows = 1 << 16

const (
	keyHeader = "gpc:dataset"
	keyChunk  = "gpc:chunk"
)

// schemaOf is the parquet schema of a layout.
func schemaOf(l Layout) *parquet.Schema {
	plain := func(n parquet.Node) parquet.Node { return parquet.Encoded(n, &parquet.Plain) }
	group := parquet.Group{
		"scenario":   plain(parquet.Leaf(parquet.Int32Type)),
		"trajectory": plain(parquet.Leaf(parquet.Int64Type)),
		"step":       plain(parquet.Leaf(parquet.Int32Type)),
		"perturbed":  plain(parquet.Leaf(parquet.BooleanType)),
		"adaptive":   plain(parquet.Leaf(parquet.BooleanType)),
	}
	for _, b := range newColumns(l, 0).blocks() {
		for j := b.from; j < b.m.Cols; j++ {
			group[b.column(j)] = plain(parquet.Leaf(parquet.FloatType))
		}
	}
	return parquet.NewSchema("sample", group)
}

// describe lists the variable and unit of every float column.
func describe(l Layout) map[string]string {
	out := map[string]string{"column:kkt": "largest scaled KKT residual [1]"}
	add := func(name string, cs []Component, unit func(Component) string) {
		for i, c := range cs {
			out[fmt.Sprintf("column:%s_%d", name, i)] = fmt.Sprintf("%s [%s]", c.Name, unit(c))
		}
	}
	unit := func(c Component) string { return c.Unit }
	dimensionless := func(Component) string { return "1" }
	add("s", l.S, unit)
	add("c", l.C, unit)
	add("u", l.U, unit)
	add("target", l.U, unit)
	add("J", l.Objectives, unit)
	add("w", l.Objectives, dimensionless)
	add("sigma", l.Objectives, dimensionless)
	add("margin", l.Margins, unit)
	return out
}

// decodePart reads a part of rows samples into dst from row firstRow. It returns the header in the part, as JSON. It
// checks everything that sizes an allocation against the file's size and the layout first. It refuses non-finite
// values.
func decodePart(r io.ReaderAt, size int64, l Layout, chunk, rows int, dst *Columns, firstRow int) (header string, err error) {
	file, err := openParquet(r, size)
	if err != nil {
		return "", err
	}
	if number, _ := file.Lookup(keyChunk); number != strconv.Itoa(chunk) {
		return "", fmt.Errorf("metadata %s is %q, want %d", keyChunk, number, chunk)
	}
	if file.NumRows() != int64(rows) {
		return "", fmt.Errorf("file has %d rows, want %d", file.NumRows(), rows)
	}
	schema := schemaOf(l)
	leaves := file.Root().Columns()
	if len(leaves) != len(schema.Columns()) {
		return "", fmt.Errorf("file has %d columns, want %d", len(leaves), len(schema.Columns()))
	}
	for i, path := range schema.Columns() {
		c := leaves[i]
		leaf, _ := schema.Lookup(path...)
		if !c.Leaf() || c.Name() != path[0] || !c.Required() || c.Type().Kind() != leaf.Node.Type().Kind() {
			return "", fmt.Errorf("column %d is %s, want %s: required %s", i, c, path[0], leaf.Node.Type())
		}
	}
	floats := map[string]position{}
	for _, b := range dst.blocks() {
		for j := b.from; j < b.m.Cols; j++ {
			floats[b.column(j)] = position{b.m, j}
		}
	}
	rowsRead := 0
	for g := range file.Metadata().RowGroups {
		group := &file.Metadata().RowGroups[g]
		n := int(group.NumRows)
		if group.NumRows < 0 || group.NumRows > int64(rows-rowsRead) {
			return "", fmt.Errorf("row group %d has %d rows, %d are left", g, group.NumRows, rows-rowsRead)
		}
		for i, col := range leaves {
			store := columnReader(col.Name(), dst, floats, firstRow+rowsRead)
			if err := readChunk(r, size, &group.Columns[i], col.Type().Kind(), n, store); err != nil {
				return "", fmt.Errorf("row group %d, column %s: %w", g, col.Name(), err)
			}
		}
		rowsRead += n
	}
	if rowsRead != rows {
		return "", fmt.Errorf("row groups have %d rows, want %d", rowsRead, rows)
	}
	header, _ = file.Lookup(keyHeader)
	return header, nil
}

// position is the place of a float column in Columns.
type position struct {
	m         tensor.Matrix
	component int
}

// columnReader returns the function that stores a page of a column: count PLAIN values in body. The first belongs to
// row firstRow + offset of dst.
func columnReader(name string, dst *Columns, floats map[string]position, firstRow int) func(offset, count int, body []byte) error {
	switch name {
	case "scenario", "step":
		to := dst.Scenario
		if name == "step" {
			to = dst.Step
		}
		return func(o, n int, body []byte) error {
			values, err := parquet.Plain.DecodeInt32(nil, body)
			copy(to[firstRow+o:firstRow+o+n], values)
			return err
		}
	case "trajectory":
		return func(o, n int, body []byte) error {
			values, err := parquet.Plain.DecodeInt64(nil, body)
			copy(dst.Trajectory[firstRow+o:firstRow+o+n], values)
			return err
		}
	case "perturbed", "adaptive":
		return func(o, n int, body []byte) error {
			for i := range n {
				set := body[i/8]>>(i%8)&1 == 1
				switch {
				case name == "perturbed":
					dst.Perturbed[firstRow+o+i] = set
				case set:
					dst.Preference.Row(firstRow + o + i)[0] = 0
				default:
					dst.Preference.Row(firstRow + o + i)[0] = 1
				}
			}
			return nil
		}
	}
	to, ok := floats[name]
	if !ok {
		panic("dataset: the schema has an unknown column " + name)
	}
	return func(o, n int, body []byte) error {
		values, err := parquet.Plain.DecodeFloat(nil, body)
		if err != nil {
			return err
		}
		for i, v := range values {
			if v-v != 0 {
				return fmt.Errorf("value %d is %v, want a finite number", o+i, v)
			}
			to.m.Data[(firstRow+o+i)*to.m.Stride+to.component] = v
		}
		return nil
	}
}

// readChunk reads one column chunk of n required, PLAIN, uncompressed values.
func readChunk(r io.ReaderAt, size int64, chunk *format.ColumnChunk, kind parquet.Kind, n int, store func(offset, count int, body []byte) error) error {
	meta := &chunk.MetaData
	if meta.Codec != format.Uncompressed || meta.DictionaryPageOffset != 0 {
		return fmt.Errorf("codec is %s, dictionary at %d, want an uncompressed chunk without dictionary", meta.Codec, meta.DictionaryPageOffset)
	}
	if meta.NumValues != int64(n) {
		return fmt.Errorf("chunk has %d values, its row group %d rows", meta.NumValues, n)
	}
	from, length := meta.DataPageOffset, meta.TotalCompressedSize
	// Headers of pages are small; 8 bytes a value is the widest type here.
	if limit := 8*int64(n) + 1<<20; from < 4 || length < 0 || length > limit || from > size-length {
		return fmt.Errorf("chunk lies at [%d, %d+%d), want it within the file's %d bytes and at most %d long", from, from, length, size, limit)
	}
	raw := make([]byte, length)
	if _, err := r.ReadAt(raw, from); err != nil {
		return fmt.Errorf("reading %d bytes at %d: %w", length, from, err)
	}
	var protocol thrift.CompactProtocol
	for valuesRead := 0; valuesRead < n; {
		if err := checkThrift(raw); err != nil {
			return fmt.Errorf("page header after value %d: %w", valuesRead, err)
		}
		reader := protocol.NewReaderFromBytes(raw)
		var header format.PageHeader
		if err := thrift.NewDecoder(reader).Decode(&header); err != nil {
			return fmt.Errorf("page header after value %d: %w", valuesRead, err)
		}
		raw = raw[reader.BytesRead():]
		h := header.DataPageHeaderV2
		if header.Type != format.DataPageV2 || !h.Valid || h.V.Encoding != format.Plain || h.V.NumNulls != 0 ||
			h.V.RepetitionLevelsByteLength != 0 || h.V.DefinitionLevelsByteLength != 0 {
			return fmt.Errorf("page after value %d is not a plain data page (version 2) of required values", valuesRead)
		}
		count, bytes := int64(h.V.NumValues), int64(header.CompressedPageSize)
		expected := 4 * count
		switch kind {
		case parquet.Boolean:
			expected = (count + 7) / 8
		case parquet.Int64:
			expected = 8 * count
		}
		if count < 1 || count > int64(n-valuesRead) || bytes != expected || bytes > int64(len(raw)) {
			return fmt.Errorf("page after value %d has %d values in %d bytes, %d values and %d bytes are left", valuesRead, count, bytes, n-valuesRead, len(raw))
		}
		body := raw[:bytes]
		if header.CRC != 0 && uint32(header.CRC) != crc32.ChecksumIEEE(body) {
			return fmt.Errorf("page after value %d: checksum %08x, its header says %08x: the file is damaged", valuesRead, crc32.ChecksumIEEE(body), uint32(header.CRC))
		}
		if err := store(valuesRead, int(count), body); err != nil {
			return err
		}
		valuesRead += int(count)
		raw = raw[bytes:]
	}
	return nil
}

// openParquet opens a parquet file after checking that its footer cannot make
// the decoder allocate more than the file warrants.
func openParquet(r io.ReaderAt, size int64) (*parquet.File, error) {
	if size < 12 || size > maxPartBytes {
		return nil, fmt.Errorf("file has %d bytes, want 12 to %d", size, int64(maxPartBytes))
	}
	var tail [8]byte
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, fmt.Errorf("reading the end of the file: %w", err)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if !bytes.Equal(tail[4:], []byte("PAR1")) {
		return nil, fmt.Errorf("file ends with %q, want \"PAR1\" (truncated, or not parquet)", tail[4:])
	}
	if length > min(size-12, maxFooter) {
		return nil, fmt.Errorf("footer claims %d bytes, at most %d are possible", length, min(size-12, maxFooter))
	}
	footer := make([]byte, length)
	if _, err := r.ReadAt(footer, size-8-length); err != nil {
		return nil, fmt.Errorf("reading the footer: %w", err)
	}
	if err := checkThrift(footer); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	file, err := openFile(r, size)
	if err != nil {
		return nil, fmt.Errorf("not a readable parquet file: %w", err)
	}
	if rows := file.NumRows(); rows < 0 || rows > maxPartRows {
		return nil, fmt.Errorf("file has %d rows, want 0 to %d", rows, maxPartRows)
	}
	return file, nil
}

// openFile opens a file by the parquet library, whose schema code panics on some inconsistent schemas; that is bad
// input.
func openFile(r io.ReaderAt, size int64) (file *parquet.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("inconsistent metadata: %v", p)
		}
	}()
	return parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.OptimisticRead(false))
}
