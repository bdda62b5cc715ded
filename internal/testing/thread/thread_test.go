package thread

import (
	"runtime"
	"testing"
	"time"
)

// No sleep ends before its time, and one until a time that is past does not sleep.
func TestSleepsUntilATime(t *testing.T) {
	const period, rounds = time.Millisecond, 20
	start := Now()
	for i := 1; i <= rounds; i++ {
		next := start + time.Duration(i)*period
		if err := SleepUntil(next); err != nil {
			t.Fatal(err)
		}
		if late := Now() - next; late < 0 {
			t.Fatalf("sleep %d ended %v early", i, -late)
		}
	}
	if err := SleepUntil(start); err != nil { // in the past
		t.Fatal(err)
	}
}

// Waiting is voluntary and takes no CPU; computing takes CPU.
func TestUsageOfAThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, ok := Used()
	if !ok {
		t.Skip("this system does not say what a thread uses")
	}
	for until := Now() + 20*time.Millisecond; Now() < until; {
	}
	computed, _ := Used()
	if cpu := computed.Since(before).CPU; cpu <= 0 || cpu > time.Second {
		t.Errorf("20 ms of work took %v of CPU", cpu)
	}
	const most = 1000 // a sleep whose end has passed when it begins gives up nothing
	var used Usage
	began, sleeps := Now(), 0
	for ; used.Voluntary < 5 && sleeps < most; sleeps++ {
		if err := SleepUntil(Now() + time.Millisecond); err != nil {
			t.Fatal(err)
		}
		slept, _ := Used()
		used = slept.Since(computed)
	}
	if took := Now() - began; used.Voluntary < 5 || used.CPU > took/2 {
		t.Errorf("%d sleeps of 1 ms in %v: %+v", sleeps, took, used)
	}
}
