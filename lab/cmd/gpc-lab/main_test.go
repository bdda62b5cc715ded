package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// environment makes this test's binary the program.
const environment = "GPC_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(environment) == "" {
		os.Setenv(environment, "1")
		os.Exit(m.Run())
	}
	os.Exit(cli.Main(app()))
}

// The laboratory's commands that pages show are commands of the program and have the flags that they are shown with.
func TestCommandsOfPagesAreThoseOfTheProgram(t *testing.T) {
	a := app()
	help := pages.Help(func(arguments []string) (int, string) {
		var out bytes.Buffer
		a.Stdout, a.Stderr = &out, &out
		return a.Run(context.Background(), arguments), out.String()
	})
	checked := 0
	for _, c := range require.Get(pages.Commands("../../.."))(t) {
		if filepath.Base(strings.Fields(c.Line)[0]) != "gpc-lab" {
			continue
		}
		checked++
		for _, unknown := range c.Unknown(help) {
			t.Errorf("%s: `%s`: %s", c.Page, c.Line, unknown)
		}
	}
	if checked < 8 {
		t.Errorf("%d commands were found", checked)
	}
}

// A signal ends every command of the laboratory, whatever it does or waits for.
func TestASignalEndsEveryCommand(t *testing.T) {
	results := require.Get(filepath.Abs("../../results"))(t)
	dir := t.TempDir()
	for _, name := range []string{"silent", "silent-too"} {
		require.OK(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600)) // opening it waits for a writer
	}
	for i, line := range []string{
		"certify opf30 --scenarios 1000", "certify integrator-convex --scenarios 1000", "demo --out demo", "report --results " + results + " --out report", "compare silent silent-too",
	} {
		t.Run(line, func(t *testing.T) {
			code, log := 0, ""
			// It may be done before it hears the signal, or hear it before it takes signals over.
			for try := 0; try < 20 && (code == 0 || code == -1); try++ {
				code, log = signalled(t, dir, line, []os.Signal{os.Interrupt, syscall.SIGTERM}[i%2])
			}
			if code != 1 || !strings.Contains(log, "interrupted") {
				t.Errorf("exit code %d: %s", code, log)
			}
		})
	}
}

// signalled is the exit code of a command that is signalled amid its work, −1 where the signal itself ended it, and what it said.
func signalled(t *testing.T, dir, line string, signal os.Signal) (code int, log string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(require.Get(os.Executable())(t), strings.Fields(line)...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	require.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its exit code says it
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(200 * time.Millisecond):
		_ = cmd.Process.Signal(signal) // it may have ended
	}
	<-ended
	return cmd.ProcessState.ExitCode(), stderr.String()
}
