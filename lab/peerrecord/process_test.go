package peerrecord

import (
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A peer is asked line by line, in the environment that it is given, and what it says after it has ended is an error.
func TestProcess(t *testing.T) {
	p := require.Get(StartProcess([]string{"GREETING=hello"}, "sh", "-c", `echo "$GREETING"; read line; echo "asked $line"`))(t)
	if got := require.Get(p.Next())(t); got != "hello" {
		t.Errorf("it begins with %q", got)
	}
	if got := require.Get(p.Ask("once"))(t); got != "asked once" {
		t.Errorf("it answers %q", got)
	}
	if line, err := p.Next(); err == nil {
		t.Errorf("behind its end it says %q", line)
	}
	if _, err := StartProcess(nil, "no program of this name"); err == nil {
		t.Error("a program that there is not starts")
	}
}
