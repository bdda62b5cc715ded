package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every command has a place in the program's help and an example of its own, whose words and
// flags are taken; no topic is of a command that is gone.
func TestEveryCommandHasAnExampleThatIsTaken(t *testing.T) {
	app, _ := cart(t)
	app.Name = "gpc"
	app.Commands = []func(*App) *cobra.Command{func(*App) *cobra.Command {
		return &cobra.Command{Use: "mine", Example: "  gpc mine", RunE: func(*cobra.Command, []string) error { return nil }}
	}}
	root := app.root()
	var seen []string
	var visit func(parent *cobra.Command)
	visit = func(parent *cobra.Command) {
		for _, c := range parent.Commands() {
			path := strings.TrimPrefix(c.CommandPath(), "gpc ")
			seen = append(seen, path)
			if parent == root && !root.ContainsGroup(c.GroupID) {
				t.Errorf("%s is in the group %q", path, c.GroupID)
			}
			own := false
			for line := range strings.Lines(c.Example) {
				words := strings.Fields(line)
				if len(words) < 2 || words[0] != "gpc" || !strings.HasPrefix(line, "  gpc") {
					t.Fatalf("%s has the example %q", path, line)
				}
				of, rest, err := root.Find(words[1:])
				require.OK(t, err)
				own = own || of == c
				require.OK(t, of.ParseFlags(rest))
				if err := of.ValidateArgs(of.Flags().Args()); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
			if !own {
				t.Errorf("%s has no example of its own", path)
			}
			visit(c)
		}
	}
	visit(root)
	for path := range topics {
		if !slices.Contains(seen, path) {
			t.Errorf("there is no command %s", path)
		}
	}
	if code, help, _ := run(app, "--help"); code != 0 || !strings.Contains(help, "This program's own:\n  mine") || !strings.Contains(help, "Begin:\n") {
		t.Errorf("exit code %d, help %s", code, help)
	}
}

// The help of every command ends with its exit codes.
func TestHelpEndsWithExitCodes(t *testing.T) {
	app, _ := cart(t)
	for command, requeued := range map[string]bool{"cases": false, "train": true, "eval pair": false, "dataset merge": true} {
		_, help, _ := run(app, append(strings.Fields(command), "--help")...)
		lines := strings.Split(strings.TrimSpace(help), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "Exit codes: 0 done; 1 ") || strings.Contains(last, "; 75 ") != requeued {
			t.Errorf("%s ends with %q", command, last)
		}
	}
}

// Help keeps to the width of a terminal: its paragraphs, its lists of commands and of flags.
func TestHelpKeepsToTheWidth(t *testing.T) {
	app, _ := cart(t)
	for _, width := range []int{80, 120} {
		t.Setenv("COLUMNS", strconv.Itoa(width))
		longest := 0
		for _, command := range []string{"", "eval", "compile", "dataset", "bench", "verify"} {
			_, help, _ := run(app, append(strings.Fields(command), "--help")...)
			for line := range strings.Lines(help) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width+1 {
					t.Errorf("%s: %d columns of %d: %s", command, n, width, line)
				} else {
					longest = max(longest, n)
				}
			}
		}
		if longest < width-10 {
			t.Errorf("no line is longer than %d of %d columns", longest, width)
		}
	}
}

