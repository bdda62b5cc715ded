package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

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

// settled is how long a command runs before its progress is shown: its first rate would be of a moment.
const settled = 500 * time.Millisecond

// lineEvery is how often a command says where it is to what is no terminal: at least, and in shares of its time so far.
const lineEvery, lineShare = 5 * time.Second, 0.1

// meter is the line of a terminal that says what a command is at: for how long, and how far where that is counted. To
// what is no terminal it writes lines. A nil one shows nothing.
type meter struct {
	dst            io.Writer
	interval       time.Duration // between lines at least; 0: one line is drawn over itself
	born, lineTime time.Time     // of the first part, and of the last line

	mu          sync.Mutex
	finish      chan struct{} // closed when what is under way has ended; nil: nothing is
	label       string
	whole       string // what a part is of
	startTime   time.Time
	done, total int // total 0: nothing was counted yet
	bar         *progressbar.ProgressBar
	visible     bool
	columns     int       // columns of the line that is shown while nothing is counted
	latest      time.Time // of the end of all parts; zero: not known
}

// limit says how long all parts together take at most.
func (m *meter) limit(remaining time.Duration) {
	if m != nil {
		m.mu.Lock()
		if m.latest = time.Now().Add(remaining); remaining <= 0 {
			m.latest = time.Time{}
		}
		m.mu.Unlock()
	}
}

// limitText is what is left of all parts together, as a line ends.
func (m *meter) limitText() string {
	if rest := time.Until(m.latest).Round(time.Second); rest > 0 {
		return ", in all ≤ " + rest.String()
	}
	return ""
}

// begin says what is under way from now on.
func (m *meter) begin(label string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start(label)
}

func (m *meter) start(label string) {
	m.stop()
	m.label, m.startTime, m.done = label, time.Now(), 0
	m.total, m.bar = 0, nil
	if m.born.IsZero() {
		m.born, m.lineTime = m.startTime, m.startTime
	}
	m.finish = make(chan struct{})
	wait := settled
	if m.interval > 0 {
		wait = m.untilLine()
	}
	go m.tick(m.finish, wait)
}

// tick draws a line whose command counts nothing for long.
func (m *meter) tick(finish chan struct{}, wait time.Duration) {
	for {
		select {
		case <-finish:
			return
		case <-time.After(wait):
		}
		m.mu.Lock()
		if m.finish == finish {
			m.visible = true
			m.draw()
		}
		if wait = time.Second; m.interval > 0 {
			wait = m.untilLine()
		}
		m.mu.Unlock()
	}
}

// untilLine is how long it is until the next line where they are not drawn over each other.
func (m *meter) untilLine() time.Duration {
	return max(m.interval, time.Duration(lineShare*float64(time.Since(m.born)))) - time.Since(m.lineTime)
}

// set counts what is under way, which it begins where something else is.
func (m *meter) set(label string, done, total int) {
	if m == nil || total < 1 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.finish == nil && done >= total {
		return
	}
	if m.finish == nil || m.label != label {
		m.start(label)
	}
	if done >= total { // what follows, such as a file that is written, counts nothing
		m.start(label)
		m.done, m.total = total, total
		return
	}
	m.done, m.total = done, total
	if m.interval > 0 {
		return
	}
	if m.bar == nil {
		m.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(m.dst),
			progressbar.OptionSetDescription(label),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
		m.bar.StartWithoutRender()
	}
	if m.visible {
		m.draw()
	}
}

// part counts a part of what is under way, which goes on when it is done.
func (m *meter) part(label string, done, total int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	if m.label != label {
		m.whole = m.label
	}
	whole := m.whole
	m.mu.Unlock()
	if m.set(label, done, total); done >= total {
		m.begin(whole)
	}
}

// draw writes the line over itself. While nothing is done there is no rate, and no time that is left; nor is there when all is.
func (m *meter) draw() {
	if m.interval > 0 {
		elapsed, line := time.Since(m.startTime), m.label+": "
		if m.total > 0 {
			line += fmt.Sprintf("%d of %d, ", m.done, m.total)
		}
		line += elapsed.Round(time.Second).String()
		if m.done > 0 && m.done < m.total {
			line += fmt.Sprintf(", about %v left", time.Duration(float64(elapsed)/float64(m.done)*float64(m.total-m.done)).Round(time.Second))
		}
		fmt.Fprintln(m.dst, line+m.limitText())
		m.lineTime = time.Now()
		return
	}
	if m.done == 0 || m.done == m.total {
		line := m.label + ": "
		if m.total > 0 {
			line += fmt.Sprintf("%d/%d, ", m.done, m.total)
		}
		line += time.Since(m.startTime).Truncate(time.Second).String() + m.limitText()
		fmt.Fprintf(m.dst, "\r%-*s", m.columns, line)
		m.columns = max(m.columns, utf8.RuneCountInString(line))
		return
	}
	m.wait()
	m.bar.Describe(m.described(columns(m.dst) - barColumns))
	if m.bar.GetMax() != m.total {
		m.bar.ChangeMax(m.total)
	}
	_ = m.bar.Set(m.done)
}

// barColumns are what a bar of ten marks, its counts, its rate and its times take.
const barColumns = 55

// described is the label of a bar in a line with that much room for it.
func (m *meter) described(room int) string {
	text := []rune(m.label + m.limitText())
	if len(text) > room {
		text = []rune(m.label)
	}
	if room = max(room, 12); len(text) > room {
		text = append(text[:room-1], '…')
	}
	return string(text)
}

// wait takes away the line of a command that counts nothing.
func (m *meter) wait() {
	if m.columns > 0 {
		fmt.Fprintf(m.dst, "\r%*s\r", m.columns, "")
		m.columns = 0
	}
}

// wipe takes the line away for a text that is written in its place; it comes again with what is counted next.
func (m *meter) wipe() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
}

func (m *meter) clear() {
	if m.wait(); m.visible && m.bar != nil {
		_ = m.bar.Clear()
	}
}

// end takes the line away for good.
func (m *meter) end() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop()
}

func (m *meter) stop() {
	if m.finish == nil {
		return
	}
	m.clear()
	close(m.finish)
	m.finish, m.visible = nil, false
}

// Progress shows what is under way, with done/total, rate and the time left where that is counted. The returned function may be called with a total that changes.
func (a *App) Progress(label string) func(done, total int) {
	a.meter.begin(label)
	return func(done, total int) { a.meter.set(label, done, total) }
}

// Pause takes the line of progress away for text that a command writes itself.
func (a *App) Pause() { a.meter.wipe() }

// Stages is progress over parts of a command one after another, each with its bar.
func (a *App) Stages() func(stage string, done, total int) { return a.meter.set }

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

func numeric(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.+-e%× ") == ""
}
