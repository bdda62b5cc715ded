package serve

import (
	"testing"
	"time"
)

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
