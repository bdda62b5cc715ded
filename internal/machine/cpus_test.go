package machine

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a bound thread starts may run where the thread may, this process where it was bound.
func TestCPUsAreBound(t *testing.T) {
	all := CPUs()
	if len(all) < 2 {
		t.Skip("one CPU, or not known which")
	}
	defer func() {
		if err := Bind(all); err != nil {
			t.Error(err)
		}
	}()
	first, last := all[:1], all[len(all)-1:]
	var child []byte
	if err := On(first, func() (err error) {
		child, err = exec.Command("nproc").Output()
		return err
	}); err != nil || strings.TrimSpace(string(child)) != "1" {
		t.Errorf("a process of a thread of one CPU has %s, %v", child, err)
	}
	if err := Bind(last); err != nil {
		t.Fatal(err)
	}
	seen := make(chan []int)
	for range 2 * len(all) {
		go func() {
			runtime.LockOSThread()
			seen <- CPUs()
		}()
	}
	for range 2 * len(all) {
		if cpus := <-seen; !slices.Equal(cpus, last) {
			t.Errorf("bound to %v a thread may run on %v", last, cpus)
		}
	}
}

// A thread without leeway sleeps no longer than it should, but for what else runs.
func TestPunctual(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test's goroutine
	if err := Punctual(); err != nil {
		t.Fatal(err)
	}
	least := time.Hour
	for range 50 {
		at := Now() + 200*time.Microsecond
		if err := SleepUntil(at); err != nil {
			t.Fatal(err)
		}
		least = min(least, Now()-at)
	}
	if least < 0 || least > 45*time.Microsecond {
		t.Errorf("the most punctual of 50 sleeps ended %v late", least)
	}
}
