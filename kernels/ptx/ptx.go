// Package ptx executes PTX, the virtual instruction set of NVIDIA's GPUs, and says what a
// program does wrong that a GPU would not tell: races, barriers that threads miss, memory and
// registers that are read unwritten, accesses out of bounds, and what shared and global
// memory cost.
//
// The central types are Module, a parsed text (Parse); Kernel, one of its entries compiled
// (Module.Kernel); and Machine, a device with memory that launches kernels. A launch that does
// something wrong returns a *Fault or a *FoundError with Findings; Counts say what it cost.
//
// An instruction passes four steps. The parser reads a statement. lowering resolves its names
// and puts called functions in place of calls. assign gives registers their places. builder
// makes an instr of it: an operation from the table semantics where it computes a register
// from registers, a function of its own otherwise. warp.execute then runs it for the 32 lanes
// of a warp, in lockstep or lane by lane. Blocks run on all cores.
//
// The rules are those of NVIDIA's document "Parallel Thread Execution ISA", version 8.2. The
// subset is what the images of this project use and some more; anything else is a
// *SyntaxError with file and line. The host is little-endian.
//
// It says nothing of time, and nothing of the machine code that a driver makes of the text.
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package ptx
