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
		return fmt.Errorf("%s is a file, want a folder that is empty or does not exist", dir)
	}
	err = Sweep(dir)
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		return fmt.Errorf("%s holds %s already: want a folder that is empty or does not exist", dir, entries[0].Name())
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
	staged := filepath.Join(parent, fmt.Sprintf(".%s.%016x.partial", filepath.Base(dir), rand.Uint64()))
	if err := os.Mkdir(staged, 0o755); err != nil {
		return err
	}
	// Where folders can be locked, a sweep knows by the lock that this process has not ended.
	if lock, err := open(staged, os.O_RDONLY, 0); err == nil {
		_ = flock(lock)
		defer lock.Close()
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staged)) }()
	for _, f := range files {
		if err := WriteFile(filepath.Join(staged, f.Name), f.Text, 0o644); err != nil {
			return err
		}
	}
	if missing != nil {
		return errors.Join(rename(staged, dir), syncFolder(parent))
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
