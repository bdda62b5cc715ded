package cli

import (
	"os/signal"

	"github.com/spf13/cobra"
)

// exitRequeue is the exit code of a command that a launcher is to start again as it was:
// EX_TEMPFAIL of sysexits.h.
const exitRequeue = 75

// requeueFlag adds --requeue to a command whose same command line goes on, or is repeated
// without loss; suffix says what else the flag asks for.
func requeueFlag(cmd *cobra.Command, suffix string) {
	cmd.Flags().Bool("requeue", false, "exit with code 75 if the same command can continue: after SIGTERM, SIGINT or SIGUSR1, or while another process writes the same files"+suffix)
}

// readRequeue reads --requeue where a command has it.
func (a *App) readRequeue(cmd *cobra.Command) {
	f := cmd.Flags().Lookup("requeue")
	a.requeue.Store(f != nil && f.Value.String() == "true")
	if a.requeue.Load() && a.signals != nil && len(launchers) > 0 { // Notify of no signal is of every one
		signal.Notify(a.signals, launchers...)
	}
}

// exitToContinue is the exit code of a command that may be started again as it was; otherwise is
// the one without --requeue.
func (a *App) exitToContinue(otherwise int) int {
	if a.requeue.Load() {
		return exitRequeue
	}
	return otherwise
}
