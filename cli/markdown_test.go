package cli

import (
	"strings"
	"testing"
)

// The page of commands has a section of each, with its options, their defaults and ranges, its example and its exit codes.
func TestThePageOfCommandsHasAllOfThem(t *testing.T) {
	app, _ := cart(t)
	code, page, log := run(app, "help", "--markdown")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(page, "\n### ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[strings.Trim(title, "`")] = text
	}
	for name, c := range commands(app) {
		text := sections["gpc "+name]
		if c.GroupID == "help" || c.Parent().GroupID == "help" {
			continue
		}
		for _, want := range []string{"gpc " + name, "```console\n$ gpc ", "\n" + escaped(exitCodesOf(c)) + ".\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("the section of %s lacks %q:\n%s", name, want, text)
			}
		}
	}
	for section, row := range map[string]string{
		"gpc steer":         "| `--divisions int` | `20` | 1 to 1000 | divisions of the simplex's edge |\n",
		"gpc serve":         "| `--waiting N\\|measured` |",
		"gpc refine":        "| `--within duration` | `0s` | 0 to 1h0m0s | ",
		"gpc dataset merge": "75 run it again (`--requeue`).\n",
	} {
		if !strings.Contains(sections[section], row) {
			t.Errorf("the section of %s lacks %q:\n%s", section, row, sections[section])
		}
	}
	if !strings.Contains(page, "\n## Options of every command\n\n| option | default | range | meaning |\n") || !strings.Contains(page, "| `--threads int` | `0` | 0 to 1024 | ") {
		t.Error("the page lacks the options of every command")
	}
	refused(t, app, "--markdown writes the help of all commands: leave eval out", "help", "eval", "--markdown")
}

// A long text stands as paragraphs of one line, with its lists as they are.
func TestLongTextsAreParagraphsAndBlocks(t *testing.T) {
	if got, want := prose("One\ntwo --flag.\n\n  a  list\n  of <two>\n\nThree*."), "\nOne two `--flag`.\n\n```text\n  a  list\n  of <two>\n```\n\nThree\\*.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
