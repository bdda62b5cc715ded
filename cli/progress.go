package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// terminal reports whether w is an interactive terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// settled is how long a command runs before a bar is shown: its first rate would be of a moment.
const settled = 500 * time.Millisecond

// Progress shows done/total with rate and ETA on a terminal and is quiet
// otherwise. The returned function may be called with a total that changes.
func (a *App) Progress(what string) func(done, total int) {
	if !terminal(a.Stderr) {
		return func(int, int) {}
	}
	var bar *progressbar.ProgressBar
	began := time.Now()
	return func(done, total int) {
		if time.Since(began) < settled && done < total {
			return
		}
		if bar == nil {
			bar = progressbar.NewOptions(total,
				progressbar.OptionSetWriter(a.Stderr),
				progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(),
				progressbar.OptionShowIts(),
				progressbar.OptionSetPredictTime(true),
				progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionClearOnFinish(),
			)
		}
		if bar.GetMax() != total {
			bar.ChangeMax(total)
		}
		_ = bar.Set(done)
	}
}

// stages is progress over parts of a command one after another, each with its bar.
func (a *App) stages() func(stage string, done, total int) {
	var bar func(done, total int)
	now := ""
	return func(stage string, done, total int) {
		if bar == nil || stage != now {
			bar, now = a.Progress(stage), stage
		}
		bar(done, total)
	}
}

// columns is how wide w is: that of its terminal, or without bound.
func columns(w io.Writer) int {
	if text, ok := w.(printing); ok {
		w = text.to
	}
	if f, ok := w.(*os.File); ok {
		if wide, _, err := term.GetSize(int(f.Fd())); err == nil && wide > 0 {
			return wide
		}
	}
	return math.MaxInt
}

// Table writes rows with aligned columns; the first row is the header. Cells
// that look like numbers are aligned right. Columns that a terminal has no room for stand in a table below,
// behind the first column again; a text in the last column is wrapped.
func Table(w io.Writer, rows [][]string) { tableWithin(w, rows, columns(w)) }

// least is the room that a last column of text is wrapped in; with less it stands in a table below.
const least = 24

func tableWithin(w io.Writer, rows [][]string, limit int) {
	if len(rows) == 0 {
		return
	}
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for from := 1; ; {
		shown, used := []int{0}, width[0]
		for ; from < len(width); from++ {
			room := limit - used - 2
			wraps := from == len(width)-1 && room >= least && !numeric(rows[len(rows)-1][from])
			if width[from] > room && !wraps && len(shown) > 1 {
				break
			}
			shown, used = append(shown, from), used+2+width[from]
		}
		for n, r := range rows {
			writeRow(w, r, shown, width, limit, n > 0)
		}
		if from >= len(width) {
			return
		}
	}
}

// writeRow writes the cells of some columns. The last one goes on below itself where the line would be too long.
func writeRow(w io.Writer, r []string, shown, width []int, limit int, right bool) {
	var line strings.Builder
	at := 0
	for k, i := range shown {
		c := r[i]
		pad := strings.Repeat(" ", width[i]-len([]rune(c)))
		if k > 0 {
			line.WriteString("  ")
			at += 2
		}
		switch {
		case right && numeric(c):
			line.WriteString(pad + c)
		case k > 0 && k == len(shown)-1 && at+len([]rune(c)) > limit:
			line.WriteString(wrapped(c, at, limit))
		default:
			line.WriteString(c + pad)
		}
		at += width[i]
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}

// wrapped is a text that begins in column at and goes on there in the lines below, within limit columns where its
// words allow that.
func wrapped(text string, at, limit int) string {
	var out strings.Builder
	used := at
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case used+1+n > limit:
			out.WriteString("\n" + strings.Repeat(" ", at))
			used = at
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += n
	}
	return out.String()
}

func numeric(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.+-e%× ") == ""
}
