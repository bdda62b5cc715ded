package serve

import (
	"testing"
	"time"
)

// What is typical moves by a thirty-second towards what was measured, never below one.
func TestATypicalTimeMovesAThirtySecond(t *testing.T) {
	for _, c := range []struct{ from, x, want typical }{{0, 5, 5}, {0, 0.5, 1}, {0, -3, 1}, {64, 64.5, 66}, {64, 1e9, 66}, {64, 64, 62}, {64, 1, 62}, {64, -1e9, 62}, {1, 0, 1}, {1.03125, 0, 1}} {
		got := c.from
		if got.learn(float64(c.x)); got != c.want {
			t.Errorf("%v after %v: %v, want %v", float64(c.from), float64(c.x), float64(got), float64(c.want))
		}
	}
	// The first batches let two in; from the 32nd of several on it is what a batch takes, less what one does.
	p := &pace{}
	p.observeBatch(1, 640, 99)
	for i := range 31 {
		if p.observeBatch(3, 640+20+time.Duration(i%2), 99); p.most.Load() != 2 || p.several != i+1 {
			t.Errorf("after %d batches %d are let in", i+1, p.most.Load())
		}
	}
	p.marginal = 10
	if p.observeBatch(3, 640+22, 99); float64(p.marginal) != 10*33/32.0 || p.most.Load() != 32 || p.single != 640 {
		t.Errorf("%v for one more, %d are let in", float64(p.marginal), p.most.Load())
	}
	if p.observeBatch(1, 641, 5); p.most.Load() != 5 || p.single != 660 || p.several != 32 {
		t.Errorf("%v for one, %d of 5 are let in", float64(p.single), p.most.Load())
	}
}

// As many are let in as a batch decides in half as long again as one decision takes; single times
// that are far off change nothing, and what is not measured yet lets two in.
func TestPace(t *testing.T) {
	const us = time.Microsecond
	told := func(alone, each time.Duration, outliers bool) *pace {
		p := &pace{}
		for i := range 20 * learned {
			off := time.Duration(0)
			if outliers && i%8 == 3 {
				off = 10 * time.Millisecond
			}
			p.observeBatch(1, alone+off, 256)
			p.observeBatch(1+i%3, alone+time.Duration(i%3)*each+off, 256)
		}
		return p
	}
	for _, c := range []struct {
		alone, each time.Duration
		want        int64
	}{{100 * us, 100 * us, 1}, {100 * us, 60 * us, 1}, {100 * us, 40 * us, 2}, {100 * us, 11 * us, 5}, {2000 * us, 220 * us, 5}, {100 * us, 0, 256}} {
		if got := told(c.alone, c.each, false).most.Load(); got != c.want {
			t.Errorf("%v and %v for each more: %d are let in, want %d", c.alone, c.each, got, c.want)
		}
	}
	if got := told(100*us, 11*us, true).most.Load(); got < 4 || got > 6 {
		t.Errorf("with outliers %d are let in, want about 5", got)
	}
	p := &pace{}
	for range 1000 {
		p.observeBatch(1, 100*us, 256)
	}
	for i := range learned {
		if got := p.most.Load(); got != 2 {
			t.Errorf("after %d batches of several %d are let in, want 2", i, got)
		}
		p.observeBatch(2, 110*us, 256)
	}
	if got := p.most.Load(); got <= 2 {
		t.Errorf("after %d batches of several %d are let in", learned, got)
	}
	if p.observeBatch(1, 100*us, 3); p.most.Load() > 3 {
		t.Errorf("%d are let in where 3 sessions may be open", p.most.Load())
	}
}

// A typical time is positive whatever was measured, and finds what is typical from there.
func TestATypicalTimeIsPositive(t *testing.T) {
	for _, first := range []float64{-1e6, 0, 1e6} {
		var of typical
		for range 1000 {
			if of.learn(first); !(of >= 1) {
				t.Fatalf("after %g the typical time is %g", first, float64(of))
			}
		}
		for range 1000 {
			of.learn(100)
		}
		if !(of > 90 && of < 110) {
			t.Errorf("after %g and a thousand times 100 the typical time is %g", first, float64(of))
		}
	}
}
