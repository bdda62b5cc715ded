package machine

import (
	"runtime"
	"testing"
	"time"
)

// Absolute sleeps do not drift: work between them is not added to the period, and no sleep ends
// early.
func TestAbsoluteSleepsDoNotDrift(t *testing.T) {
	const period, rounds = 2 * time.Millisecond, 40
	start, least := Now(), time.Hour
	for i := 1; i <= rounds; i++ {
		next := start + time.Duration(i)*period
		if err := SleepUntil(next); err != nil {
			t.Fatal(err)
		}
		late := Now() - next
		if late < 0 {
			t.Fatalf("sleep %d ended %v early", i, -late)
		}
		if i > rounds/2 {
			least = min(least, late)
		}
		for until := Now() + period/2; Now() < until; { // work
		}
	}
	// Sleeps of a whole period each would be late by half a period more every time.
	if least > rounds/2*period/2/2 {
		t.Errorf("after %d periods of %v every sleep ends %v late or more", rounds, period, least)
	}
	if err := SleepUntil(start); err != nil { // in the past
		t.Fatal(err)
	}
}

// Waiting is voluntary and takes no CPU; computing takes CPU.
func TestUsageOfAThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, ok := ThreadUsage()
	if !ok {
		t.Skip("this system does not say what a thread uses")
	}
	for until := Now() + 20*time.Millisecond; Now() < until; {
	}
	computed, _ := ThreadUsage()
	if cpu := computed.Since(before).CPU; cpu <= 0 || cpu > time.Second {
		t.Errorf("20 ms of work took %v of CPU", cpu)
	}
	for range 5 {
		if err := SleepUntil(Now() + time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	slept, _ := ThreadUsage()
	if used := slept.Since(computed); used.Voluntary < 5 || used.CPU > 3*time.Millisecond {
		t.Errorf("5 ms of sleep: %+v", used)
	}
}
