package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Owner is who holds a lock, as its file says.
type Owner struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Start time.Time `json:"start"` // of the process
}

func (o Owner) String() string {
	if o.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d on %s, begun %s", o.PID, o.Host, o.Start.Format(time.RFC3339))
}

var started = time.Now()

// self is this process.
func self() Owner {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Owner{Host: host, PID: os.Getpid(), Start: started.UTC().Truncate(time.Second)}
}

// ended reports whether an owner is known to be no more: a process of this host that
// does not exist.
func (o Owner) ended() bool { return o.PID <= 0 || o.Host == self().Host && gone(o.PID) }

// Lock is held on a file or folder that one process alone writes.
type Lock struct {
	file *os.File
	path string
}

// ErrBusy is in the error of what another process is writing: later it may succeed.
var ErrBusy = errors.New("two writers would mix what they write")

// Acquire makes this process the one writer of path: a folder, which then holds a file
// .lock, or a file, with PATH.lock beside it. The lock file names its owner by host,
// process and start. Another owner is a Refusal with ErrBusy. The kernel lets go of a lock when its
// process ends in whatever way, so that what a kill leaves is taken over; on a file
// system without locks the owner is asked for instead: it has ended if it is of this
// host and there is no such process. Temporaries in the folder are swept.
func Acquire(path string) (*Lock, error) {
	target, err := resolve(path)
	if err != nil {
		return nil, err
	}
	at := target + ".lock"
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		at = filepath.Join(target, ".lock")
	}
	f, err := hold(at, 0, 0o644)
	if errors.Is(err, errHeld) {
		return nil, Refusef("%s is being written by %s: %w (lock file %s)", path, ownerOf(at), ErrBusy, at)
	}
	if err != nil {
		return nil, err
	}
	l := &Lock{f, at}
	text, err := json.Marshal(self())
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = Sweep(filepath.Dir(at))
	}
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// Release removes the lock file and lets go of the lock.
func (l *Lock) Release() error { return errors.Join(os.Remove(l.path), l.file.Close()) }

// ownerOf reads a lock file; the zero Owner where it says nothing yet.
func ownerOf(path string) (o Owner) {
	f, err := os.Open(path)
	if err != nil {
		return o
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<12))
	if err != nil || json.Unmarshal(text, &o) != nil {
		return Owner{}
	}
	return o
}

var errHeld = errors.New("held by another process")

// hold creates or opens the file at path and locks it, errHeld where another has. A file
// that its owner removed in between is made anew.
func hold(path string, flag int, perm fs.FileMode) (*os.File, error) {
	for {
		f, err := open(path, os.O_RDWR|os.O_CREATE|flag, perm)
		if err != nil {
			return nil, err
		}
		err = flock(f)
		if withoutLocks(err) {
			if err = nil; !ownerOf(path).ended() {
				err = errHeld
			}
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		mine, err := f.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = os.Stat(path); err == nil && os.SameFile(mine, there) {
				return f, nil
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}
