// Command kernelcounts writes instructions, registers, occupancy and products of every kernel, from the committed
// cubins, into docs/contribute/notebook/cuda-kernels.md. It needs the disassembler, in build/nvdisasm (lab/run nvdisasm).
package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/kernels/images"
)

// What a multiprocessor of sm_90 has (NVIDIA, CUDA C++ Programming Guide, compute
// capability 9.0; H100 architecture white paper), in cycles of all its four parts.
const (
	mostThreads   = 2048
	mostBlocks    = 32
	registerFile  = 65536
	registerUnit  = 256 // a warp's registers are given out in
	sharedMemory  = 228 << 10
	sharedReserve = 1 << 10 // of each block
	sharedUnit    = 128
	issued        = 4    // warp instructions a cycle
	fmaIssued     = 4    // of them FFMA
	tensorFMA     = 1024 // multiply-adds of TF32 a cycle
	hmmaFMA       = 16 * 8 * 8
)

// Product loops are counted for so many operations of a warp.
const (
	perFFMA = 32
	perHMMA = 16
)

// dynamicShared is the dynamic shared memory of a launch at OPF size (n_z 32, width 256,
// k 3 eigenpairs, 32 neighbours): what kernels/pack.go, eig.go and index.go ask for.
var dynamicShared = map[string]int{
	"gpc_mlp_forward_32": 106496, "gpc_mlp_forward_32_tf32": 106496, "gpc_mlp_forward_32_tf32x3": 106496, "gpc_mlp_bent_32": 106496, "gpc_mlp_bent_32_tf32": 106496,
	"gpc_mlp_vjp_32": 106496, "gpc_mlp_vjp_32_tf32": 106496,
	"gpc_mlp_forward_1": 6176, "gpc_mlp_vjp_1": 6176, "gpc_one_forward": 6176, "gpc_one_decode": 6176, "gpc_one_jacobian_16": 17920, "gpc_one_jacobian_32": 17920,
	"gpc_mlp_forward_8": 49152, "gpc_mlp_bent_8": 49152, "gpc_mlp_vjp_8": 49152,
	"gpc_jacobian_8": 50688, "gpc_jacobian_16": 75264, "gpc_jacobian_16_tf32": 25600, "gpc_jacobian_32": 108032, "gpc_jacobian_32_tf32": 41984, "gpc_jacobian_64": 173568,
	"gpc_eig_32": 4 * 6304, "gpc_eig": 7408,
}

// launchThreads are the threads of a block at that size, where a kernel is launched with
// fewer than it is compiled for.
var launchThreads = map[string]int{"gpc_jacobian_16_tf32": 128, "gpc_jacobian_32_tf32": 128}

// blocksOf is how many blocks of a kernel a multiprocessor holds.
func blocksOf(k kernelCode, dynamic int) int {
	if k.threads == 0 {
		return 0
	}
	up := func(n, unit int) int { return (n + unit - 1) / unit * unit }
	warps := (k.threads + 31) / 32
	blocks := min(mostBlocks, mostThreads/(32*warps))
	if k.registers > 0 {
		blocks = min(blocks, registerFile/(up(32*k.registers, registerUnit)*warps))
	}
	return min(blocks, sharedMemory/(up(k.shared+dynamic, sharedUnit)+sharedReserve))
}

// access counts shared-memory instructions by the bytes of a lane, 4, 8 and 16.
type access [3]int

func (a *access) add(width int) {
	a[map[int]int{4: 0, 8: 1, 16: 2}[width]]++
}

func (a access) String() string { return fmt.Sprintf("%d/%d/%d", a[0], a[1], a[2]) }

// requests are the cycles that so many reads take at least and, without a bank
// conflict, at most: a request moves 128 bytes, and wider reads of a warp need half
// as many where neighbouring lanes read the same address (include/banks.cuh).
func (a access) requests() (least, most int) {
	return a[0] + a[1] + 2*a[2], a[0] + 2*a[1] + 4*a[2]
}

// product is straight code inside a loop that multiplies: what a warp does there.
type product struct {
	offset             int
	instructions       int // of the straight code
	overhead           int // of the loop beside its products, once a round
	ffma, hmma         int
	loads              access
	stores             access // of the loop, around
	global, conversion int
}

// products finds straight code with many multiply-adds in the loops of a kernel.
func (k kernelCode) products() []product {
	begins := map[int]bool{}
	for _, i := range k.instructions {
		if i.target >= 0 {
			begins[i.target] = true
		}
	}
	var all []product
	for _, l := range k.loops() {
		var list []product
		var block product
		var rest product
		// Tensor cores' products are all of a loop: what stands between them is for them.
		tensor := slices.ContainsFunc(l.instructions, func(i instruction) bool { return i.isOneOf("HMMA") })
		finish := func() {
			if block.ffma >= perFFMA && 2*block.ffma >= block.instructions || block.hmma > 0 {
				list = append(list, block)
			} else {
				rest.instructions += block.instructions
				for w := range rest.stores {
					rest.stores[w] += block.stores[w]
				}
			}
			block = product{}
		}
		last := -1
		for _, i := range l.instructions {
			if !tensor && (begins[i.offset] || last >= 0 && i.offset-last > 16) {
				finish()
			}
			last = i.offset
			if block.instructions == 0 {
				block.offset = i.offset
			}
			block.instructions++
			switch {
			case i.isOneOf("FFMA"):
				block.ffma++
			case i.isOneOf("HMMA"):
				block.hmma++
			case i.isOneOf("LDS", "LDSM"):
				block.loads.add(i.width())
			case i.isOneOf("STS"):
				block.stores.add(i.width())
			case i.isOneOf("LDG"):
				block.global++
			case i.isOneOf("F2F", "F2FP", "F2I"):
				block.conversion++
			}
			if !tensor && i.isOneOf("BRA", "BRX", "EXIT", "RET", "CALL", "BSYNC", "BREAK") {
				finish()
			}
		}
		finish()
		for _, p := range list {
			p.overhead = rest.instructions
			for w := range p.stores {
				p.stores[w] += rest.stores[w]
			}
			all = append(all, p)
		}
	}
	return all
}

