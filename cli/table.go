package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// columns is how wide w is: that of its terminal, or without bound.
func columns(w io.Writer) int {
	if text, ok := w.(*printing); ok {
		w = text.dst
	}
	if f, ok := w.(*os.File); ok {
		if wide, _, err := term.GetSize(int(f.Fd())); err == nil && wide > 0 {
			return wide
		}
	}
	return math.MaxInt
}

// Table writes rows with aligned columns; the first row is the header. Cells
// that look like numbers are aligned right. Where a terminal is too narrow, what all rows say is a caption, and headings have
// lines. Columns that do not fit then stand in a table below, after those that tell rows apart. A text in the last is wrapped.
func Table(w io.Writer, rows [][]string) { tableWithin(w, rows, columns(w)) }

// least is the room that a last column of text is wrapped in; with less it stands in a table below.
const least = 24

func tableWithin(w io.Writer, rows [][]string, limit int) {
	if len(rows) == 0 {
		return
	}
	width, total := widths(rows)
	if total > limit {
		rows = captioned(w, rows)
		width, total = widths(rows)
	}
	titles, headings, gap := rows[0], 1, 2
	if total > limit {
		rows, headings = stacked(rows, width)
		width, total = widths(rows)
		spaced := func(r []string) bool { return strings.Contains(strings.Join(r, ""), " ") }
		if total > limit && total-len(width) < limit && !slices.ContainsFunc(rows[headings:], spaced) {
			gap = 1
		}
	}
	key := identifying(rows[headings:], width, limit/3*2)
	for next := key; ; {
		group, total := []int{0}, width[0]
		for i := 1; i < key; i++ {
			group, total = append(group, i), total+gap+width[i]
		}
		for ; next < len(width); next++ {
			room := limit - total - gap
			wraps := next == len(width)-1 && room >= least && !numeric(rows[len(rows)-1][next])
			if width[next] > room && !wraps && len(group) > key {
				break
			}
			group, total = append(group, next), total+gap+width[next]
		}
		for next < len(width) && len(group) > key+1 && deviates(titles[next]) {
			next, group = next-1, group[:len(group)-1]
		}
		for n, r := range rows {
			if n >= headings || slices.ContainsFunc(group, func(i int) bool { return r[i] != "" }) {
				writeRow(w, r, group, width, gap, limit, n >= headings)
			}
		}
		if len(group) < len(width) {
			fmt.Fprintln(w)
		}
		if next >= len(width) {
			return
		}
	}
}

// identifying are the leading columns that tell rows apart within some room, at most three; else the first.
func identifying(rows [][]string, width []int, room int) int {
	for n := 1; n < min(4, len(width)) && room >= 0; n++ {
		distinct := map[string]bool{}
		for _, r := range rows {
			distinct[strings.Join(r[:n], "\n")] = true
		}
		room -= width[n-1] + 2
		if len(distinct) == len(rows) && room >= 0 {
			return n
		}
	}
	return 1
}

// widths are those of the columns, and of a whole row.
func widths(rows [][]string) ([]int, int) {
	width, total := make([]int, len(rows[0])), -2
	for i := range width {
		for _, r := range rows {
			width[i] = max(width[i], utf8.RuneCountInString(r[i]))
		}
		total += 2 + width[i]
	}
	return width, total
}

// deviates says whether a column is how far the value before it may be off, and stands next to that.
func deviates(title string) bool {
	return strings.HasPrefix(title, "±") || strings.HasPrefix(strings.Trim(title, "["), "95 %")
}

// captioned writes what all of several rows say, and returns the rows without it.
func captioned(w io.Writer, rows [][]string) [][]string {
	var caption []string
	shorter := make([][]string, len(rows))
	for i, title := range rows[0] {
		value := rows[len(rows)-1][i]
		pair := deviates(title) || i+1 < len(rows[0]) && deviates(rows[0][i+1])
		stays := i == 0 && strings.Contains(title, " ") || i+1 == len(rows[0]) && shorter[0] == nil // a table has its title, a row says something
		if stays || pair || len(rows) < 3 || slices.ContainsFunc(rows[1:], func(r []string) bool { return r[i] != value }) {
			for n, r := range rows {
				shorter[n] = append(shorter[n], r[i])
			}
		} else if value != "" {
			caption = append(caption, title+" "+value)
		}
	}
	if caption != nil {
		fmt.Fprintln(w, "in every row: "+strings.Join(caption, ", "))
	}
	return shorter
}

// stacked takes headings into lines, as long as what stands below or half of the heading, and says in how many.
func stacked(rows [][]string, width []int) ([][]string, int) {
	cells, _ := widths(append([][]string{make([]string, len(width))}, rows[1:]...))
	var lines [][]string
	for i, title := range rows[0] {
		room := max(cells[i], (utf8.RuneCountInString(title)+1)/2)
		if strings.HasPrefix(title, "±") { // stays in one line
			room = width[i]
		}
		parts := strings.Split(wrapped(title, 0, room), "\n")
		for len(lines) < len(parts) {
			lines = append([][]string{make([]string, len(width))}, lines...)
		}
		for k, part := range parts {
			lines[len(lines)-len(parts)+k][i] = part
		}
	}
	return append(lines, rows[1:]...), len(lines)
}

// writeRow writes the cells of some columns. The last one goes on below itself where the line would be too long.
func writeRow(w io.Writer, r []string, group, width []int, gap, limit int, right bool) {
	var line strings.Builder
	column := 0
	for k, i := range group {
		c := r[i]
		pad := strings.Repeat(" ", width[i]-len([]rune(c)))
		if k > 0 {
			line.WriteString(strings.Repeat(" ", gap))
			column += gap
		}
		switch {
		case right && numeric(c):
			line.WriteString(pad + c)
		case k > 0 && k == len(group)-1 && column+len([]rune(c)) > limit:
			line.WriteString(wrapped(c, column, limit))
		default:
			line.WriteString(c + pad)
		}
		column += width[i]
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// wrapped is a text that begins in column indent and goes on there in the lines below, within limit columns where its
// words allow that.
func wrapped(text string, indent, limit int) string {
	var out strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > limit:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	return out.String()
}

// folding writes text to a terminal: sentences that are longer than a line of it go on in the next.
type folding struct {
	dst   io.Writer
	limit int
}

func (f folding) Write(text []byte) (int, error) {
	if f.limit == math.MaxInt {
		return f.dst.Write(text)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if utf8.RuneCountInString(line) > f.limit {
			lines[i] = wrapped(line, 0, f.limit)
		}
	}
	_, err := io.WriteString(f.dst, strings.Join(lines, "\n"))
	return len(text), err
}

func numeric(s string) bool { return s != "" && strings.Trim(s, "0123456789.+-e%× ") == "" }
