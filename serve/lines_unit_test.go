package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// Lines end with a newline or the end, are of at most so many bytes without it, and come in groups of what is at hand.
func TestLinesAreRead(t *testing.T) {
	read := func(source io.Reader, size, most int) (groups []string, end error) {
		l := &lines{source: bufio.NewReaderSize(source, size), max: most}
		for end == nil {
			var group [][]byte
			group, end = l.group()
			text := ""
			for _, line := range group {
				if text += "|"; line == nil {
					text += "?"
				}
				text += string(line)
			}
			groups = append(groups, text)
		}
		return groups, end
	}
	for text, want := range map[string]string{
		"": "", "\n": "|,", "a\nb\n": "|a|b,", "a\r\nb": "|a,|b,", "1234\n12345\n1\n": "|1234|?|1,", "1234\r\n": "|1234,", "12345": "|?,", strings.Repeat("x", 100) + "\nab\n": "|?|ab,", "a\n\nb": "|a|,|b,",
	} {
		groups, end := read(strings.NewReader(text), 64, 4)
		if got := strings.Join(groups, ","); got != want || !errors.Is(end, io.EOF) {
			t.Errorf("%q: %q, want %q, %v", text, got, want, end)
		}
	}
	stop := errors.New("stop")
	if groups, end := read(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(stop)), 64, 4); !errors.Is(end, stop) || groups[0] != "|a" {
		t.Errorf("%q, %v", groups, end)
	}
	if groups, _ := read(strings.NewReader(strings.Repeat("\n", 1025)), 1<<12, 4); len(groups) != 3 || len(groups[0]) != 1024 || groups[1] != "|" {
		t.Errorf("%d groups", len(groups))
	}
}

// Numbers of a request are within their bounds, each of which they reach.
func TestFieldsAreWithinTheirBounds(t *testing.T) {
	for text, ok := range map[string]bool{"0": false, "1e-3": true, "5": true, "5.001": false, "-1": false, `"5"`: false} {
		ms, present, err := milliseconds(jsonin.Fields{"d": []byte(text)}, "d", 5)
		if (err == nil) != ok || ok && (!present || fmt.Sprint(ms) == "0") {
			t.Errorf("%s ms: %v, %v", text, ms, err)
		}
	}
	if ms, present, err := milliseconds(jsonin.Fields{}, "d", 5); ms != 0 || present || err != nil {
		t.Errorf("no time: %v, %v, %v", ms, present, err)
	}
	for text, ok := range map[string]bool{"1": false, "2": true, "4": true, "5": false, "2.5": false} {
		n := 9
		if err := counts(jsonin.Fields{"n": []byte(text)}, count{"n", &n, 2, 4}); (err == nil) != ok || ok && fmt.Sprint(n) != text {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	n := 9
	if err := counts(jsonin.Fields{}, count{"n", &n, 2, 4}); err != nil || n != 9 {
		t.Errorf("no number: %d, %v", n, err)
	}
	spec := testdomain.NewCart(8).Spec()
	for text, want := range map[string]string{"": "<nil>", "null": "adaptive", "[0.25,0.75]": "[0.25 0.75]", "5": "error", `{"x":1}`: "error"} {
		fields := jsonin.Fields{}
		if text != "" {
			fields["preference"] = []byte(text)
		}
		p, err := preference(fields, spec)
		got := "<nil>"
		switch {
		case err != nil:
			got = "error"
		case p != nil && p.Adaptive:
			got = "adaptive"
		case p != nil:
			got = fmt.Sprint(p.W)
		}
		if got != want || err != nil && FailureOf(err).Field != "preference" {
			t.Errorf("%q: %s, want %s, %v", text, got, want, err)
		}
	}
	for query, want := range map[string]string{"": "", "session=a%20b": "a b", "session=" + strings.Repeat("x", 128): strings.Repeat("x", 128), "session=" + strings.Repeat("x", 129): "!session", "session=%ff": "!session", "session=a&session=b": "!session", "wind=1": "!wind"} {
		values := require.Get(url.ParseQuery(query))(t)
		name, err := sessionOf(values)
		if err != nil {
			name = "!" + FailureOf(err).Field
		}
		if name != want {
			t.Errorf("%.40q: %.40q, want %.40q, %v", query, name, want, err)
		}
	}
}

// failing fails to write what is beyond its room.
type failing struct{ room int }

func (w *failing) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errors.New("no room")
	}
	return len(p), nil
}

// Answers that cannot be written end the writing: at a flush before one that is waited for, behind the last at hand, and at the end.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	s, _ := bare(t, Options{})
	answered := func(n int) *job {
		j := asked("a")
		s.finish(j, Answer{Session: strings.Repeat("x", n)}, nil)
		return j
	}
	for name, jobs := range map[string][]*job{"one": {answered(1)}, "large": {answered(1 << 17), answered(1)}, "waiting": {answered(1), asked("b")}} {
		pending := make(chan *job, 9)
		for _, j := range jobs {
			pending <- j
		}
		close(pending)
		hurry := make(chan struct{})
		close(hurry)
		if err := s.answer(pending, &failing{}, hurry); err == nil || err.Error() != "no room" {
			t.Errorf("%s: %v", name, err)
		}
	}
	pending := make(chan *job, 9)
	refused := asked("a")
	s.fail(refused, jsonin.Errorf("s", "wrong"))
	reset := asked("b")
	reset.op = opReset
	pending <- refused
	pending <- reset
	close(pending)
	hurry := make(chan struct{})
	close(hurry)
	var text strings.Builder
	require.OK(t, s.answer(pending, &text, hurry))
	if want := `{"op":"decide","session":"a","error":"wrong","field":"s"}` + "\n" + `{"op":"reset","session":"b","error":"serve: the server is closing","field":""}` + "\n"; text.String() != want {
		t.Errorf("%s, want %s", text.String(), want)
	}
}

// What comes before a failure of its input is answered, by a server that has closed with ErrClosed each.
func TestLinesOfAServerThatHasClosed(t *testing.T) {
	s, _ := bare(t, Options{})
	s.closed.Store(true)
	var text strings.Builder
	stop := errors.New("stop")
	in := io.MultiReader(strings.NewReader(`{"op":"reset","session":"a"}`+"\nx\n"+`{"op":"clear"}`+"\n"), iotest.ErrReader(stop))
	if err := s.Lines(t.Context(), in, &text, LineOptions{}); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	lines := strings.Split(text.String(), "\n")
	closed := `"error":"serve: the server is closing","field":""}`
	if len(lines) != 4 || lines[0] != `{"op":"reset","session":"a",`+closed || lines[2] != `{"op":"clear",`+closed || !strings.Contains(lines[1], "JSON") || s.pending.Load() != 0 || s.refused.Load() != 3 {
		t.Errorf("answered %q, %d refused", lines, s.refused.Load())
	}
}
