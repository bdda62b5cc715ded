package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/cpuid/v2"
	"github.com/spf13/cobra"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/version"
)

const (
	// indent is where the second column of what doctor prints begins, doctorWidth where its lines end.
	indent      = 9
	doctorWidth = 80
)

type ceilings struct {
	ISA           string  `json:"isa"`            // instruction set measured
	Threads       int     `json:"threads"`        // threads of the measurement
	GFlops        float64 `json:"gflops"`         // sustained multiply-adds, GFLOP/s
	BandwidthGBps float64 `json:"bandwidth_gb_s"` // triad over memory, GB/s
}

// cudaReport is what the machine offers for the CUDA backend.
type cudaReport struct {
	Available      bool         `json:"available"`                 // whether a device is usable
	Reason         string       `json:"reason"`                    // why not, or which is used
	Driver         string       `json:"driver,omitempty"`          // how the library is reached
	Library        string       `json:"library,omitempty"`         // its file
	Version        string       `json:"version,omitempty"`         // of the driver API
	VisibleDevices *string      `json:"visible_devices,omitempty"` // `CUDA_VISIBLE_DEVICES`, if set
	Devices        []cudaDevice `json:"devices,omitempty"`
}

type cudaDevice struct {
	engine.Device
	ISA string `json:"isa"` // such as sm_90
}

// compilerReport is what compiles the equations of systems for the CUDA backend.
type compilerReport struct {
	Available     bool          `json:"available"`               // whether there is one
	Reason        string        `json:"reason,omitempty"`        // why not
	Library       string        `json:"library,omitempty"`       // its file, or the name by which the loader found it
	Version       string        `json:"version,omitempty"`       // of CUDA
	Architectures []int         `json:"architectures,omitempty"` // compute capabilities that it compiles for, 90 for 9.0
	Cache         string        `json:"cache"`                   // folder of what was compiled
	Cached        []cachedImage `json:"cached"`                  // what lies there
}

type cachedImage struct {
	Name     string `json:"name"`     // of the equations: their case, and a hash
	Target   string `json:"target"`   // such as `sm_90.cubin`
	Compiler string `json:"compiler"` // that made it
	Bytes    int    `json:"bytes"`    // of its files
}

func reportCompiler(c engine.Compiler) compilerReport {
	r := compilerReport{Available: c.Problem == nil, Library: c.Library, Version: c.Version, Architectures: c.Architectures, Cache: c.Cache, Cached: []cachedImage{}}
	if c.Problem != nil {
		r.Reason = c.Problem.Error()
	}
	for _, w := range c.Cached {
		r.Cached = append(r.Cached, cachedImage(w))
	}
	return r
}

func (r compilerReport) print(w io.Writer) {
	says := "yes: NVRTC " + r.Version + ", " + r.Library
	if !r.Available {
		says = "no: " + r.Reason
	} else if n := len(r.Architectures); n > 0 {
		says += fmt.Sprintf(", for compute capabilities %.1f to %.1f", float64(r.Architectures[0])/10, float64(r.Architectures[n-1])/10)
	}
	fmt.Fprintf(w, "nvrtc    %s\n", wrapped(says, indent, doctorWidth))
	bytes := 0
	for _, c := range r.Cached {
		bytes += c.Bytes
	}
	fmt.Fprintf(w, "         compiled systems: %d, %.1f MiB, in %s\n", len(r.Cached), float64(bytes)/(1<<20), cmp.Or(r.Cache, "no folder: this user has none for caches"))
	for _, c := range r.Cached {
		fmt.Fprintf(w, "         %s: %s by %s\n", c.Name, c.Target, c.Compiler)
	}
}

func reportCUDA(c engine.CUDA) cudaReport {
	r := cudaReport{Driver: c.Driver, Library: c.Library, Version: c.Version}
	if c.Restricted {
		r.VisibleDevices = &c.Visible
	}
	for _, d := range c.Devices {
		r.Devices = append(r.Devices, cudaDevice{d, d.ISA()})
	}
	if c.Problem != nil {
		r.Reason = c.Problem.Error()
	} else {
		r.Available, r.Reason = true, fmt.Sprintf("device %d is usable", c.Device)
	}
	return r
}

func (r cudaReport) print(w io.Writer) {
	answer := "no"
	if r.Available {
		answer = "yes"
	}
	fmt.Fprintf(w, "cuda     %s\n", wrapped(answer+": "+r.Reason, indent, doctorWidth))
	if r.Driver != "" {
		fmt.Fprintf(w, "         %s through %s, CUDA %s\n", r.Library, r.Driver, r.Version)
	}
	if r.VisibleDevices != nil {
		fmt.Fprintf(w, "         CUDA_VISIBLE_DEVICES=%q hides and renumbers devices\n", *r.VisibleDevices)
	}
	for _, d := range r.Devices {
		fmt.Fprintf(w, "         device %d: %v\n", d.Ordinal, d.Device)
	}
}

