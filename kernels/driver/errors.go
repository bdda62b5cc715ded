package driver

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// LibraryError says that no driver library could be opened.
type LibraryError struct {
	Tried []string
	Cause error
}

func (e *LibraryError) Error() string {
	cause := strings.Join(e.Tried, ", ") + " cannot be opened" // the loader tells a reason once
	for line := range strings.Lines(fmt.Sprint(e.Cause)) {
		if line = strings.TrimSpace(line); line != "" {
			cause = line
			break
		}
	}
	return "no CUDA driver library: " + cause + ": install NVIDIA's driver, or put the folder of libcuda.so.1 in LD_LIBRARY_PATH"
}

func (e *LibraryError) Unwrap() error { return e.Cause }

// BindingError says why GPC_DRIVER cannot be followed.
type BindingError struct {
	Name, Why string
}

func (e *BindingError) Error() string { return Binding + "=" + e.Name + ": " + e.Why }

// SymbolError says that the library lacks a call of the driver API.
type SymbolError struct {
	Library, Symbol string
}

func (e *SymbolError) Error() string {
	return fmt.Sprintf("%s has no %s: the driver is older than CUDA %s, update it", e.Library, e.Symbol, versionText(MinVersion))
}

// VersionError says that the driver is older than the embedded images need.
type VersionError struct {
	Have, Need int // as cuDriverGetVersion counts
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the driver supports CUDA %s, the kernels need %s or newer: update NVIDIA's driver",
		versionText(e.Have), versionText(e.Need))
}

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// DeviceError says that there is no such device. Ordinal is the ordinal, −1 for any.
type DeviceError struct {
	Ordinal int
	Cause   error
}

func (e *DeviceError) Error() string {
	if e.Ordinal >= 0 {
		return fmt.Sprintf("no CUDA device %d: see nvidia-smi -L; CUDA_VISIBLE_DEVICES hides and renumbers devices", e.Ordinal)
	}
	return "the driver shows no CUDA device: see nvidia-smi -L; CUDA_VISIBLE_DEVICES may hide it, a container needs --gpus all"
}

func (e *DeviceError) Unwrap() error { return e.Cause }

// CapabilityError says that a device is too old for the kernels.
type CapabilityError struct{ Device Device }

func (e *CapabilityError) Error() string {
	return fmt.Sprintf("device %d, %s, has compute capability %d.%d, the kernels need %d.0 (Ampere) or newer: choose another with CUDA_VISIBLE_DEVICES",
		e.Device.Ordinal, e.Device.Name, e.Device.Major, e.Device.Minor, MinMajor)
}

// MemoryError says that memory is short, on the device or pinned on the host.
type MemoryError struct {
	Bytes       int    // asked for
	Free, Total uint64 // of the device; 0 where not known
	Pinned      bool   // pinned host memory was asked for
	Cause       error
}

func (e *MemoryError) Error() string {
	if e.Pinned {
		return fmt.Sprintf("no pinned host memory for %d bytes: lower the batch, or raise the limit of locked memory (ulimit -l)", e.Bytes)
	}
	return fmt.Sprintf("device memory is short: asked for %d bytes, %d of %d are free: lower the batch, or end other programs on the device (nvidia-smi)",
		e.Bytes, e.Free, e.Total)
}

func (e *MemoryError) Unwrap() error { return e.Cause }

// ImageError says that a kernel image did not load, or lacks a kernel.
type ImageError struct {
	Image  string // which
	Kernel string // "" when the image itself did not load
	Log    string // of the driver's compiler, "" for none
	Cause  error
}

func (e *ImageError) Error() string {
	var b strings.Builder
	if e.Kernel != "" {
		fmt.Fprintf(&b, "kernel image %q has no kernel %q: the image is older than this program, rebuild both (make kernels build)", e.Image, e.Kernel)
	} else {
		fmt.Fprintf(&b, "kernel image %q does not load on this device: a newer driver may be needed (gpc doctor), or a rebuild for its architecture (make kernels)", e.Image)
	}
	fmt.Fprintf(&b, ": %v", e.Cause)
	if e.Log != "" {
		fmt.Fprintf(&b, "; the driver's compiler said: %s", e.Log)
	}
	return b.String()
}

