// Package ptx executes PTX, the virtual instruction set of NVIDIA's GPUs, and says what a
// program does wrong that a GPU would not tell: races, barriers that threads miss, memory and
// registers that are read unwritten, accesses out of bounds, and what shared and global
// memory cost.
//
// The central types are Module, a parsed text, and Machine, a device that launches its
// kernels. A warp executes in lockstep or lane by lane, its blocks on all cores. What an
// instruction means is NVIDIA's document "Parallel Thread Execution ISA", version 8.2; the
// subset is what the images of this project use and some more, and what is beyond it is an
// error with file and line.
//
// It says nothing of time, and nothing of the machine code that a driver makes of the text.
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package ptx
