package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A folder is written where it does not exist, where it is empty, through a link to either, and as ".".
func TestAFolderIsWrittenWhereItIs(t *testing.T) {
	contents := []Text{{"a.c", []byte("a")}, {"b.h", []byte("b")}}
	for name, prepare := range map[string]func(root string) (dir, target string){
		"new": func(root string) (string, string) {
			return filepath.Join(root, "deep/new/"), filepath.Join(root, "deep/new")
		},
		"empty": func(root string) (string, string) {
			require.OK(t, os.Mkdir(filepath.Join(root, "e"), 0o755))
			return filepath.Join(root, "e"), filepath.Join(root, "e")
		},
		"link": func(root string) (string, string) {
			require.OK(t, os.Mkdir(filepath.Join(root, "e"), 0o755))
			require.OK(t, os.Symlink("e", filepath.Join(root, "link")))
			return filepath.Join(root, "link"), filepath.Join(root, "e")
		},
		"link to nothing": func(root string) (string, string) {
			require.OK(t, os.Symlink("e", filepath.Join(root, "link")))
			return filepath.Join(root, "link"), filepath.Join(root, "e")
		},
		"the working folder": func(root string) (string, string) { t.Chdir(root); return ".", root },
	} {
		root := t.TempDir()
		dir, target := prepare(root)
		before, _ := os.Stat(target)
		if err := WriteFolder(dir, contents); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := names(t, target); strings.Join(got, " ") != "a.c b.h" || text(t, filepath.Join(target, "b.h")) != "b" {
			t.Errorf("%s: it has %q", name, got)
		}
		if after := require.Get(os.Stat(target))(t); before != nil && !os.SameFile(before, after) || after.Mode().Perm()&0o700 != 0o700 {
			t.Errorf("%s: it is another folder, or has the mode %v", name, after.Mode())
		}
		if link, err := os.Lstat(filepath.Join(root, "link")); err == nil && link.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s: the link is one no more", name)
		}
		if err := WriteFolder(dir, contents); err == nil || !strings.Contains(err.Error(), "holds a.c already") {
			t.Errorf("%s, again: %v", name, err)
		}
	}
}

// What a killed write left, beside the folder or in it, is removed by the next; that of a running one is not.
func TestTheNextFolderRemovesWhatAKilledOneLeft(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "d")
	for _, stale := range []string{root, dir} {
		left := filepath.Join(stale, ".d.0123456789abcdef.partial")
		require.OK(t, os.MkdirAll(left, 0o755))
		require.OK(t, os.WriteFile(filepath.Join(left, "a.c"), nil, 0o644))
		running := filepath.Join(root, ".d.fedcba9876543210.partial")
		require.OK(t, os.MkdirAll(running, 0o755))
		lock := require.Get(os.Open(running))(t)
		require.OK(t, flock(lock))
		require.OK(t, WriteFolder(dir, []Text{{"b.h", nil}}))
		if got := strings.Join(names(t, root), " "); got != ".d.fedcba9876543210.partial d" {
			t.Errorf("left are %q", got)
		}
		if got := strings.Join(names(t, dir), " "); got != "b.h" {
			t.Errorf("in it are %q", got)
		}
		lock.Close()
		require.OK(t, os.RemoveAll(dir))
	}
}

// Of those that write to a folder at once, one does; the others are refused.
func TestOneOfManyWritesAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	var done atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := WriteFolder(dir, []Text{{"a.c", []byte("a")}, {"b.h", []byte("b")}})
			if err == nil {
				done.Add(1)
			} else if !errors.As(err, new(*Refusal)) {
				t.Errorf("%v is no refusal", err)
			}
		})
	}
	all.Wait()
	if got := strings.Join(names(t, dir), " "); done.Load() != 1 || got != "a.c b.h" {
		t.Errorf("%d wrote, there are %q", done.Load(), got)
	}
}

// An error names the file that would have been, and not the one that is gone.
func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	dir, name := filepath.Join(t.TempDir(), "c"), strings.Repeat("a", 300)
	if err := WriteFolder(dir, []Text{{name, nil}}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
		t.Errorf("a name that is too long: %v", err)
	}
}