// productLimits are cycles of a multiprocessor for unit FFMA or HMMA of a warp, by what bounds them. Least and most are of the
// requests to shared memory.
type productLimits struct{ unit, arithmetic, issue, least, most float64 }

// limits are the cycles of a multiprocessor for perFFMA FFMA or perHMMA HMMA of a warp.
func (p product) limits() (l productLimits) {
	count := float64(p.ffma)
	l.unit = perFFMA
	l.arithmetic = l.unit / fmaIssued
	if p.hmma > 0 {
		count = float64(p.hmma)
		l.unit = perHMMA
		l.arithmetic = l.unit * hmmaFMA / tensorFMA
	}
	low, high := p.loads.requests()
	l.issue = float64(p.instructions+p.overhead) * l.unit / count / issued
	l.least, l.most = float64(low)*l.unit/count, float64(high)*l.unit/count
	return l
}

const (
	countsBegin = "<!-- counts: written by go run ./lab/kernelcounts -->"
	countsEnd   = "<!-- end of counts -->"
	countsPage  = "docs/contribute/notebook/cuda-kernels.md"
)

func main() {
	m, err := images.Find(".")
	if err == nil {
		err = count(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// count writes the counts of every committed cubin into the page of the kernels, or
// prints them where the page has no place for them.
func count(m images.Module) error {
	tool, err := disassembler(m)
	if err != nil {
		return err
	}
	folders, err := m.Folders()
	if err != nil {
		return err
	}
	var kernels []kernelCode
	for _, folder := range folders {
		dir := m.Images(folder)
		manifest, err := images.ReadManifest(dir)
		if err != nil {
			return err
		}
		for _, entry := range manifest.Images {
			blob, err := os.ReadFile(filepath.Join(dir, images.FileName(entry.Name, "sm_90.cubin")))
			if err != nil {
				return err
			}
			cubin, err := images.Unpack(blob)
			if err != nil {
				return err
			}
			disassembled, err := disassemble(tool, cubin)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", folder, entry.Name, err)
			}
			kernels = append(kernels, disassembled...)
		}
	}
	text := countsText(kernels)
	page := filepath.Join(m.Root, countsPage)
	old, err := os.ReadFile(page)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(countsBegin))
	_, after, closed := bytes.Cut(rest, []byte(countsEnd))
	if !ok || !closed {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return durable.WriteFile(page, slices.Concat(before, []byte(countsBegin+"\n"+text+countsEnd), after), 0o644)
}

// countsText is the two tables: kernels, and the products within.
func countsText(kernels []kernelCode) string {
	slices.SortFunc(kernels, func(a, b kernelCode) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	b.WriteString("\n| kernel | instructions | registers | spills | shared, KiB | threads | blocks/SM |\n|---|---|---|---|---|---|---|\n")
	for _, k := range kernels {
		spills := 0
		for _, i := range k.instructions {
			if i.isOneOf("LDL", "STL") {
				spills++
			}
		}
		dynamic := dynamicShared[k.name]
		k.threads = cmp.Or(launchThreads[k.name], k.threads)
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d | %.1f | %d | %d |\n", k.name, len(k.instructions), k.registers, spills, float64(k.shared+dynamic)/1024, k.threads, blocksOf(k, dynamic))
	}
	listed := map[string]bool{} // copies of one product by the compiler
	b.WriteString("\n| product in | FFMA | HMMA | instructions, + around | LDS 4/8/16 B | STS | per 32 FFMA or 16 HMMA: instructions | requests | cycles: multiply, issue, shared | bound | share |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range kernels {
		if strings.HasPrefix(k.name, "gpc_eig") {
			continue // a reduction's updates, unrolled
		}
		for _, p := range k.products() {
			l := p.limits()
			bounds := map[string]float64{"multiply": l.arithmetic, "issue": l.issue, "shared": l.least}
			bound := slices.MaxFunc(slices.Sorted(maps.Keys(bounds)), func(a, b string) int {
				switch d := bounds[a] - bounds[b]; {
				case d < 0:
					return -1
				case d > 0:
					return 1
				}
				return 0
			})
			ops := p.ffma + p.hmma
			row := fmt.Sprintf("| `%s` | %d | %d | %d + %d | %v | %v | %.0f | %.1f to %.1f | %.0f, %.1f, %.1f | %s | %.0f %% |\n", k.name, p.ffma, p.hmma, p.instructions, p.overhead,
				p.loads, p.stores, float64(p.instructions+p.overhead)*l.unit/float64(ops), l.least, l.most, l.arithmetic, l.issue, l.least, bound, 100*l.arithmetic/bounds[bound])
			if !listed[row] {
				b.WriteString(row)
			}
			listed[row] = true
		}
	}
	return b.String()
}
