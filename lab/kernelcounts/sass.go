package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpc-engine/gpc/kernels/images"
)

// disassembler finds nvdisasm of its wheel, unpacked in build/nvdisasm of the module
// or of the engine.
func disassembler(m images.Module) (string, error) {
	for _, root := range []string{m.Root, m.Engine} {
		tools, err := filepath.Glob(filepath.Join(root, "build", "nvdisasm", "nvidia", "*", "bin", "nvdisasm"))
		if err != nil {
			return "", err
		}
		if len(tools) > 0 {
			return tools[0], nil
		}
	}
	return "", fmt.Errorf("no disassembler in %s: run lab/run nvdisasm", filepath.Join(m.Root, "build", "nvdisasm"))
}

// kernelCode is one entry point as the device runs it.
type kernelCode struct {
	name         string
	instructions []instruction
	registers    int
	threads      int // of a block, by __launch_bounds__
	shared       int // static, bytes
}

// instruction is one line of the disassembly.
type instruction struct {
	offset int    // byte offset in the kernel
	name   string // with its modifiers: LDS.128
	target int    // of a branch, −1: none or not within the kernel
}

// isOneOf reports whether the operation, without modifiers, is one of the names.
func (i instruction) isOneOf(names ...string) bool {
	operation, _, _ := strings.Cut(i.name, ".")
	return slices.Contains(names, operation)
}

// width is the bytes a lane that a load or store moves.
func (i instruction) width() int {
	for _, part := range strings.Split(i.name, ".")[1:] {
		switch part {
		case "64":
			return 8
		case "128":
			return 16
		}
	}
	return 4
}

// disassemble gives the kernels of a cubin.
func disassemble(tool string, cubin []byte) ([]kernelCode, error) {
	file, err := os.CreateTemp("", "gpc-*.cubin")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(cubin)
	if err = cmp.Or(err, file.Close()); err != nil {
		return nil, err
	}
	out, err := exec.Command(tool, "-c", file.Name()).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s: %w\n%s", tool, err, exit.Stderr)
	} else if err != nil {
		return nil, err
	}
	kernels, err := parseSASS(string(out))
	if err != nil {
		return nil, err
	}
	return kernels, describeKernels(kernels, cubin)
}

var (
	sassSection = regexp.MustCompile(`^\s*\.section\s+(\S+?),`)
	sassLabel   = regexp.MustCompile(`^\s*(\.L_\w+):`)
	sassLine    = regexp.MustCompile(`^\s*/\*([0-9a-f]+)\*/\s+(.*?)\s*;`)
	sassTarget  = regexp.MustCompile("`\\((\\.L_\\w+)\\)")
)

