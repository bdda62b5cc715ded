package report

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Columns declare a table: for each column its heading, with its unit, and what a row has there. A cell is text with
// fields of the row in braces, as "{Optimal} of {Scenarios}", "{CPUMS %.3g /1e3}": a path of fields, indices and keys, then
// where the field is a number its format, and what it is divided by where the unit is another. A cell is a dash where one of its
// fields is none, NaN or nil; a field with ? behind its path is a dash by itself.
type Columns [][2]string

// Headings are the first row of the table.
func (c Columns) Headings() (row []string) {
	for _, column := range c {
		row = append(row, column[0])
	}
	return row
}

// Row has the cells of a row, a struct, a pointer to one or a map. A field that there is not is a bug of the table: a panic.
func (c Columns) Row(of any) (row []string) {
	for _, column := range c {
		row = append(row, Cell(column[1], func(path string) any { return field(reflect.ValueOf(of), path) }))
	}
	return row
}

// Table is the headings and a row for each of some.
func Table[T any](c Columns, rows []T) [][]string {
	table := [][]string{c.Headings()}
	for i := range rows {
		table = append(table, c.Row(&rows[i]))
	}
	return table
}

var inBraces = regexp.MustCompile(`\{([^}]+?)(\?)?(?: (%[^ }]+|times|tiny))?(?: /([0-9.e]+))?\}`)

// formats are the words for how a number is written.
var formats = map[string]func(float64) string{"times": Ratio, "tiny": tiny}

// Cell fills a cell in; value gives the field of a path, nil where there is none.
func Cell(cell string, value func(path string) any) string {
	missing := false
	text := inBraces.ReplaceAllStringFunc(cell, func(found string) string {
		m := inBraces.FindStringSubmatch(found)
		text, is := cellText(reflect.ValueOf(value(m[1])), m[3], m[4])
		if !is && m[2] == "" {
			missing = true
		}
		return text
	})
	if missing {
		return "–"
	}
	return text
}

// cellText is a field in its format; a dash, and false, for none.
func cellText(v reflect.Value, format, divisor string) (text string, is bool) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case !v.IsValid() || v.Kind() == reflect.Pointer:
		return "–", false
	case !v.CanFloat():
		return fmt.Sprint(v.Interface()), true
	}
	x := v.Float()
	if divisor != "" {
		by, err := strconv.ParseFloat(divisor, 64)
		if err != nil {
			panic(err)
		}
		x /= by
	}
	if write := formats[format]; write != nil {
		return write(x), true
	}
	if format == "" {
		format = "%g"
	}
	return Number(format, x), !math.IsNaN(x)
}

// field is what a path leads to; nil where something on it is nil or a map has no such key.
func field(v reflect.Value, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		switch v.Kind() {
		case reflect.Invalid:
			return nil
		case reflect.Slice, reflect.Array:
			i, err := strconv.Atoi(name)
			if err != nil || i >= v.Len() {
				panic(fmt.Sprintf("report: a row has no %q of %q", name, path))
			}
			v = v.Index(i)
		case reflect.Map:
			v = v.MapIndex(reflect.ValueOf(name))
		default:
			if v = v.FieldByName(name); !v.IsValid() {
				panic(fmt.Sprintf("report: a row has no field %q of %q", name, path))
			}
		}
	}
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}
