package machine

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// What others computed is what the machine did less what the process did, and what was
// stolen is no work of either.
func TestLoadIsWhatOthersDid(t *testing.T) {
	const before = "cpu  100 10 20 5000 7 1 2 30 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
	const after = "cpu  500 20 60 5400 9 3 8 80 0 0\n"
	sampled := func(text string, at time.Duration, owned float64) (s sample) {
		var ok bool
		if s.busy, s.stolen, ok = parseStat(text); !ok {
			t.Fatalf("%q is not read", text)
		}
		s.at, s.owned, s.load = time.Unix(0, 0).Add(at), owned, 1+owned
		return s
	}
	l := between(sampled(before, 0, 0), sampled(after, 4*time.Second, 3))
	// 400 + 10 + 40 + 2 + 6 ticks are 4.58 s, 3 of them the process's; 50 are 0.5 s.
	if math.Abs(l.Others-1.58/4) > 1e-12 || math.Abs(l.Stolen-0.5/4) > 1e-12 || l.Start != 1 || l.End != 4 {
		t.Errorf("%+v", l)
	}
}

func TestAFileThatSaysNoLoad(t *testing.T) {
	for _, text := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4 5 6 7 -8 9"} {
		if _, _, ok := parseStat(text); ok {
			t.Errorf("%q is read", text)
		}
	}
	for _, text := range []string{"", "x 1 2", "-1 0 0"} {
		if _, ok := parseLoad(text); ok {
			t.Errorf("%q is read", text)
		}
	}
	if v, ok := parseLoad("1.25 0.5 0.1 1/100 7\n"); !ok || v != 1.25 {
		t.Errorf("%v, %v", v, ok)
	}
}

// A limit refuses before and after the run, unless any load is taken, which is then said.
func TestLimitOfALoad(t *testing.T) {
	loads := func(values ...float64) func() (sample, bool) {
		at := 0
		return func() (sample, bool) {
			at++
			return sample{load: values[at-1], at: time.Unix(int64(at), 0)}, true
		}
	}
	for _, v := range []struct {
		limit              Limit
		start, end         float64
		begins, ends, said bool
	}{
		{Limit{}, 9, 9, true, true, false},
		{Limit{Load: 2}, 1, 2, true, true, false},
		{Limit{Load: 2}, 2.1, 1, false, false, false},
		{Limit{Load: 2}, 1, 2.1, true, false, true},
		{Limit{Load: 2, Any: true}, 2.1, 1, true, true, true},
		{Limit{Load: 2, Any: true}, 1, 2.1, true, true, true},
	} {
		w, err := begin(v.limit, loads(v.start, v.end))
		if (err == nil) != v.begins || (err != nil && !errors.Is(err, ErrBusy)) {
			t.Errorf("%+v begins: %v", v, err)
		}
		if err != nil {
			continue
		}
		l, err := w.End()
		if (err == nil) != v.ends || (err != nil && !errors.Is(err, ErrBusy)) {
			t.Errorf("%+v ends: %v", v, err)
		}
		if l.Above != v.said || l.Limit != v.limit.Load || strings.Contains(l.String(), "above the limit") != v.said {
			t.Errorf("%+v says %v", v, l)
		}
	}
	unknown := func() (sample, bool) { return sample{}, false }
	if _, err := begin(Limit{Load: 2}, unknown); err == nil {
		t.Error("a limit is kept where no load is known")
	}
	w, err := begin(Limit{}, unknown)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := w.End(); l != nil || err != nil || l.String() != "load not recorded" {
		t.Errorf("an unknown load is %v, %v", l, err)
	}
}

func TestWorstOfLoadsSideBySide(t *testing.T) {
	a, b := &Load{CPUs: 2, Start: 1, End: 3, Others: 0.2, Stolen: 0.3, Limit: 2, Above: true}, &Load{CPUs: 2, Start: 2, End: 1, Others: 0.5, Limit: 2, Partial: true}
	if w := Worst([]*Load{b, a}); *w != (Load{2, 2, 3, 0.5, 0.3, 2, true, true}) {
		t.Errorf("%+v", w)
	}
	if Worst(nil) != nil || Worst([]*Load{a, nil}) != nil {
		t.Error("an unknown load is not the worst")
	}
}
