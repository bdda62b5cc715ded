package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/internal/bundled/program"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// environment makes this test's binary the program, which with the value tells closes the file
// descriptor taken when it has taken signals over.
const (
	environment = "GPC_TEST_PROGRAM"
	plain       = "plain"
	tells       = "tells"
	taken       = 3
	// patience is how long it may take to come to its end after a signal, such as 1h; "" for its own.
	patience = "GPC_TEST_PATIENCE"
)

// TestMain is the program where the environment says so, as it does for what tests start.
func TestMain(m *testing.M) {
	how := os.Getenv(environment)
	if how == "" {
		os.Setenv(environment, plain)
		os.Exit(m.Run())
	}
	a := program.App()
	if d, err := time.ParseDuration(os.Getenv(patience)); err == nil {
		a.Patience = d
	}
	a.Commands = append(a.Commands, func(*cli.App) *cobra.Command {
		// The commands are put together behind the signals.
		if how == tells {
			os.NewFile(taken, "taken").Close()
		}
		return &cobra.Command{Use: "stuck", Hidden: true, Run: func(*cobra.Command, []string) { select {} }}
	})
	os.Exit(cli.Main(a))
}

// built is the program.
func built(t testing.TB) string {
	t.Helper()
	return require.Get(os.Executable())(t)
}

// process is a program that has taken signals over, or has ended.
type process struct {
	*exec.Cmd
	log   bytes.Buffer
	ended chan struct{}
}

// begin starts a command, with a terminal at which nobody types.
func begin(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: cmd, ended: make(chan struct{})}
	in, terminal, err := os.Pipe()
	require.OK(t, err)
	ready, taken, err := os.Pipe()
	require.OK(t, err)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, environment+"="+tells)
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = in, &p.log, []*os.File{taken}
	require.OK(t, cmd.Start())
	in.Close()
	taken.Close()
	ready.Read(make([]byte, 1)) // the end of it: nothing is written
	ready.Close()
	go func() {
		_ = cmd.Wait() // its exit code says it
		terminal.Close()
		close(p.ended)
	}()
	return p
}

// code waits for its end: the exit code, -1 where a signal has ended it.
func (p *process) code() int {
	<-p.ended
	return p.ProcessState.ExitCode()
}

// insist signals it again and again until it ends.
func (p *process) insist(signals ...os.Signal) int {
	for i := 0; ; i++ {
		_ = p.Process.Signal(signals[i%len(signals)]) // it may have ended
		select {
		case <-p.ended:
			return p.code()
		case <-time.After(time.Millisecond):
		}
	}
}
