package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/offline"
	"github.com/gpc-engine/gpc/serve"
)

// printed is what each command prints with --json.
var printed = map[string]any{
	"new": begun{}, "cases": listed{}, "methods": methods{}, "doctor": doctor{},
	"dataset": offline.Counters{}, "dataset merge": merged{}, "train": trained{}, "compile": compile.Report{}, "refine": batchnav.Refinement{},
	"eval": closedloop.Result{}, "eval join": closedloop.Result{}, "eval pair": closedloop.Pairing{}, "eval compare": report.Compared{},
	"verify": closedloop.Verification{}, "certify": batchnav.Certified{}, "steer": closedloop.Steering{}, "export": export.Result{}, "system": writtenSystem{},
	"scene": written{}, "mcap": gpc.Recorded{},
	"serve": serve.Answer{}, "plant": closedloop.Result{}, "view": viewed{}, "bench": bench.Record{}, "bench compare": bench.Comparison{}, "bench deadline": bench.Deadlines{}, "bench scaling": bench.Scaling{}, "report": drawn{}, "demo": demonstration{},
}

// TestEveryJSONKeyIsDocumented: docs/reference/json.md has every key that a command prints, and none
// besides. Those of pf and opf are held by domains/opf/command.
func TestEveryJSONKeyIsDocumented(t *testing.T) {
	page := require.Get(pages.ReadKeys("../docs/reference/json.md"))(t)
	page.Hold(t, printed)
	app, _ := cart(t)
	var walk func(c *cobra.Command, path string)
	var commands []string
	walk = func(c *cobra.Command, path string) {
		for _, sub := range c.Commands() {
			name := path + sub.Name()
			if walk(sub, name+" "); sub.RunE != nil {
				commands = append(commands, name)
			}
		}
	}
	walk(app.root(), "")
	for _, c := range commands {
		if printed[c] == nil {
			t.Errorf("%s is a command whose JSON is not listed here", c)
		}
	}
	for c := range printed {
		if !slices.Contains(commands, c) {
			t.Errorf("%s is listed here and no command", c)
		}
	}
	for c := range page {
		command, _, _ := strings.Cut(c, " ")
		if _, ok := printed[c]; !ok && command != "pf" && command != "opf" && !slices.Contains(page.Objects(), c) {
			t.Errorf("docs/reference/json.md has a section for %s, which is no command and no object that one refers to", c)
		}
	}
}

// The backend is named in one line; of a GPU it speaks where there is one, or a driver that
// gives none.
func TestTheBackendIsNamedInOneLine(t *testing.T) {
	about := gpc.About{Backend: "cpu", ISA: "avx2", Threads: 2, Reason: "auto: the CPU, because CUDA is not to be had: device 0 is old\ndevice 1 is older"}
	if got := backendLine(about, false); got != "backend cpu (avx2, 2 threads)" {
		t.Errorf("without a driver: %q", got)
	}
	if got := backendLine(about, true); strings.Contains(got, "\n") || !strings.HasSuffix(got, "device 0 is old; device 1 is older") {
		t.Errorf("with a driver: %q", got)
	}
	about.Backend = "cuda"
	if got := backendLine(about, false); !strings.Contains(got, "CUDA") {
		t.Errorf("on a GPU: %q", got)
	}
}

// A trace alone is a report: the case draws its episodes, or its time lines stand for them.
func TestATraceBecomesAReport(t *testing.T) {
	app, file := cart(t)
	runs, out := t.TempDir(), filepath.Join(t.TempDir(), "report")
	if code, _, log := run(app, "eval", "cart", "--method", "direct", "--episodes", "1", "--model", file, "--trace", filepath.Join(runs, "cart.jsonl")); code != 0 {
		t.Fatalf("eval: exit code %d: %s", code, log)
	}
	code, text, log := run(app, "report", "--results", runs, "--out", out)
	if code != 0 || !strings.Contains(text, "cart-direct-motion.svg") || !strings.Contains(text, "report.html") {
		t.Fatalf("report: exit code %d: %s%s", code, text, log)
	}
	info := require.Get(os.Stat(filepath.Join(out, "figures", "cart-direct-motion.svg")))(t)
	if info.Size() == 0 || info.Size() > 1<<20 {
		t.Errorf("the animation has %d bytes", info.Size())
	}
}
