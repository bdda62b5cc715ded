package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/bundled/program"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// root of the repository.
const root = "../.."

// Every command that a page shows, in a block or in its text, is one of the program and has the flags that it is shown with,
// and every `make` and `lab/run` has its target.
func TestCommandsOfPagesAreThoseOfTheProgram(t *testing.T) {
	targets := map[string]string{}
	for word, file := range map[string]string{"make": "Makefile", "run": "lab/experiments.mk"} {
		targets[word] = string(require.Get(os.ReadFile(filepath.Join(root, file)))(t))
	}
	a := program.App()
	help := pages.Help(func(arguments []string) (int, string) {
		var out bytes.Buffer
		a.Stdout, a.Stderr = &out, &out
		return a.Run(context.Background(), arguments), out.String()
	})
	checked := 0
	for _, c := range require.Get(pages.Commands(root))(t) {
		words := strings.Fields(c.Line)
		switch word := filepath.Base(words[0]); word {
		case "make", "run":
			for _, target := range words[1:] {
				if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(target) {
					break
				}
				if checked++; !regexp.MustCompile(`(?m)^` + target + `:`).MatchString(targets[word]) {
					t.Errorf("%s: `%s`: there is no target %s", c.Page, c.Line, target)
				}
			}
		case "gpc", "crane", "cart":
			checked++
			for _, unknown := range c.Unknown(help) {
				t.Errorf("%s: `%s`: %s", c.Page, c.Line, unknown)
			}
		}
	}
	if checked < 150 {
		t.Errorf("%d commands were found", checked)
	}
}

// The page of commands is the help of the program, as `make docs` writes it.
func TestThePageOfCommandsIsTheHelp(t *testing.T) {
	var help, log bytes.Buffer
	a := program.App()
	a.Stdout, a.Stderr = &help, &log
	if code := a.Run(context.Background(), []string{"help", "--markdown"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &log)
	}
	if page := require.Get(os.ReadFile(filepath.Join(root, "docs/reference/cli.md")))(t); help.String() != string(page) {
		t.Error("docs/reference/cli.md is not what the help says: run make docs")
	}
}

// pageRule says how the commands that it matches are run.
type pageRule struct {
	page, line string    // of the page, a part of its path; of the command, a regular expression
	not        string    // it is not run, and why
	instead    [2]string // text of the command that is another in the test: a smaller budget, a path
	quick      bool      // -short runs it too
	exit       int       // code that it ends with
	varies     bool      // what it prints is the machine's or the run's
	serves     bool      // it says where it listens, and Ctrl-C ends it with 0; commands behind it ask there
}

// pageRules of the commands that are shown; the first that matches counts. Without one a command is run where -short is not given,
// ends with 0, and prints what its page says.
var pageRules = []pageRule{
	{line: `^(bin/gpc-lab |lab/run |make (build|lab|run|test|wheel|python)\b)`, not: "make run and CI do"},
	{page: "your-system.md", not: "cli builds and compiles this module, and holds the page's tables"},
	{line: `--listen|gpc view`, serves: true, quick: true},
	{line: `venv|pip install|house.json|out/house`, not: "python/tests/test_pages.py runs the scripts"},
	{line: `^\./cart |^ssh|^sbatch|^srun|^kubectl|^for |^gpc compile CASE`, not: "needs a module, a cluster or a case of the reader's"},
	{line: `gpc compile cartpole`, instead: [2]string{"--budget 15m", "--rounds 1 --scenarios 4 --starts 2 --test-starts 2 --target 0.000001%"}, exit: 1, varies: true},
	{line: `eval pair cartpole --model cartpole.safetensors`, instead: [2]string{"--model cartpole.safetensors --methods direct,nmpc --episodes 100", "--methods direct,nmpc --episodes 2"}, quick: true},
	{line: `--episodes 20$`, page: "how-to/", instead: [2]string{"--episodes 20", "--episodes 1"}},
	{line: `opf (case30 --scale 3|secure case30)`, quick: true, exit: 1},
	{line: `--trace trace.jsonl|gpc (cases|opf )|^(mkdir|cp|printf|ls|echo) `, quick: true},
}

// Commands of README, tutorials and how-to pages are run in the order of their page, and print what the page shows.
func TestPagesShowWhatIsPrinted(t *testing.T) {
	self := require.Get(os.Executable())(t)
	for page, text := range require.Get(pages.Documents(root))(t) {
		if page != "README.md" && !strings.HasPrefix(page, "docs/tutorials/") && !strings.HasPrefix(page, "docs/how-to/") && page != "docs/reference/secure.md" {
			continue
		}
		commands := pages.Shown(page, text)
		if len(commands) == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(page, "/", "-"), func(t *testing.T) {
			t.Parallel()
			dir, at := sandbox(t, self), ""
			for _, c := range commands {
				if address := runShown(t, c, dir, at); address != "" {
					at = address
				}
			}
		})
	}
}

