package rollouttest_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout/rollouttest"
)

// A call is one graph, limits included, whatever the numbers of its problem; only another shape is
// captured, and only a larger one allocates.
func TestOneGraphForEachCall(t *testing.T) {
	library := shim.NewMetered(shim.Device(t))
	v := on(t, library)
	decide := func(seed uint64, robots, candidates int) (launches, captures, allocations int) {
		counts := func() (n [3]int) {
			for i, call := range []string{"cuGraphLaunch", "cuStreamBeginCapture_v2", "cuMemAlloc_v2"} {
				n[i] = library.Calls(call)
			}
			return n
		}
		o := rollouttest.Joint(rand.New(rand.NewPCG(seed, 1)), "", robots, 5, 8)
		before := counts()
		results := make([]rollout.Result, rollout.Blocks(candidates))
		if err := v.Evaluate(o.Problem, o.Bounds, o.Draw(rand.New(rand.NewPCG(seed, 2)), candidates), candidates, results, nil); err != nil {
			t.Fatal(err)
		}
		after := counts()
		return after[0] - before[0], after[1] - before[1], after[2] - before[2]
	}
	decide(1, 4, 100)
	for _, c := range []struct {
		seed                           uint64
		robots, candidates             int
		launches, captures, allocation int
	}{{2, 4, 100, 1, 0, 0}, {3, 4, 60, 1, 1, 0}, {4, 3, 100, 1, 1, 0}, {5, 4, 100, 1, 0, 0}} {
		if l, p, a := decide(c.seed, c.robots, c.candidates); l != c.launches || p != c.captures || a != c.allocation {
			t.Errorf("%d robots, %d candidates: %d launches, %d captures, %d allocations, want %d, %d, %d", c.robots, c.candidates, l, p, a, c.launches, c.captures, c.allocation)
		}
	}
}

// Plans written into the device's own memory give what copied ones give.
func TestPlansInPlace(t *testing.T) {
	v := onDevice(t)
	o := rollouttest.Problems()[0]
	const candidates = 50
	drawn := o.Draw(rand.New(rand.NewPCG(8, 8)), candidates)
	want, got := make([]rollout.Result, rollout.Blocks(candidates)), make([]rollout.Result, rollout.Blocks(candidates))
	copied := slices.Clone(drawn)
	if err := v.Evaluate(o.Problem, o.Bounds, copied, candidates, want, nil); err != nil {
		t.Fatal(err)
	}
	own, err := v.Plans(o.Problem, candidates)
	if err != nil {
		t.Fatal(err)
	}
	copy(own, drawn)
	if err := v.Evaluate(o.Problem, o.Bounds, own, candidates, got, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) || !slices.Equal(own[:len(drawn)], copied) {
		t.Errorf("in place plans are scored %+v, want %+v", got, want)
	}
}

// A failed call is an error, and the next one works.
func TestFaultsOfTheDevice(t *testing.T) {
	library, v := shim.Open(t), onDevice(t)
	o := rollouttest.Problems()[0]
	const outOfMemory = 2
	for candidates, symbol := range map[int]string{40: "cuMemAlloc_v2", 41: "cuStreamBeginCapture_v2", 42: "cuGraphLaunch"} {
		plans, results := o.Draw(rand.New(rand.NewPCG(1, 1)), candidates), make([]rollout.Result, rollout.Blocks(candidates))
		if symbol == "cuMemAlloc_v2" {
			v = onDevice(t) // without memory yet
		}
		library.Fail(symbol, 1, outOfMemory)
		err := v.Evaluate(o.Problem, nil, plans, candidates, results, nil)
		if err == nil {
			t.Fatalf("%s: no error", symbol)
		}
		var short *driver.MemoryError
		if symbol == "cuMemAlloc_v2" && !errors.As(err, &short) {
			t.Errorf("%s: %v, want a *MemoryError", symbol, err)
		}
		if err := v.Evaluate(o.Problem, nil, plans, candidates, results, nil); err != nil {
			t.Fatalf("after %s failed: %v", symbol, err)
		}
		want, exact := rollout.Reference(o.Problem, widen(plans), candidates)
		if err := rollouttest.Compare(results, nil, want, exact, candidates); err != nil {
			t.Errorf("after %s failed: %v", symbol, err)
		}
	}
}

