package engine

import (
	"errors"
	"fmt"
	"os"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// findDriver opens the driver library; tests give the host shim.
var findDriver = func() (driver.Driver, error) { return driver.Find("") }

// Device is one GPU.
type Device = driver.Device

// CUDA is what this machine offers.
type CUDA struct {
	Driver  string // implementation: "purego" or "gorgonia.org/cu"; "" when there is no driver
	Library string // the file
	Version string // of the driver API, "12.4"
	// Visible is CUDA_VISIBLE_DEVICES, by which the driver hides and renumbers
	// devices; Restricted tells whether it is set.
	Visible    string
	Restricted bool
	Devices    []Device
	Device     int   // the first usable one; −1 for none
	Problem    error // why no device is usable; nil when one is
}

// ProbeCUDA looks for a driver and devices, without opening a context.
func ProbeCUDA() CUDA {
	c, _ := probe()
	return c
}

// Compiler is what compiles the equations of systems for GPUs, and what it left in the user's cache.
type Compiler struct {
	kernels.Compiler
	Cache   string // the folder
	Cached  []kernels.Written
	Problem error // why there is no compiler; nil when there is one
}

// ProbeCompiler looks for the compiler as a CUDA backend does, for the driver that the machine has, if it has one.
func ProbeCompiler() (c Compiler) {
	version := 0
	if d, err := findDriver(); err == nil {
		version, _ = d.Version() // one that does not tell has no GPU to compile for
	}
	c.Compiler, c.Problem = kernels.FindCompiler(version)
	if folder, err := kernels.WrittenCache(); err == nil {
		c.Cache = folder
		c.Cached, _ = kernels.WrittenImages() // the same error
	}
	return c
}

func probe() (CUDA, driver.Driver) {
	c := CUDA{Device: -1}
	c.Visible, c.Restricted = os.LookupEnv("CUDA_VISIBLE_DEVICES")
	d, err := findDriver()
	if err != nil {
		c.Problem = err
		return c, nil
	}
	c.Driver, c.Library = d.Name(), d.Library()
	version, err := driver.CheckVersion(d)
	c.Version = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	if err == nil {
		c.Devices, err = driver.Devices(d)
	}
	if err != nil {
		c.Problem = err
		return c, d
	}
	var problems []error
	for _, dev := range c.Devices {
		err := dev.Usable()
		if err == nil {
			c.Device = dev.Ordinal
			return c, d
		}
		problems = append(problems, err)
	}
	c.Problem = errors.Join(problems...)
	return c, d
}

// openCUDA opens the backend on the device that is asked for, or the first usable one,
// and says which.
func openCUDA(o Options) (*lease, string, error) {
	c, d := probe()
	device, err := c.ordinal(&o)
	if err != nil {
		return nil, "", err
	}
	b, err := share(d, device, kernels.Options{TF32: o.TF32})
	if err != nil {
		return nil, "", fmt.Errorf("device %d: %w", device, err)
	}
	if o.Notice != nil {
		b.Notify(o.Notice)
	}
	reason := fmt.Sprintf("device %d of %d, %v, CUDA %s through %s", device, len(c.Devices), c.Devices[device], c.Version, c.Driver)
	if o.TF32 {
		reason += ", products in TF32"
	}
	if c.Restricted {
		reason += fmt.Sprintf(", CUDA_VISIBLE_DEVICES=%q", c.Visible)
	}
	return b, reason, nil
}

// openAuto opens CUDA, with the CPU to go on on, or else the CPU.
func openAuto(o Options) (Engine, string, error) {
	cpu := func() (backend.Backend, error) {
		return cpufallback.New(cpufallback.Options{Threads: o.Threads})
	}
	first, reason, err := openCUDA(o)
	if err != nil && o.Device != nil { // asked for by name, and so no other
		return nil, "", err
	}
	if err != nil {
		b, cpuErr := cpu()
		return b, "auto: the CPU, because CUDA is not to be had: " + err.Error(), cpuErr
	}
	return &continuing{first: first, open: cpu, fault: leaves, fatal: driver.IsLost, notice: o.Notice, markLoss: first.markLoss}, "auto: CUDA " + reason, nil
}

// leaves tells an error with which an object leaves the GPU: a fault, or a size that
// the kernels do not take.
func leaves(err error) bool { return driver.IsFault(err) || errors.Is(err, errors.ErrUnsupported) }