// parseSASS reads what nvdisasm -c prints.
func parseSASS(text string) ([]kernelCode, error) {
	var kernels []kernelCode
	var labels map[string]int
	var pending []string      // labels that stand before the next instruction
	jumps := map[int]string{} // of the kernel being read: instruction → label
	inBody := false
	finish := func() {
		if !inBody {
			return
		}
		k := &kernels[len(kernels)-1]
		for i, label := range jumps {
			if offset, ok := labels[label]; ok {
				k.instructions[i].target = offset
			}
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if m := sassSection.FindStringSubmatch(line); m != nil {
			finish()
			name, ok := strings.CutPrefix(m[1], ".text.")
			if inBody = ok; ok {
				kernels = append(kernels, kernelCode{name: name})
				labels, pending = map[string]int{}, nil
				clear(jumps)
			}
			continue
		}
		if !inBody {
			continue
		}
		if m := sassLabel.FindStringSubmatch(line); m != nil {
			pending = append(pending, m[1])
			continue
		}
		m := sassLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		offset, err := strconv.ParseInt(m[1], 16, 32)
		if err != nil {
			return nil, err
		}
		for _, label := range pending {
			labels[label] = int(offset)
		}
		pending = nil
		k := &kernels[len(kernels)-1]
		words := strings.Fields(m[2])
		if len(words) > 1 && strings.HasPrefix(words[0], "@") {
			words = words[1:]
		}
		if len(words) == 0 {
			return nil, fmt.Errorf("%s: an empty instruction at %#x", k.name, offset)
		}
		i := instruction{offset: int(offset), name: words[0], target: -1}
		if i.isOneOf("BRA") {
			if t := sassTarget.FindStringSubmatch(m[2]); t != nil {
				jumps[len(k.instructions)] = t[1]
			}
		}
		k.instructions = append(k.instructions, i)
	}
	finish()
	if len(kernels) == 0 {
		return nil, fmt.Errorf("the disassembler printed no kernel")
	}
	return kernels, nil
}

// Attributes of the sections .nv.info and .nv.info.KERNEL: format, number, then two
// bytes of value or, with the last format, of the size of what follows.
const (
	formatSized         = 4
	attributeMaxThreads = 0x05
	attributeRegisters  = 0x2f // number of the symbol, registers
)

// reservedShared is what a cubin for sm_90 counts as a kernel's own shared memory and
// every block has.
const reservedShared = 1 << 10

// describeKernels adds what the cubin says beside its instructions.
func describeKernels(kernels []kernelCode, cubin []byte) error {
	// A cubin tells the version of CUDA where ELF has its own, 1.
	header := bytes.Clone(cubin)
	if len(header) >= 24 {
		binary.LittleEndian.PutUint32(header[20:], 1)
	}
	file, err := elf.NewFile(bytes.NewReader(header))
	if err != nil {
		return fmt.Errorf("a cubin: %w", err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		return fmt.Errorf("a cubin: %w", err)
	}
	registers := map[string]int{}
	err = attributes(file, ".nv.info", func(number byte, words []uint32) {
		if number == attributeRegisters && len(words) == 2 && words[0] > 0 && int(words[0]) <= len(symbols) {
			registers[symbols[words[0]-1].Name] = int(words[1])
		}
	})
	for i := range kernels {
		k := &kernels[i]
		if k.registers = registers[k.name]; k.registers == 0 {
			return fmt.Errorf("a cubin does not tell the registers of %s", k.name)
		}
		if s := file.Section(".nv.shared." + k.name); s != nil {
			k.shared = max(0, int(s.Size)-reservedShared)
		}
		err = cmp.Or(err, attributes(file, ".nv.info."+k.name, func(number byte, words []uint32) {
			if number == attributeMaxThreads && len(words) > 0 {
				k.threads = int(words[0])
			}
		}))
	}
	return err
}

// attributes calls f for each attribute with a value of words.
func attributes(file *elf.File, section string, f func(number byte, words []uint32)) error {
	info := file.Section(section)
	if info == nil {
		return nil
	}
	data, err := info.Data()
	for err == nil && len(data) >= 4 {
		size := 0
		if data[0] == formatSized {
			size = int(binary.LittleEndian.Uint16(data[2:]))
		}
		if 4+size > len(data) {
			return fmt.Errorf("a cubin's %s ends within an attribute", section)
		}
		words := make([]uint32, size/4)
		for i := range words {
			words[i] = binary.LittleEndian.Uint32(data[4+4*i:])
		}
		f(data[1], words)
		data = data[4+size:]
	}
	return err
}

// loop is the instructions of a loop that lie in no loop within it.
type loop struct {
	from, to     int // byte offsets
	instructions []instruction
}

// loops finds the loops of a kernel by its backward branches.
func (k kernelCode) loops() []loop {
	var all []loop
	for _, i := range k.instructions {
		if i.target < 0 || i.target >= i.offset { // a branch to itself pads the kernel's end
			continue
		}
		// Two branches back to one place are one loop.
		if n := slices.IndexFunc(all, func(l loop) bool { return l.from == i.target }); n >= 0 {
			all[n].to = max(all[n].to, i.offset)
			continue
		}
		all = append(all, loop{from: i.target, to: i.offset})
	}
	for n := range all {
		l := &all[n]
		for _, i := range k.instructions {
			if i.offset < l.from || i.offset > l.to {
				continue
			}
			inner := slices.ContainsFunc(all, func(o loop) bool {
				return o.from >= l.from && o.to <= l.to && o.to-o.from < l.to-l.from && i.offset >= o.from && i.offset <= o.to
			})
			if !inner {
				l.instructions = append(l.instructions, i)
			}
		}
	}
	slices.SortFunc(all, func(a, b loop) int { return a.from - b.from })
	return all
}