// What does not fit is refused, with both sizes.
func TestSizesAreChecked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, v := range evaluators(t) {
		o := rollouttest.Joint(rng, "", 2, 3, 8)
		plans, results := o.Draw(rng, 20), make([]rollout.Result, 2)
		short := *o.Problem
		short.Discs = short.Discs[:1]
		for what, err := range map[string]error{
			"20 candidates":   v.Evaluate(o.Problem, nil, plans[:100], 20, results, nil),
			"at least 1":      v.Evaluate(o.Problem, nil, plans, 0, results, nil),
			"derivatives":     v.Evaluate(o.Problem, nil, plans, 20, results, plans[:10]),
			"one for each":    v.Evaluate(o.Problem, nil, plans, 20, results[:1], nil),
			"1 sets of discs": v.Evaluate(&short, nil, plans, 20, results, nil),
			"bounds of 1":     v.Evaluate(o.Problem, o.Bounds[:1], plans, 20, results, nil),
		} {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v, want an error with %q", name, err, what)
			}
		}
	}
	v := onDevice(t)
	o := rollouttest.Single(rng, "", 1, 200, nil)
	if err := v.Evaluate(o.Problem, nil, o.Draw(rng, 1), 1, make([]rollout.Result, 1), nil); err == nil || !strings.Contains(err.Error(), "200 steps") {
		t.Errorf("200 steps: %v", err)
	}
}

// A descent in one call steps from each of its iterates as one by Evaluate does: in the
// direction of Adam, into the bounds, with the scores of every iterate, in place and not.
func TestDescentAtOnce(t *testing.T) {
	v := onDevice(t)
	const iterates = 7
	for _, o := range rollouttest.Problems() {
		plan := o.Draw(rand.New(rand.NewPCG(5, 6)), rollout.Lanes)
		size := len(plan)
		var rates [rollout.Lanes]float32
		for l := range rates {
			rates[l] = 0.2 * float32(math.Pow(0.8, float64(l)))
		}
		factors := make([]float32, iterates-1)
		for i := range factors {
			factors[i] = float32(math.Pow(0.9, float64(i)))
		}
		plans, results := make([]float32, iterates*size), make([]rollout.Result, iterates)
		copy(plans, plan)
		if done, err := v.Descend(o.Problem, o.Bounds, &rates, factors, plans, results); !done || err != nil {
			t.Fatalf("%s: done %v, %v", o.Name, done, err)
		}
		if !slices.Equal(plans[:size], plan) {
			t.Errorf("%s: the first iterate is not what was given", o.Name)
		}
		first, second, slopes := make([]float32, size), make([]float32, size), make([]float32, size)
		for i := range iterates {
			now, own := slices.Clone(plans[i*size:(i+1)*size]), make([]rollout.Result, 1)
			if err := v.Evaluate(o.Problem, nil, now, rollout.Lanes, own, slopes); err != nil {
				t.Fatal(err)
			}
			for l := range rollout.Lanes {
				if got, want := results[i].Cost[l], own[0].Cost[l]; !(math.Abs(float64(got-want)) <= 1e-5*math.Max(1, math.Abs(float64(want)))) || results[i].Safe[l] != own[0].Safe[l] {
					t.Errorf("%s: iterate %d, candidate %d costs %v and is safe for %v steps, want %v and %v", o.Name, i, l, got, results[i].Safe[l], want, own[0].Safe[l])
				}
			}
			if i+1 == iterates {
				break
			}
			for e, g := range slopes {
				first[e], second[e] = 0.8*first[e]+0.2*g, 0.95*second[e]+0.05*g*g
				now[e] -= factors[i] * rates[e%rollout.Lanes] * first[e] / (float32(math.Sqrt(float64(second[e]))) + 1e-6)
			}
			if err := v.Evaluate(o.Problem, o.Bounds, now, rollout.Lanes, own, nil); err != nil {
				t.Fatal(err)
			}
			for e, want := range now {
				if got := plans[(i+1)*size+e]; !(math.Abs(float64(got-want)) <= 1e-5*math.Max(1, math.Abs(float64(want)))) {
					t.Fatalf("%s: entry %d of iterate %d is %v, want %v", o.Name, e, i+1, got, want)
				}
			}
		}
		own, err := v.Plans(o.Problem, iterates*rollout.Lanes)
		if err != nil {
			t.Fatal(err)
		}
		copy(own, plan)
		if done, err := v.Descend(o.Problem, o.Bounds, &rates, factors, own, results); !done || err != nil || !slices.Equal(own[:len(plans)], plans) {
			t.Errorf("%s: in place a descent is another, done %v, %v", o.Name, done, err)
		}
		if done, err := v.Descend(o.Problem, nil, &rates, factors, own, results); done || err == nil {
			t.Errorf("%s: a descent without bounds: done %v, %v", o.Name, done, err)
		}
	}
}