type doctor struct {
	Version string `json:"version"` // of the program
	Commit  string `json:"commit"`  // that it was built from
	CPU     struct {
		Name         string   `json:"name"`           // as the processor says
		Features     []string `json:"features"`       // those that kernels may use
		PhysicalCore int      `json:"physical_cores"` // cores
		LogicalCore  int      `json:"logical_cores"`  // hardware threads
		L1D          int      `json:"l1d_bytes"`      // level-1 data cache
		L2           int      `json:"l2_bytes"`       // level-2 cache
		L3           int      `json:"l3_bytes"`       // level-3 cache
	} `json:"cpu"`
	CUDA     cudaReport            `json:"cuda"`
	Compiler compilerReport        `json:"compiler"` // of equations, for the CUDA backend
	Backend  string                `json:"backend"`  // that is used: cpu, cuda or ref
	ISA      string                `json:"isa"`      // instruction set of its kernels
	Threads  int                   `json:"threads"`  // that it uses
	Reason   string                `json:"reason"`   // why it was chosen
	Ceilings []ceilings            `json:"ceilings"`
	Memory   []bench.StepFootprint `json:"step_memory"`
}

func (a *App) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Show what this machine offers: CPU features, chosen kernels, CUDA, measured peak rates",
		Args:  ExactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.meter.begin("look at the machine")
			e, err := gpc.OpenEngine(a.Engine())
			if err != nil {
				return err
			}
			defer e.Close()
			d := e.About()
			r := doctor{Version: version.Version, Commit: version.Build(), Backend: d.Backend, ISA: d.ISA, Threads: d.Threads, Reason: d.Reason, Memory: bench.Footprints()}
			r.CPU.Name, r.CPU.PhysicalCore, r.CPU.LogicalCore = cpuid.CPU.BrandName, cpuid.CPU.PhysicalCores, cpuid.CPU.LogicalCores
			r.CPU.L1D, r.CPU.L2, r.CPU.L3 = cpuid.CPU.Cache.L1D, cpuid.CPU.Cache.L2, cpuid.CPU.Cache.L3
			for _, f := range []cpuid.FeatureID{cpuid.AVX, cpuid.AVX2, cpuid.FMA3, cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512BF16, cpuid.AVX512VNNI} {
				if cpuid.CPU.Supports(f) {
					r.CPU.Features = append(r.CPU.Features, f.String())
				}
			}
			r.CUDA, r.Compiler = reportCUDA(engine.ProbeCUDA()), reportCompiler(engine.ProbeCompiler())
			if d.Backend == "cuda" {
				r.Ceilings = append(r.Ceilings, ceilingsOf(e))
			}
			for _, threads := range []int{1, a.CPUThreads()} {
				if err := cmd.Context().Err(); err != nil {
					return err
				}
				c, err := measureCeilings(threads)
				if err != nil {
					return err
				}
				r.Ceilings = append(r.Ceilings, c)
				if threads == a.CPUThreads() {
					break
				}
			}
			return a.Print(r, func(w io.Writer) {
				fmt.Fprintf(w, "gpc %s (%s)\n", r.Version, r.Commit)
				cpu := fmt.Sprintf("%s: %d cores, %d threads; %s", r.CPU.Name, r.CPU.PhysicalCore, r.CPU.LogicalCore, strings.Join(r.CPU.Features, " "))
				fmt.Fprintf(w, "cpu      %s\n", wrapped(cpu, indent, doctorWidth))
				fmt.Fprintf(w, "         L1d %d KiB, L2 %d KiB, L3 %d MiB\n", r.CPU.L1D>>10, r.CPU.L2>>10, r.CPU.L3>>20)
				r.CUDA.print(w)
				r.Compiler.print(w)
				reason := strings.TrimSuffix(r.Reason, ": "+r.CUDA.Reason) // which stands above
				fmt.Fprintf(w, "backend  %s\n", wrapped(fmt.Sprintf("%s (%s, %d threads): %s", r.Backend, r.ISA, r.Threads, reason), indent, doctorWidth))
				for _, c := range r.Ceilings {
					fmt.Fprintf(w, "ceiling  %s, %d threads: %.0f GFLOP/s of multiply-adds, %.1f GB/s triad\n", c.ISA, c.Threads, c.GFlops, c.BandwidthGBps)
				}
				for _, m := range r.Memory {
					fmt.Fprintf(w, "memory   step of %s: weights %.2f MiB + %d bytes per latent of the batch\n", m.Case, float64(m.WeightBytes)/(1<<20), m.BytesPerLatent)
				}
			})
		},
	}
}

func ceilingsOf(e *gpc.Engine) ceilings {
	flops, bandwidth := e.Ceiling()
	return ceilings{ISA: e.About().ISA, Threads: e.About().Threads, GFlops: flops / 1e9, BandwidthGBps: bandwidth / 1e9}
}

func measureCeilings(threads int) (ceilings, error) {
	e, err := gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: threads})
	if err != nil {
		return ceilings{}, err
	}
	defer e.Close()
	return ceilingsOf(e), nil
}
