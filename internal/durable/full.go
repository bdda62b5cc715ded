package durable

import (
	"io"
	"sync/atomic"
	"syscall"
)

// left is how many operations have room; negative: all.
var left atomic.Int64

func init() { left.Store(-1) }

// Fill makes a disk full: of the operations that need Room n are left. It is for tests and
// for lab/torture, which fails each of a command's writes in turn.
func Fill(n int64) { left.Store(n) }

// Room is asked before each operation that a full disk fails: a write, a sync, a rename.
// This package asks it; so does who writes by itself to a file that it holds a Lock on.
func Room() error {
	for {
		n := left.Load()
		switch {
		case n < 0:
			return nil
		case n == 0:
			return syscall.ENOSPC
		case left.CompareAndSwap(n, n-1):
			return nil
		}
	}
}

// Writer is w where there is Room; where there is none half of a write is made, as on a disk
// that fills up.
func Writer(w io.Writer) io.Writer { return roomy{w} }

type roomy struct{ w io.Writer }

func (r roomy) Write(p []byte) (int, error) {
	if err := Room(); err != nil {
		n, _ := r.w.Write(p[:len(p)/2])
		return n, err
	}
	return r.w.Write(p)
}
