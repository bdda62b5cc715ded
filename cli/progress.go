package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

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
