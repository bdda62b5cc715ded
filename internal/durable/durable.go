// Package durable writes files that a crash leaves whole and that two processes do not
// write at once: a temporary file beside its target that is synced and renamed, a lock
// file that ends with its process, and checks of outputs before any work.
//
// The central function is Create; its counterpart for what is written for longer than a
// moment, a folder or a file that grows, is Acquire.
package durable

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Refusal is the error of what would lose or mix something if it were done: a file in
// use, an output that is an input, what belongs to another run. Nothing has been changed.
type Refusal struct{ Err error }

func (r *Refusal) Error() string { return r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

// Refusef is a Refusal of fmt.Errorf.
func Refusef(format string, args ...any) error { return &Refusal{fmt.Errorf(format, args...)} }

// Create lets write fill a temporary file beside path, syncs it, and renames it to path,
// so that path is what it was or whole at any time; on an error it is what it was. A
// symbolic link is followed. A file that is there keeps its permissions, a new one has
// 0644 less the umask. Temporaries that ended processes left in the folder are removed.
func Create(path string, write func(io.Writer) error) error { return create(path, 0o644, write) }

// WriteJSON is WriteFile of a value as JSON that people read, each level behind an indent.
func WriteJSON(path string, v any, indent string) error {
	text, err := json.MarshalIndent(v, "", indent)
	if err != nil {
		return err
	}
	return WriteFile(path, append(text, '\n'), 0o644)
}

// ReadJSON reads the value of a JSON file; nil where there is no file.
func ReadJSON[T any](path string) (*T, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	v := new(T)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// WriteFile is Create of data, with the permissions of a new file.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	return create(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// CopyFile is WriteFile of what another file holds; folders above it are made.
func CopyFile(path, source string, perm fs.FileMode) error {
	data, err := os.ReadFile(source)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err != nil {
		return err
	}
	return WriteFile(path, data, perm)
}

// swept are the folders that this process has swept: a glance at each write would cost as much as the write.
var swept sync.Map

func sweepFirst(dir string) error {
	if _, done := swept.LoadOrStore(dir, true); !done {
		return Sweep(dir)
	}
	return nil
}

func create(path string, perm fs.FileMode, write func(io.Writer) error) (err error) {
	target, err := resolve(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return Refusef("%s is not a regular file, which could be replaced", path)
	case err == nil:
		perm = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir := filepath.Dir(target)
	if err = sweepFirst(dir); err != nil {
		return err
	}
	f, err := temporary(target, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
			if of := (*fs.PathError)(nil); errors.As(err, &of) && of.Path == f.Name() {
				of.Path = path // and not that of the temporary, which is gone
			}
		}
		f.Close()
	}()
	if err := write(Writer(f)); err != nil {
		return err
	}
	if info != nil {
		if err := f.Chmod(perm); err != nil { // the umask had a part in it
			return err
		}
	}
	if err := errors.Join(Room(), f.Sync()); err != nil {
		return err
	}
	// Renamed while it is open, and so locked: until then others might sweep it.
	if err := Room(); err != nil {
		return err
	}
	if err := rename(f.Name(), target); err != nil {
		return err
	}
	return syncFolder(dir)
}

// temporary makes the file that is to become target, locked while it is open.
func temporary(target string, perm fs.FileMode) (*os.File, error) {
	for {
		random := rand.Uint64()
		name := fmt.Sprintf(".%s.%016x.partial", filepath.Base(target), random)
		f, err := hold(filepath.Join(filepath.Dir(target), name), os.O_EXCL, perm)
		if errors.Is(err, fs.ErrExist) || errors.Is(err, errHeld) {
			continue // it is another's, or is being swept
		}
		return f, err
	}
}

var temporaryName = regexp.MustCompile(`^\..+\.[0-9a-f]{16}\.partial$`)

// Sweep removes the temporaries in a folder, files and folders, whose processes have ended. Where the file
// system has no locks nobody knows, and they stay.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path, flag := filepath.Join(dir, e.Name()), os.O_RDWR
		if e.IsDir() {
			flag = os.O_RDONLY
		}
		if !e.IsDir() && !e.Type().IsRegular() || !temporaryName.MatchString(e.Name()) {
			continue
		}
		f, err := open(path, flag, 0)
		if err != nil {
			continue // gone, or another user's
		}
		if flock(f) == nil {
			err = os.RemoveAll(path)
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Probe says why no file can be written at path: its folder is missing or takes no files, it is a folder or a device.
// Nothing is left.
func Probe(path string) error {
	target, err := resolve(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Refusef("%s cannot be written: the folder %s does not exist", path, filepath.Dir(path))
	}
	if err != nil {
		return &Refusal{fmt.Errorf("%s cannot be written: %w", path, err)}
	}
	if info, err := os.Stat(target); err == nil && !info.Mode().IsRegular() {
		return Refusef("%s cannot be written: it is there and is not a regular file", path)
	}
	_ = sweepFirst(filepath.Dir(target)) // of a probe that was killed; what stands in its way stops a new one, too
	f, err := temporary(target, 0o600)
	if err != nil {
		if of, ok := errors.AsType[*fs.PathError](err); ok { // whose path is the temporary's
			err = of.Err
		}
		return &Refusal{fmt.Errorf("%s cannot be written: the folder %s takes no new file: %w", path, filepath.Dir(target), err)}
	}
	defer f.Close()
	return os.Remove(f.Name())
}

// ProbeFolder says why no folder can be made at dir: the nearest folder above it that is there takes nothing new. Nothing
// is left. Of a path that is there it says nothing.
func ProbeFolder(dir string) error {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if _, err := os.Stat(filepath.Dir(dir)); err == nil {
			return Probe(dir)
		}
	}
}

// File is a path with what names it where it was given, such as a flag.
type File struct{ Name, Path string }

// Ending are those of some paths that end so, as files of one name.
func Ending(suffix, name string, paths ...string) (files []File) {
	for _, path := range paths {
		if strings.HasSuffix(path, suffix) {
			files = append(files, File{Name: name, Path: path})
		}
	}
	return files
}

// Check refuses, before any work, outputs that overwrite an input or each other and those that cannot be written; see
// Apart and Probe.
func Check(outputs, inputs []File) error {
	if err := Apart(outputs, inputs); err != nil {
		return err
	}
	for _, f := range outputs {
		if f.Path == "" {
			continue
		}
		if err := Probe(f.Path); err != nil {
			return &Refusal{fmt.Errorf("%s: %w", f.Name, err)}
		}
	}
	return nil
}

// Apart refuses an output that is an input or another output, under whatever names: by a
// symbolic or a hard link, or by another way to the same folder. Paths that are "" are
// not asked for and stand for no file.
func Apart(outputs, inputs []File) error {
	for i, out := range outputs {
		for _, other := range append(outputs[:i:i], inputs...) {
			if out.Path == "" || other.Path == "" || !same(out.Path, other.Path) {
				continue
			}
			as := ""
			if out.Path != other.Path {
				as = ", which is the same file,"
			}
			return Refusef("%s %s would overwrite %s %s%s: give it another name", out.Name, out.Path, other.Name, other.Path, as)
		}
	}
	return nil
}

// same reports whether two paths are one file, or would be if they were written.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	return whole(a) == whole(b)
}

// whole is a path without links as far as it exists.
func whole(path string) string {
	if target, err := resolve(path); err == nil {
		return target
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

// mostLinks is how many symbolic links in a row are followed, as by Linux.
const mostLinks = 40

// resolve follows the symbolic links of a path whose last part need not exist. Standard output is refused: what a command prints would
// be written over.
func resolve(path string) (string, error) {
	if path == "-" {
		return "", Refusef("- is no file (./- is one of that name); results go to standard output by themselves")
	}
	screen, err := os.Stdout.Stat()
	if info, missing := os.Stat(path); err == nil && missing == nil && info.Mode().IsRegular() && os.SameFile(info, screen) {
		return "", Refusef("%s is standard output, where what is printed goes: give another name", path)
	}
	at, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range mostLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(at))
		if err != nil {
			return "", err
		}
		at = filepath.Join(dir, filepath.Base(at))
		to, err := os.Readlink(at)
		if err != nil {
			return at, nil
		}
		if at = to; !filepath.IsAbs(to) {
			at = filepath.Join(dir, to)
		}
	}
	return "", fmt.Errorf("%s: more than %d symbolic links in a row", path, mostLinks)
}

// Sum is the lower-case hexadecimal form of a SHA-256, as files hold it.
func Sum(sum [32]byte) string { return hex.EncodeToString(sum[:]) }

// IsSum reports whether text has that form.
func IsSum(text string) bool { return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == "" }
