package cpufallback

import (
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func TestOptionsChooseThreadsAndInstructionSet(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, level := range isa.Available() {
		b := require.Get(New(Options{ISA: level.String(), Threads: 3}))(t)
		if d := b.Describe(); d.Name != "cpu" || d.ISA != level.String() || d.Threads != 3 || d.Device == "" {
			t.Errorf("described as %+v", d)
		}
		b.Close()
	}
	t.Setenv(isa.Environment, "generic")
	b := require.Get(New(Options{}))(t)
	if d := b.Describe(); d.ISA != "generic" || d.Threads != runtime.GOMAXPROCS(0) {
		t.Errorf("%s=generic is described as %+v", isa.Environment, d)
	}
	b.Close()
	for _, o := range []Options{{Threads: -1}, {ISA: "avx1024"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	t.Setenv(isa.Environment, "sse9")
	if _, err := New(Options{}); err == nil {
		t.Error("an unknown instruction set in the environment was accepted")
	}
}
