package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// allowedCPUs are those that the calling thread may run on, by number; nil where that is not known.
func allowedCPUs() (all []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for cpu := 0; len(all) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}

func bind(thread int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return unix.SchedSetaffinity(thread, &set)
}

// bindProcess lets every thread of this process run on CPUs alone, and so those that they start.
func bindProcess(cpus []int) error {
	// A thread that another has started meanwhile may still have the other's CPUs of before.
	for range 2 {
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, e := range entries {
			thread, err := strconv.Atoi(e.Name())
			if err != nil {
				return err
			}
			if err := bind(thread, cpus); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
		}
	}
	return nil
}

// onCPUs calls f on a thread that may run on CPUs alone: a process that f starts may run on no others.
func onCPUs(cpus []int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := allowedCPUs()
	if err := bind(0, cpus); err != nil {
		return err
	}
	return errors.Join(f(), bind(0, before))
}

// punctual makes SleepUntil on the calling thread end when it should; the kernel's own leeway is 50 µs.
func punctual() error { return unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
