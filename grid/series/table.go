package series

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// table is rows of cells under names. next fills the cells of the next row, one a column, and
// returns io.EOF after the last. The cells are valid until the next call.
type table interface {
	names() []string
	next() ([]cell, error)
	location() string // of the latest row, for errors
	Close() error
}

// cell is a number or a text.
type cell struct {
	text     string
	number   float64
	isNumber bool // a number
}

// open opens a table by the end of its file's name.
func open(path string) (table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var t table
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".csv":
		t, err = newCSV(path, f)
	case ".parquet":
		t, err = newParquet(path, f)
	default:
		err = fmt.Errorf("%s: want a file named .csv or .parquet", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

// csvTable is a CSV file with a row of names.
type csvTable struct {
	file   *os.File
	reader *csv.Reader
	header []string
	cells  []cell
	path   string
}

func newCSV(path string, f *os.File) (*csvTable, error) {
	text := bufio.NewReaderSize(f, 1<<16)
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		text.Discard(len(mark))
	}
	reader := csv.NewReader(text)
	reader.ReuseRecord, reader.Comment, reader.TrimLeadingSpace = true, '#', true
	first, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file is empty, want a first row with names of columns", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &csvTable{file: f, reader: reader, path: path}
	for _, name := range first {
		t.header = append(t.header, strings.TrimSpace(name))
	}
	t.cells = make([]cell, len(t.header))
	return t, nil
}

func (t *csvTable) names() []string { return t.header }
func (t *csvTable) Close() error    { return t.file.Close() }

func (t *csvTable) location() string {
	line, _ := t.reader.FieldPos(0)
	return fmt.Sprintf("%s, line %d", t.path, line)
}

func (t *csvTable) next() ([]cell, error) {
	row, err := t.reader.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		if errors.Is(err, csv.ErrFieldCount) {
			return nil, fmt.Errorf("%s has %d fields, want %d as in the first row", t.location(), len(row), len(t.header))
		}
		return nil, fmt.Errorf("%s: %w", t.path, err)
	}
	for i, text := range row {
		text = strings.TrimSpace(text)
		v, err := strconv.ParseFloat(text, 64)
		t.cells[i] = cell{text: text, number: v, isNumber: err == nil}
	}
	return t.cells, nil
}

// parquetTable is a parquet file without nested columns.
type parquetTable struct {
	file   *os.File
	rows   parquet.Rows // nil: there are none
	header []string
	kinds  []*format.LogicalType
	buffer []parquet.Row
	cells  []cell
	path   string
	row    int
}

// newParquet opens a parquet file. The library may panic at a damaged one.
func newParquet(path string, f *os.File) (t *parquetTable, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("%s: not a parquet file: %v", path, p)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%s: not a parquet file: %w", path, err)
	}
	t = &parquetTable{file: f, path: path, buffer: make([]parquet.Row, 1)}
	if groups := file.RowGroups(); len(groups) > 0 {
		t.rows = parquet.MultiRowGroup(groups...).Rows()
	}
	for _, column := range file.Root().Columns() {
		if !column.Leaf() || column.Repeated() {
			return nil, fmt.Errorf("%s: column %s is nested: want plain columns", path, column.Name())
		}
		t.header = append(t.header, column.Name())
		t.kinds = append(t.kinds, column.Type().LogicalType())
	}
	t.cells = make([]cell, len(t.header))
	return t, nil
}

func (t *parquetTable) names() []string { return t.header }
func (t *parquetTable) Close() error {
	if t.rows == nil {
		return t.file.Close()
	}
	return errors.Join(t.rows.Close(), t.file.Close())
}
func (t *parquetTable) location() string {
	if t.row == 0 {
		return t.path
	}
	return fmt.Sprintf("%s, row %d", t.path, t.row)
}

func (t *parquetTable) next() (cells []cell, err error) {
	defer func() {
		if p := recover(); p != nil {
			cells, err = nil, fmt.Errorf("%s: damaged: %v", t.location(), p)
		}
	}()
	if t.rows == nil {
		return nil, io.EOF
	}
	n, err := t.rows.ReadRows(t.buffer)
	if n == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("%s: %w", t.location(), err)
	}
	t.row++
	for _, v := range t.buffer[0] {
		t.cells[v.Column()] = parquetCell(v, t.kinds[v.Column()])
	}
	return t.cells, nil
}

// parquetCell is a value; of a time stamp its text is as RFC 3339 has it.
func parquetCell(v parquet.Value, logical *format.LogicalType) cell {
	if v.IsNull() {
		return cell{}
	}
	switch v.Kind() {
	case parquet.Boolean:
		return cell{text: strconv.FormatBool(v.Boolean())}
	case parquet.Int32:
		return cell{text: strconv.FormatInt(int64(v.Int32()), 10), number: float64(v.Int32()), isNumber: true}
	case parquet.Int64:
		if stamp := timestampOf(v.Int64(), logical); stamp != "" {
			return cell{text: stamp}
		}
		return cell{text: strconv.FormatInt(v.Int64(), 10), number: float64(v.Int64()), isNumber: true}
	case parquet.Float:
		return cell{text: strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), number: float64(v.Float()), isNumber: true}
	case parquet.Double:
		return cell{text: strconv.FormatFloat(v.Double(), 'g', -1, 64), number: v.Double(), isNumber: true}
	}
	return cell{text: string(v.ByteArray())}
}

func timestampOf(v int64, logical *format.LogicalType) string {
	if logical == nil {
		return ""
	}
	stamp, ok := logical.Value.(*format.TimestampType)
	if !ok {
		return ""
	}
	instant := time.Unix(0, 0).Add(time.Duration(v) * stamp.Unit.Value.Duration())
	return instant.UTC().Format(time.RFC3339Nano)
}