// sandbox is a folder that looks like a checkout after `make build`, to the commands of pages.
func sandbox(t *testing.T, self string) string {
	dir := t.TempDir()
	require.OK(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	require.OK(t, os.Symlink(self, filepath.Join(dir, "bin", "gpc")))
	for _, folder := range []string{"grid", "examples"} {
		require.OK(t, os.Symlink(require.Get(filepath.Abs(filepath.Join(root, folder)))(t), filepath.Join(dir, folder)))
	}
	return dir
}

// addressed is where the pages' servers listen.
var addressed = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// runShown gives the address of a command that serves; at is that of the one before.
func runShown(t *testing.T, c pages.Command, dir, at string) (address string) {
	t.Helper()
	var r pageRule
	for _, candidate := range pageRules {
		if strings.Contains(c.Page, candidate.page) && regexp.MustCompile(candidate.line).MatchString(c.Line) {
			r = candidate
			break
		}
	}
	if r.not != "" || testing.Short() && !r.quick {
		return ""
	}
	line := c.Line
	if at != "" && !r.serves {
		line = addressed.ReplaceAllString(line, at)
	}
	if r.instead[0] != "" {
		if line = strings.Replace(line, r.instead[0], r.instead[1], 1); line == c.Line {
			t.Errorf("%s: `%s` has no %q, which the test replaces", c.Page, c.Line, r.instead[0])
		}
	}
	cmd := exec.Command("bash", "-c", "set -o pipefail; "+line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	if r.serves {
		cmd.Args[2] = "exec " + addressed.ReplaceAllString(line, "127.0.0.1:0")
		return listening(t, c, cmd)
	}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != r.exit {
		t.Errorf("%s: `%s` ends with %d, not %d (%v)\n%s%s", c.Page, line, code, r.exit, err, &out, &log)
		return ""
	}
	if r.varies || r.instead[0] != "" {
		return ""
	}
	if missing := unlike(c.Printed, strings.Split(out.String()+log.String(), "\n")); missing != "" {
		t.Errorf("%s: `%s` does not print, behind the lines before it,\n%s\nbut\n%s%s", c.Page, line, missing, &out, &log)
	}
	return ""
}

// listening starts a command that serves until the test's end, and gives the address that it prints.
func listening(t *testing.T, c pages.Command, cmd *exec.Cmd) string {
	t.Helper()
	read, write, err := os.Pipe()
	require.OK(t, err)
	cmd.Stdout, cmd.Stderr = write, write
	require.OK(t, cmd.Start())
	write.Close()
	printed := bufio.NewScanner(read)
	var address string
	for address == "" && printed.Scan() {
		address = addressed.FindString(printed.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	t.Cleanup(func() {
		defer read.Close()
		require.OK(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil || address == "" {
			t.Errorf("%s: `%s` listens at %q and ends with %v", c.Page, c.Line, address, err)
		}
	})
	return address
}

// unlike is the first line of a page that is not among those printed, in their order; "" where all are.
func unlike(page, printed []string) string {
	at := 0
	for _, line := range page {
		if strings.TrimSpace(line) == "…" {
			continue
		}
		found := slices.IndexFunc(printed[at:], func(p string) bool { return alike(line, p) })
		if found < 0 {
			return line
		}
		at += found + 1
	}
	return ""
}

var (
	between = regexp.MustCompile(`[\s,:\[\]{}"]+`)
	hash    = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	took    = regexp.MustCompile(`[0-9.]+ ms\b`)
)

// alike says whether a line of a page is the printed one: its words, its numbers to 1 %, rounding residues to 1e-6. A hash or a
// time in milliseconds is any, and … stands for the rest of a line.
func alike(page, printed string) bool {
	cut := func(line string) []string {
		return between.Split(strings.TrimSpace(took.ReplaceAllString(hash.ReplaceAllString(line, "HASH"), "N ms")), -1)
	}
	want, got := cut(page), cut(printed)
	if i := slices.Index(want, "…"); i >= 0 {
		want, got = want[:i], got[:min(i, len(got))]
	}
	return slices.EqualFunc(want, got, func(a, b string) bool {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		if errX == nil && errY == nil {
			return math.Abs(x-y) <= 1e-6+0.01*math.Abs(x)
		}
		return a == b
	})
}

func TestLinesOfPagesAreHeldToWhatIsPrinted(t *testing.T) {
	printed := []string{"head  of a table", "a  1.000  took 3.1 ms", "b  2.5e-12", `{"u":[1,2],"more":3}`}
	for _, c := range []struct {
		page    []string
		missing string
	}{
		{[]string{"head of a table", "a 1.001 took 17 ms", "b 3e-9", `{"u":[1,2],…}`}, ""},
		{[]string{"head of a table", "…", `{"u":[1,2],…`}, ""},
		{[]string{"b 2e-12", "a 1.000 took 3.1 ms"}, "a 1.000 took 3.1 ms"},
		{[]string{"a 1.02 took 3.1 ms"}, "a 1.02 took 3.1 ms"},
		{[]string{"head of table"}, "head of table"},
	} {
		if got := unlike(c.page, printed); got != c.missing {
			t.Errorf("%q misses %q, not %q", c.page, got, c.missing)
		}
	}
}