func (e *ImageError) Unwrap() error { return e.Cause }

// CallError is a driver call that failed in another way.
type CallError struct {
	Call string // "cuLaunchKernel"
	Code int
	Name string // "CUDA_ERROR_INVALID_VALUE"; "" where the driver has none
	Text string
	Log  string // of the driver's compiler, for a module
}

func (e *CallError) Error() string {
	s := e.Call + ": " + cmp.Or(e.Name, fmt.Sprintf("CUDA error %d", e.Code))
	if e.Text != "" {
		s += " (" + e.Text + ")"
	}
	if advice[e.Code] != "" {
		s += ": " + advice[e.Code]
	}
	return s
}

// advice says what to do about errors of the machine, not of a call.
var advice = map[int]string{
	codeStub: "this is the CUDA toolkit's library to link with: put the folder of the driver's own libcuda.so.1 first in LD_LIBRARY_PATH",
	226:      "the GPU contained a fault of its hardware or of NVLink, and this process cannot use it any more: start it again; if it comes back, see dmesg for Xid and nvidia-smi -q -d ECC",
	721:      "a kernel ended without giving its tensor memory back, and this process cannot use the GPU any more: start it again",
	802:      "the machine is not ready for CUDA: with NVSwitch the fabric manager must run, of the driver's own version (systemctl start nvidia-fabricmanager; nvidia-smi -q then says Fabric State: Completed); a MIG or confidential-computing mode half way is another cause",
	803:      "libcuda.so.1 and the kernel module are of different drivers: reboot, or in a container use the host's library",
	804:      "the CUDA compatibility package does not serve this GPU: take its folder out of LD_LIBRARY_PATH",
}

// LostError says that the context can no longer be used: an asynchronous error
// (an illegal address, a lost device) ended it. Everything on it is gone.
type LostError struct{ Cause error }

func (e *LostError) Error() string {
	return fmt.Sprintf("the CUDA context is lost, what it held is gone: open a new one or use the CPU: %v", e.Cause)
}

func (e *LostError) Unwrap() error { return e.Cause }

// Codes of CUresult that are told apart.
const (
	CodeOutOfMemory = 2
	codeStub        = 34
	codeNoDevice    = 100
	CodeBadOrdinal  = 101
)

// fatal holds the errors after which the driver refuses every call on the context.
var fatal = map[int]bool{
	4:   true, // deinitialized
	46:  true, // device unavailable
	201: true, // invalid context
	214: true, // uncorrectable ECC error
	220: true, // uncorrectable NVLink error
	226: true, // contained
	700: true, // illegal address
	702: true, // launch timeout
	709: true, // context destroyed
	710: true, // assert
	714: true, // hardware stack error
	715: true, // illegal instruction
	716: true, // misaligned address
	717: true, // invalid address space
	718: true, // invalid program counter
	719: true, // launch failed
	721: true, // tensor memory leak
	999: true, // unknown
}

// Fatal tells a code after which the driver refuses every call on the context.
func Fatal(code int) bool { return fatal[code] }

// IsFault tells an error of the driver or of the device, one of the types above,
// from an error about what was asked for.
func IsFault(err error) bool {
	return holds[*LibraryError](err) || holds[*SymbolError](err) || holds[*VersionError](err) || holds[*DeviceError](err) ||
		holds[*CapabilityError](err) || IsShort(err) || holds[*ImageError](err) || holds[*CallError](err) || IsLost(err)
}

// IsLost tells that a context can no longer be used.
func IsLost(err error) bool { return holds[*LostError](err) }

// IsShort tells that memory is short.
func IsShort(err error) bool { return holds[*MemoryError](err) }

func holds[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// failedWith tells a call of the driver that failed with a code.
func failedWith(err error, code int) bool {
	e, ok := errors.AsType[*CallError](err)
	return ok && e.Code == code
}
