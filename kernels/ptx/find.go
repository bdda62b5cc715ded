package ptx

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Kind is a kind of finding.
type Kind string

// Kinds of findings. Faults end the launch: there is nothing to go on with.
const (
	FaultBounds     Kind = "out of bounds"
	FaultMisaligned Kind = "misaligned access"
	FaultDivergence Kind = "lanes that never meet"
	FaultBarrier    Kind = "barrier never passed"
	FaultTrap       Kind = "trap"

	FindRegister  Kind = "register read unwritten"
	FindUnwritten Kind = "memory read unwritten"
	FindRace      Kind = "race"
	FindBarrier   Kind = "barrier missed"
	FindShuffle   Kind = "shuffle of a missing lane"
	FindDivision  Kind = "division by zero"
)

// Finding is a fault of a program, at its first location.
type Finding struct {
	Location
	Kind   Kind
	Kernel string
	Op     string
	Block  [3]int
	Thread int
	What   string
	Times  int // in how many instructions of warps; a fault: 1
}

// Location is a line of a PTX text.
type Location struct {
	File   string
	Line   int
	Source string // file and line that .loc names; "" without
}

func (p Location) String() string {
	s := fmt.Sprintf("%s:%d", p.File, p.Line)
	if p.Source != "" {
		s += " (" + p.Source + ")"
	}
	return s
}

func (f Finding) String() string {
	times := ""
	if f.Times > 1 {
		times = fmt.Sprintf(", and %d times more", f.Times-1)
	}
	return fmt.Sprintf("%s: %v: kernel %s, block %v, thread %d: %s: %s%s", f.Kind, f.Location, f.Kernel, f.Block, f.Thread, f.Op, f.What, times)
}

// Fault is a finding that ended a launch.
type Fault struct{ Finding Finding }

func (f *Fault) Error() string { return f.Finding.String() }

// FoundError says what a launch that ran to its end did wrong.
type FoundError struct{ Findings []Finding }

func (e *FoundError) Error() string {
	var lines []string
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// Findings lists what the machine found so far, each place and kind once.
func (m *Machine) Findings() []Finding { return slices.Clone(m.findings.list) }

// Forget drops what the machine found and counted.
func (m *Machine) Forget() {
	m.findings, m.counts = findings{}, map[string]*Counts{}
}

// findings are what was found, each kind at each place once.
type findings struct {
	list  []Finding
	index map[string]int
}

func (s *findings) add(f Finding) {
	key := fmt.Sprint(f.Kind, f.Kernel, f.File, f.Line)
	if i, ok := s.index[key]; ok {
		s.list[i].Times += f.Times
		return
	}
	if s.index == nil {
		s.index = map[string]int{}
	}
	s.index[key] = len(s.list)
	s.list = append(s.list, f)
}

// finding describes what lanes of a warp do wrong where the warp stands.
func (w *warp) finding(kind Kind, mask uint32, text string) Finding {
	instruction := &w.kernel.code[w.pc]
	return Finding{Location: w.kernel.location(instruction), Kind: kind, Kernel: w.kernel.Name, Op: instruction.op,
		Block: w.block.index, Thread: 32*w.index + bits.TrailingZeros32(mask)&31, What: text, Times: 1}
}

func (k *Kernel) location(instruction *instr) Location {
	p := Location{File: k.Module.Name, Line: int(instruction.line)}
	if instruction.source.line > 0 {
		p.Source = fmt.Sprintf("%s:%d", k.Module.files[instruction.source.file], instruction.source.line)
	}
	return p
}

// find lists a finding and goes on.
func (w *warp) find(kind Kind, mask uint32, text string) {
	w.run.mutex.Lock()
	defer w.run.mutex.Unlock()
	w.run.findings.add(w.finding(kind, mask, text))
}

// fail ends the launch.
func (w *warp) fail(kind Kind, mask uint32, text string) {
	panic(&Fault{w.finding(kind, mask, text)})
}
