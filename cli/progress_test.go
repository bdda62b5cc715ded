package cli

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// screen is what a terminal was told.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// shows waits until a text was written.
func (s *screen) shows(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		text := s.text.String()
		s.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in %q", want, text)
		}
	}
}

// A command that counts nothing yet says what it is at all the same, and goes on to say for how long; what is counted has a bar
// after that, and a second part another one. A line that is written in between and the end take them away.
func TestACommandThatCountsNothingYetSaysWhatItIsAt(t *testing.T) {
	var to screen
	m := &meter{dst: &to}
	m.begin("open cart")
	to.shows(t, "\ropen cart: 0s")
	to.shows(t, "\ropen cart: 1s")
	m.set("cart direct", 0, 20)
	to.shows(t, "\rcart direct: 0/20, 0s")
	m.set("cart direct", 5, 20)
	to.shows(t, "\rcart direct  25% ")
	m.set("cart nmpc", 10, 40)
	to.shows(t, "\rcart nmpc  25% ")
	m.set("cart nmpc", 40, 40)
	to.shows(t, "\rcart nmpc: 40/40, 0s")
	m.part("library of optima", 1, 4) // within it, and then it goes on
	to.shows(t, "\rlibrary of optima  25% ")
	m.part("library of optima", 4, 4)
	to.shows(t, "\rcart nmpc: 0s")
	m.wipe()
	m.end()
	if text := to.text.String(); !strings.HasSuffix(text, " \r") {
		t.Errorf("the line stays: %q", text[max(0, len(text)-200):])
	}
	m.set("cart nmpc", 40, 40) // the last word of something that has ended begins nothing
	if m.finish != nil {
		t.Error("something is under way behind the end")
	}
}

// A command that waits for somebody to type says for what.
func TestACommandSaysWhatItWaitsFor(t *testing.T) {
	app, file := cart(t)
	var to screen
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal here: ", err)
	}
	defer terminal.Close()
	ctx, cancel := context.WithCancel(context.Background())
	app.Stdin, app.Stderr = terminal, &to
	ended := make(chan int)
	go func() { ended <- app.Run(ctx, []string{"refine", "cart", "--model", file}) }()
	to.shows(t, `waiting for the observation on standard input: {"s":[2 numbers],"c":[`)
	cancel()
	if code := <-ended; code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// A bar leaves room for itself: what does not fit beside it is cut, the time of all parts first.
func TestALabelLeavesRoomForItsBar(t *testing.T) {
	m := &meter{label: "drive direct from more starts"}
	m.limit(90 * time.Second)
	for room, want := range map[int]string{80: "drive direct from more starts, in all ≤ 1m30s", 30: m.label, 20: "drive direct from m…", -5: "drive direc…"} {
		if got := m.described(room); got != want {
			t.Errorf("%d columns: %q, want %q", room, got, want)
		}
	}
}

// What is no terminal gets lines, also where many parts are short, and more and more rarely. A command that is done before has none.
func TestALogSaysHowFarACommandIs(t *testing.T) {
	var to screen
	m := &meter{dst: &to, interval: 20 * time.Millisecond}
	m.limit(90 * time.Second)
	for range 4 {
		m.begin("open cart")
		m.set("cart direct", 5, 20)
		time.Sleep(8 * time.Millisecond)
	}
	to.shows(t, "cart direct: 5 of 20, 0s, about 0s left, in all ≤ 1m30s\n")
	m.end()
	if m.latest = m.latest.Add(-time.Minute); m.limitText() != ", in all ≤ 30s" {
		t.Errorf("a minute later: %q", m.limitText())
	}
	if text := to.text.String(); strings.ContainsAny(text, "\r|") {
		t.Errorf("a log has a line that is drawn over: %q", text)
	}
	m = &meter{dst: &to, interval: time.Minute, born: time.Now().Add(-time.Hour), lineTime: time.Now()}
	if wait := m.untilLine(); wait < 5*time.Minute || wait > 7*time.Minute {
		t.Errorf("after an hour the next line comes in %v", wait)
	}
}

// Where standard error is no file nothing is shown.
func TestNoFileHasNoProgress(t *testing.T) {
	var to screen
	a := &App{Stderr: &to}
	a.Progress("cart")(1, 2)
	a.Stages()("cart", 1, 2)
	a.meter.wipe()
	a.meter.end()
	if a.meter != nil || to.text.Len() > 0 {
		t.Errorf("shown: %q", to.text.String())
	}
}
