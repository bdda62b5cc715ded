package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestMain is also the other process of these tests: it does what GPC_DURABLE says, says
// so on stdout, and waits to be killed.
func TestMain(m *testing.M) {
	what, path, ok := strings.Cut(os.Getenv("GPC_DURABLE"), " ")
	if !ok {
		os.Exit(m.Run())
	}
	wait := func() {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin) // which whoever kills it holds open; goroutines that only wait would end it as a deadlock
	}
	var err error
	switch what {
	case "lock":
		var l *Lock
		if l, err = Acquire(path); err == nil {
			wait()
		}
		runtime.KeepAlive(l)
	case "write":
		err = Create(path, func(w io.Writer) error {
			if _, err := io.WriteString(w, "half"); err != nil {
				return err
			}
			wait()
			return nil
		})
	}
	fmt.Println(err)
	os.Exit(1)
}

// other starts this test's binary as another process that has done what it was told, and
// returns what kills it.
func other(t *testing.T, what, path string) (kill func()) {
	t.Helper()
	cmd := exec.Command(require.Get(os.Executable())(t))
	cmd.Env = append(os.Environ(), "GPC_DURABLE="+what+" "+path)
	out := require.Get(cmd.StdoutPipe())(t)
	require.Get(cmd.StdinPipe())(t) // closed by Wait
	require.OK(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(kill)
	if line := require.Get(bufio.NewReader(out).ReadString('\n'))(t); line != "ready\n" {
		t.Fatalf("the other process says %q", line)
	}
	return kill
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, e := range require.Get(os.ReadDir(dir))(t) {
		out = append(out, e.Name())
	}
	return out
}

func text(t *testing.T, path string) string {
	t.Helper()
	return string(require.Get(os.ReadFile(path))(t))
}

func refused(t *testing.T, err error, says ...string) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error is %v, want a refusal", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.OK(t, WriteFile(path, []byte("first"), 0o640))
	if mode := require.Get(os.Stat(path))(t).Mode().Perm(); mode != 0o640 {
		t.Errorf("a new file has permissions %o, want 640", mode)
	}
	require.OK(t, os.Chmod(path, 0o600))
	full := errors.New("no space left")
	if err := Create(path, func(w io.Writer) error {
		io.WriteString(w, "sec")
		return full
	}); !errors.Is(err, full) {
		t.Errorf("error is %v, want what the writer said", err)
	}
	if got := text(t, path); got != "first" {
		t.Errorf("a failed write left %q", got)
	}
	require.OK(t, WriteFile(path, []byte("second"), 0o644))
	if got, mode := text(t, path), require.Get(os.Stat(path))(t).Mode().Perm(); got != "second" || mode != 0o600 {
		t.Errorf("replaced by %q with permissions %o, want the old ones", got, mode)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
		t.Errorf("the folder holds %v", got)
	}
}

func TestLinksAreFollowed(t *testing.T) {
	dir := t.TempDir()
	require.OK(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	for _, l := range [][2]string{{"real", "folder"}, {"real/f", "link"}, {"folder/f", "second"}, {"turning", "turning"}} {
		require.OK(t, os.Symlink(l[0], filepath.Join(dir, l[1])))
	}
	for _, name := range []string{"link", "folder/f", "second"} { // the first time there is no real/f
		require.OK(t, WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
		if got := text(t, filepath.Join(dir, "real/f")); got != name {
			t.Errorf("writing %s left %q in its target", name, got)
		}
	}
	if err := WriteFile(filepath.Join(dir, "turning"), nil, 0o644); err == nil || !strings.Contains(err.Error(), "links") {
		t.Errorf("a link to itself: %v", err)
	}
}

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	require.OK(t, os.WriteFile(file, nil, 0o644))
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.OK(t, syscall.Mkfifo(pipe, 0o644))
	require.OK(t, os.Symlink(pipe, filepath.Join(dir, "link")))
	for path, says := range map[string]string{
		filepath.Join(dir, "none", "f"): "does not exist",
		filepath.Join(file, "f"):        "not a directory",
		dir:                             "not a regular file",
		filepath.Join(dir, "link"):      "not a regular file",
		pipe:                            "not a regular file",
		"/proc/gpc":                     "/proc/gpc cannot be written: the folder /proc takes no new file: ",
	} {
		refused(t, Probe(path), path, says)
		if err := Create(path, func(io.Writer) error { return nil }); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	for _, name := range []string{"f", "new"} {
		require.OK(t, Probe(filepath.Join(dir, name)))
	}
	if got := names(t, dir); !slices.Equal(got, []string{"f", "link"}) {
		t.Errorf("probing left %v", got)
	}
}

// No output is standard output, by whatever name: it would be over or under what a command prints.
func TestStandardOutputIsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	out := require.Get(os.Create(file))(t)
	defer out.Close()
	screen := os.Stdout
	defer func() { os.Stdout = screen }()
	os.Stdout = out
	for path, says := range map[string]string{"-": "./- is one of that name", file: "is standard output"} {
		refused(t, Probe(path), path, says)
		refused(t, WriteFile(path, nil, 0o644), path, says)
	}
}

func TestProbeFolder(t *testing.T) {
	dir := t.TempDir()
	require.OK(t, ProbeFolder(filepath.Join(dir, "a", "b")))
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("probing left %v", got)
	}
	require.OK(t, ProbeFolder(dir))
	refused(t, ProbeFolder("/proc/gpc/a/b"), "/proc/gpc", "the folder /proc takes no new file: ")
}

