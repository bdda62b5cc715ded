//go:build !linux

package main

// allowedCPUs are not known here.
func allowedCPUs() []int { return nil }

// bindProcess changes nothing here.
func bindProcess([]int) error { return nil }

// onCPUs calls f.
func onCPUs(_ []int, f func() error) error { return f() }

// punctual changes nothing here.
func punctual() error { return nil }
