package main

import (
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpc-engine/gpc/internal/testing/thread"
)

// What a bound thread starts may run where the thread may, this process where it was bound.
func TestCPUsAreBound(t *testing.T) {
	all := allowedCPUs()
	if len(all) < 2 {
		t.Skip("one CPU, or not known which")
	}
	defer func() {
		if err := bindProcess(all); err != nil {
			t.Error(err)
		}
	}()
	first, last := all[:1], all[len(all)-1:]
	var child []byte
	if err := onCPUs(first, func() (err error) {
		child, err = exec.Command("nproc").Output()
		return err
	}); err != nil || strings.TrimSpace(string(child)) != "1" {
		t.Errorf("a process of a thread of one CPU has %s, %v", child, err)
	}
	if err := bindProcess(last); err != nil {
		t.Fatal(err)
	}
	seen := make(chan []int)
	for range 2 * len(all) {
		go func() {
			runtime.LockOSThread()
			seen <- allowedCPUs()
		}()
	}
	for range 2 * len(all) {
		if cpus := <-seen; !slices.Equal(cpus, last) {
			t.Errorf("bound to %v a thread may run on %v", last, cpus)
		}
	}
}

// The thread that asks for it has the least leeway of its sleeps that the kernel gives.
func TestPunctual(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test's goroutine
	if err := punctual(); err != nil {
		t.Fatal(err)
	}
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack != 1 {
		t.Errorf("the leeway is %d ns, %v", slack, err)
	}
}

// BenchmarkPunctual is how late a sleep of 200 µs ends.
func BenchmarkPunctual(b *testing.B) {
	runtime.LockOSThread()
	if err := punctual(); err != nil {
		b.Fatal(err)
	}
	var late []time.Duration
	for b.Loop() {
		at := thread.Now() + 200*time.Microsecond
		if err := thread.SleepUntil(at); err != nil {
			b.Fatal(err)
		}
		late = append(late, thread.Now()-at)
	}
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(late[len(late)*99/100].Nanoseconds())/1e3, "p99-µs")
}