// What a killed writer leaves is removed by the next, what a living one is at stays.
func TestTemporariesAreSwept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	require.OK(t, WriteFile(path, []byte("before"), 0o644)) // this process has swept here
	kill := other(t, "write", path)
	if got := names(t, dir); len(got) != 2 || text(t, path) != "before" {
		t.Fatalf("while it is written the folder holds %v", got)
	}
	require.OK(t, Sweep(dir))
	if got := names(t, dir); len(got) != 2 {
		t.Fatalf("a living writer's file was swept: %v", got)
	}
	kill()
	if got := text(t, path); got != "before" || len(names(t, dir)) != 2 {
		t.Fatalf("the killed writer left %q in %v", got, names(t, dir))
	}
	for name, sweep := range map[string]func() error{
		"create": func() error {
			swept.Clear()
			return WriteFile(path, []byte("after"), 0o644)
		},
		"probe": func() error { // the folder that a command makes next to what a probe left
			swept.Clear()
			return ProbeFolder(filepath.Join(dir, "g", "h"))
		},
		"acquire": func() error {
			l, err := Acquire(path)
			return errors.Join(err, l.Release())
		},
	} {
		stale := filepath.Join(dir, ".f.0123456789abcdef.partial")
		require.OK(t, os.WriteFile(stale, nil, 0o600))
		require.OK(t, sweep())
		if got := names(t, dir); !slices.Equal(got, []string{"f"}) {
			t.Errorf("%s leaves %v", name, got)
		}
	}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "trace")
	link := filepath.Join(t.TempDir(), "link")
	require.OK(t, os.Symlink(file, link))
	for path, lock := range map[string]string{dir: filepath.Join(dir, ".lock"), file: file + ".lock", link: file + ".lock"} {
		l := require.Get(Acquire(path))(t)
		_, err := Acquire(path)
		refused(t, err, path, lock, fmt.Sprintf("process %d on %s", os.Getpid(), self().Host))
		if !errors.Is(err, ErrBusy) {
			t.Errorf("%v is not ErrBusy", err)
		}
		require.OK(t, l.Release())
		if got := names(t, dir); len(got) != 0 {
			t.Fatalf("a released lock leaves %v", got)
		}
		begun := time.Now().Truncate(time.Second)
		kill := other(t, "lock", path)
		_, err = Acquire(path)
		refused(t, err, lock)
		kill()
		if o := ownerOf(lock); !o.ended() || o.Host != self().Host || o.Start.Before(begun) || o.Start.After(time.Now()) {
			t.Errorf("the killed owner is %+v", o)
		}
		require.OK(t, require.Get(Acquire(path))(t).Release())
	}
	if _, err := Acquire(filepath.Join(dir, "none", "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// However many come and go, one at a time has the lock.
func TestALockExcludes(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for held := 0; held < 25; {
				l, err := Acquire(dir)
				if errors.Is(err, ErrBusy) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two have the lock")
				}
				held++
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

func TestOwnersThatHaveEnded(t *testing.T) {
	me := self()
	for name, c := range map[string]struct {
		owner Owner
		ended bool
	}{
		"nobody":            {Owner{}, true},
		"this process":      {me, false},
		"no such process":   {Owner{Host: me.Host, PID: 1 << 30}, true},
		"another host's":    {Owner{Host: me.Host + "2", PID: 1 << 30}, false},
		"another user's":    {Owner{Host: me.Host, PID: 1}, false},
		"no process at all": {Owner{Host: me.Host, PID: -1}, true},
	} {
		if got := c.owner.ended(); got != c.ended {
			t.Errorf("%s has ended: %v, want %v", name, got, c.ended)
		}
	}
}

func TestOutputsAreKeptApart(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.OK(t, os.WriteFile(at("in"), nil, 0o644))
	require.OK(t, os.Mkdir(at("d"), 0o755))
	require.OK(t, os.Symlink("in", at("soft")))
	require.OK(t, os.Link(at("in"), at("hard")))
	require.OK(t, os.Symlink("new", at("dangling")))
	require.OK(t, os.Symlink(".", at("here")))
	t.Chdir(dir)
	for _, c := range []struct {
		out, other string
		same       bool
	}{
		{at("in"), at("in"), true}, {at("soft"), at("in"), true}, {at("hard"), at("in"), true}, {"in", at("in"), true},
		{at("d/../in"), at("in"), true}, {at("here/in"), at("in"), true}, {at("d"), at("d/"), true},
		{at("dangling"), at("new"), true}, {at("here/new"), at("new"), true}, {at("none/f"), at("none/f"), true},
		{at("new"), at("in"), false}, {at("none/f"), at("none/g"), false}, {"", "", false},
	} {
		for _, err := range []error{
			Apart([]File{{"--out", c.out}}, []File{{"--in", c.other}}),
			Apart([]File{{"--in", c.other}, {"--other", at("third")}, {"--out", c.out}}, nil),
		} {
			if c.same {
				refused(t, err, "--out "+c.out, "--in "+c.other)
			} else if err != nil {
				t.Error(err)
			}
		}
	}
}

func TestSum(t *testing.T) {
	if s := Sum([32]byte{0xab, 31: 1}); s != "ab"+strings.Repeat("0", 60)+"01" || !IsSum(s) || IsSum(strings.ToUpper(s)) || IsSum(s[1:]) {
		t.Errorf("%q", s)
	}
}

// A sealed file that is empty or cut off says so.
func TestAnEmptySealedFileSaysSo(t *testing.T) {
	for text, says := range map[string]string{"": "the file is empty", "{": "ends before it is whole"} {
		path := filepath.Join(t.TempDir(), "sealed")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var v struct{ Seal }
		if err := ReadSealed(path, &v, 1<<10); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What fails names the file that was to be written, and not its temporary.
func TestAnErrorNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.csv")
	err := Create(path, func(w io.Writer) error {
		require.OK(t, w.(roomy).w.(*os.File).Close())
		_, err := io.WriteString(w, "half")
		return err
	})
	if want := "write " + path + ": file already closed"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
