package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Text is a file of a folder.
type Text struct {
	Name string
	Text []byte
}

// Vacant says what is wrong with a folder to write to: it must be empty, or not exist where one can be made. What a
// killed WriteFolder left in it is removed.
func Vacant(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ProbeFolder(dir)
	case err == nil && !info.IsDir():
		return Refusef("%s is a file, want a folder that is empty or does not exist", dir)
	}
	err = Sweep(dir)
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		return Refusef("%s holds %s already: want a folder that is empty or does not exist", dir, entries[0].Name())
	}
	return err
}

// WriteFolder writes and syncs files in a folder that must be Vacant; folders above it are made. One that does not exist
// appears whole or not at all. Of one that exists, as where a file system is mounted, every file does.
func WriteFolder(dir string, files []Text) (err error) {
	if err := Vacant(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if dir, err = resolve(dir); err != nil {
		return err
	}
	_, missing := os.Stat(dir)
	parent := dir
	if missing != nil {
		parent = filepath.Dir(dir)
		if err := Sweep(parent); err != nil {
			return err
		}
	}
	staged, lock, err := stage(parent, filepath.Base(dir))
	if err != nil {
		return err
	}
	defer lock.Close() // nil has none
	defer func() { err = errors.Join(err, os.RemoveAll(staged)) }()
	if entries, _ := os.ReadDir(dir); missing == nil && len(entries) > 1 { // another process has come in between
		return Refusef("%s is being written by another process: want a folder that is empty or does not exist", dir)
	}
	for _, f := range files {
		if err := WriteFile(filepath.Join(staged, f.Name), f.Text, 0o644); err != nil {
			if failed, ok := errors.AsType[*fs.PathError](err); ok { // and not in the staged folder, which is gone
				failed.Path = filepath.Join(dir, f.Name)
			}
			return err
		}
	}
	if missing != nil {
		err := rename(staged, dir)
		if full := Vacant(dir); err != nil && full != nil { // another process was first
			return full
		}
		return errors.Join(err, syncFolder(parent))
	}
	for i, f := range files {
		if err := rename(filepath.Join(staged, f.Name), filepath.Join(dir, f.Name)); err != nil {
			for _, written := range files[:i] {
				err = errors.Join(err, os.Remove(filepath.Join(dir, written.Name)))
			}
			return err
		}
	}
	return syncFolder(dir)
}

// unlocked is how often stage tries again where a folder is not locked: a sweep has it, or the file system knows no locks.
const unlocked = 20

// stage makes a folder with a lock, by which a sweep knows that this process has not ended. One that came between both has
// removed it. The lock is nil where folders have none.
func stage(parent, name string) (staged string, lock *os.File, err error) {
	for tries := 0; ; tries++ {
		staged = filepath.Join(parent, fmt.Sprintf(".%s.%016x.partial", name, rand.Uint64()))
		if err := os.Mkdir(staged, 0o755); err != nil {
			return "", nil, err
		}
		lock, err = open(staged, os.O_RDONLY, 0)
		locked := err == nil && flock(lock) == nil
		if _, err := os.Stat(staged); err == nil && (locked || tries == unlocked) {
			return staged, lock, nil
		}
		lock.Close()
		if err := os.RemoveAll(staged); err != nil {
			return "", nil, err
		}
	}
}
