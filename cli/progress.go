package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
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

// progress shows done/total with rate and ETA on a terminal and is quiet
// otherwise. The returned function may be called with a total that changes.
func (a *App) progress(what string) func(done, total int) {
	if !terminal(a.Stderr) {
		return func(int, int) {}
	}
	var bar *progressbar.ProgressBar
	return func(done, total int) {
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
			bar, now = a.progress(stage), stage
		}
		bar(done, total)
	}
}

// Table writes rows with aligned columns; the first row is the header. Cells
// that look like numbers are aligned right.
func Table(w io.Writer, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for n, r := range rows {
		var line strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-len([]rune(c)))
			if i > 0 {
				line.WriteString("  ")
			}
			if n > 0 && numeric(c) {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

func numeric(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.+-e%× ") == ""
}