// A mistyped command, flag or name is answered by the one that was meant, where there is one, and
// by all of them or the way there.
func TestWhatWasMeantIsSaid(t *testing.T) {
	app, file := cart(t)
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct{ line, want string }{
		{"evla", "did you mean eval? (`gpc --help`"},
		{"complie cart", "did you mean compile?"},
		{"help evla", "did you mean eval?"},
		{"fly", "unknown command \"fly\" (`gpc --help` lists them)"},
		{"eval cart --episode 3", "did you mean --episodes? (`gpc eval --help` lists its flags)"},
		{"eval cart -episodes 3", "did you mean --episodes?"},
		{"eval pair cart --method direct", "did you mean --methods?"},
		{"eval cart --episodes ten", "eval: --episodes \"ten\": want a whole number (`gpc eval --help` lists its flags)"},
		{"eval cart --episodes 99999999999999999999", `--episodes "99999999999999999999": out of range`},
		{"cases --seed -1", `--seed "-1": want a whole number ≥ 0`},
		{"bench --batch 1,many", `--batch "1,many": want whole numbers such as 1,64`},
		{"eval cart --preference all", `--preference "all": want numbers such as 0.5,0.5`},
		{"verify run.jsonl --episode-limit 5", `--episode-limit "5": want a time such as 5ms, 10s or 1h`},
		{"compile cart --target much", "want a percentage such as 0.5%"},
		{"compile cart --target 0", "--target 0: want a percentage above 0, such as 0.5%"},
		{"verify nowhere.jsonl", "verify: nowhere.jsonl does not exist"},
		{"eval cart --episodes", "flag needs an argument: --episodes"},
		{"eval", "gpc eval takes one argument, got 0; usage: gpc eval CASE "},
		{"cases cart", "gpc cases takes no argument, got 1"},
		{"mcap run.jsonl", "gpc mcap takes 2 arguments, got 1"},
		{"methods crat", `unknown case "crat"; did you mean cart? (this program has cart)`},
		{"methods boat", `unknown case "boat" (this program has cart)`},
		{"methods cart --group basline", `--group "basline"; did you mean baseline? (want some of `},
		{"eval cart --method navigater", `has no method "navigater"; did you mean navigator? (it has navigator, `},
		{"eval cart --method refine", "did you mean refine-64?"},
		{"eval pair cart --methods navigator,", "--methods has an entry without a name"},
		{"eval pair cart --methods navigator,driect --model " + file, "did you mean direct?"},
		{"eval cart --method hold --regime paper", `case "cart" has no regimes: leave the regime "paper" out`},
		{"bench stpe", `unknown operation "stpe"; did you mean step? (want one of `},
		{"bench gemm --backend cup", `unknown backend "cup"; did you mean cpu? (want auto, cuda, cpu or ref)`},
		{"bench step --case crat", `unknown case "crat"; did you mean cart? (bench knows `},
		{"dataset cart --out " + out + " --scenarios 2 --design uniforn", `unknown weight design "uniforn"; did you mean uniform? (want one of `},
		{"dataset cart --out " + out + " --scenarios 2 --scalarization chebishev", `unknown scalarization "chebishev"; did you mean chebyshev? (want one of `},
		{"dataset cart --out " + out + " --scenarios 2 --distil direct --policy " + file + " --scalarization chebyshev", "--scalarization chebyshev and --distil exclude each other"},
		{"cases --fast", "unknown flag: --fast (`gpc cases --help` lists its flags)"},
	} {
		refused(t, app, c.want, strings.Fields(c.line)...)
	}
}

// Files that a first call gets wrong are refused by name, before any work, with what was wanted.
func TestWrongFilesAreNamed(t *testing.T) {
	app, file := cart(t)
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	require.OK(t, os.WriteFile(text, []byte("# notes\n"), 0o644))
	app.Models = os.DirFS(dir)
	for _, c := range []struct {
		line  string
		wants []string
	}{
		{"eval cart --model " + file + " --trace " + filepath.Join(dir, "none", "run.jsonl"), []string{"--trace", "the folder " + filepath.Join(dir, "none") + " does not exist"}},
		{"eval cart --model ../paper/models/integrator-convex.safetensors", []string{"../paper/models/integrator-convex.safetensors: ", `"integrator-convex"`, `"cart"`}},
		{"eval cart", []string{"case cart has no bundled map", "compile", "--model", "a method that needs none"}},
		{"front cart --model " + file + " --csv " + filepath.Join(dir, "none", "f.csv"), []string{"--csv", "the folder " + filepath.Join(dir, "none") + " does not exist"}},
		{"front cart --model " + file + " --csv " + file, []string{"--csv", "--model"}},
		{"refine cart", []string{"case cart has no bundled map: make one with compile and give its file with --model\n"}}, // and no --method
		{"verify " + text, []string{text, "is this a trace"}},
		{"refine cart --model " + file, []string{"standard input (--state FILE"}},
	} {
		code, _, log := run(app, strings.Fields(c.line)...)
		for _, want := range c.wants {
			if code != 2 || !strings.Contains(log, want) {
				t.Errorf("gpc %s: exit code %d, %s lacks %q", c.line, code, log, want)
			}
		}
	}
}

// version says what --version does.
func TestTheVersionIsACommand(t *testing.T) {
	app, _ := cart(t)
	_, want, _ := run(app, "--version")
	if code, got, log := run(app, "version"); code != 0 || got != want || want == "" {
		t.Errorf("version: %d, %q, want %q; %s", code, got, want, log)
	}
}

// full takes nothing, as a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// What does not reach standard output fails the command: a result, as text or JSON, help, and what a shell completes.
func TestAFailedWriteOfStandardOutputFailsTheCommand(t *testing.T) {
	for _, line := range []string{"version", "version --json", "cases", "--help", "eval --help", "help", "--version", "completion bash", "__complete ev"} {
		app, _ := cart(t)
		var log strings.Builder
		app.Stdout, app.Stderr = full{}, &log
		if code := app.Run(t.Context(), strings.Fields(line)); code != 1 || !strings.Contains(log.String(), "no space left") {
			t.Errorf("gpc %s: exit code %d, %q", line, code, log.String())
		}
	}
}
