package matpower_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
)

var expectation = regexp.MustCompile(`(?m)^% expect (\d+): (.*)$`)

func malformed(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/malformed/*.m")
	if err != nil || len(files) < 90 {
		t.Fatalf("%d malformed files, %v", len(files), err)
	}
	return files
}

// TestMalformedFilesGiveLineAndReason: each file's last line says which.
func TestMalformedFilesGiveLineAndReason(t *testing.T) {
	for _, file := range malformed(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := expectation.FindSubmatch(text)
		if want == nil {
			t.Errorf("%s does not say what to expect", file)
			continue
		}
		line, _ := strconv.Atoi(string(want[1]))
		c, err := matpower.Read("x.m", bytes.NewReader(text))
		if err == nil { // what an optimal power flow refuses
			c.Name = "x.m"
			err = c.Contradiction()
		}
		var bad *matpower.Error
		if !errors.As(err, &bad) {
			t.Errorf("%s: error %v", file, err)
			continue
		}
		if bad.Line != line || !strings.Contains(bad.Reason, string(want[2])) {
			t.Errorf("%s: %v, want line %d and %q", file, err, line, want[2])
		}
		if !strings.HasPrefix(err.Error(), "x.m:"+strconv.Itoa(line)+": ") {
			t.Errorf("%s: message %q", file, err)
		}
	}
}

// FuzzRead: whatever the text, a case that passes its own check and makes a
// network, or a line and a reason.
func FuzzRead(f *testing.F) {
	for _, file := range malformed(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, name := range []string{"case9", "case14"} {
		text, err := cases.Text(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(written))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := matpower.Read("x.m", bytes.NewReader(text))
		if err != nil {
			var bad *matpower.Error
			if !errors.As(err, &bad) {
				t.Fatalf("an error without a line: %v", err)
			}
			lines := 1 + bytes.Count(text, []byte("\n"))
			if bad.Line < 1 || bad.Line > lines || bad.Reason == "" {
				t.Fatalf("error %v in a text of %d lines", err, lines)
			}
			return
		}
		// Texts are compared, in which NaN is what it is.
		var once, twice bytes.Buffer
		if err := matpower.Write(&once, "x", "", c); err != nil {
			t.Fatalf("read, but not written: %v", err)
		}
		back, err := matpower.Read("x.m", bytes.NewReader(once.Bytes()))
		if err != nil {
			t.Fatalf("written, but not read: %v", err)
		}
		if err := matpower.Write(&twice, "x", "", back); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("%v: written twice and not the same:\n%s\n%s", err, &once, &twice)
		}
		if _, err := network.New(c); err != nil {
			t.Fatalf("read, but no network: %v", err)
		}
	})
}
