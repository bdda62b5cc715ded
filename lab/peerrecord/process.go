package peerrecord

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is a peer that runs beside this program and answers each line that it is asked with a line.
type Process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// StartProcess starts a command, whose standard error is this program's; more is added to its environment.
func StartProcess(more []string, name string, args ...string) (*Process, error) {
	p := &Process{command: exec.Command(name, args...)}
	p.command.Stderr, p.command.Env = os.Stderr, append(os.Environ(), more...)
	var err error
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	return p, p.command.Start()
}

// Ask writes a line and reads the answer.
func (p *Process) Ask(line string) (string, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return "", fmt.Errorf("the peer has ended: %w", err)
	}
	return p.Next()
}

// Next is a line that is not asked for.
func (p *Process) Next() (string, error) {
	if !p.out.Scan() {
		return "", fmt.Errorf("the peer has ended: %v", p.command.Wait())
	}
	return p.out.Text(), nil
}

// End lets the process end.
func (p *Process) End() error {
	if err := p.in.Close(); err != nil {
		return err
	}
	return p.command.Wait()
}
