package driver

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"
)

// maxArguments bounds the arguments of one kernel.
const maxArguments = 64

// Module is a loaded kernel image. It ends with the context.
type Module struct {
	name   string
	handle ModuleHandle
}

// LoadModule loads an image: PTX text or a cubin. name is what errors call it. An
// image that does not load is an *ImageError.
func (t *Thread) LoadModule(name string, image []byte) (*Module, error) {
	if err := t.alive(); err != nil {
		return nil, err
	}
	if len(image) == 0 {
		return nil, &ImageError{Image: name, Cause: errors.New("it is empty")}
	}
	// PTX is read to a zero byte.
	terminated := append(append(make([]byte, 0, len(image)+1), image...), 0)
	h, err := t.driver.LoadModule(terminated)
	if err = t.check(err); err != nil {
		if t.alive() != nil {
			return nil, err
		}
		if failedWith(err, CodeOutOfMemory) {
			return nil, &MemoryError{Bytes: len(image), Cause: err}
		}
		e := &ImageError{Image: name, Cause: err}
		if ce, ok := errors.AsType[*CallError](err); ok {
			e.Log = ce.Log
		}
		return nil, e
	}
	return &Module{name, h}, nil
}

// Kernel is an entry point of a module.
type Kernel struct {
	name       string
	handle     FunctionHandle
	parameters []Parameter // nil: not known
	static     int         // bytes of shared memory of its own
	local      int         // bytes of local memory of a thread
	shared     int         // limit of dynamic shared memory set so far
	threads    int         // largest block
}

// Name is the entry point's name.
func (k *Kernel) Name() string { return k.name }

// Static is the shared memory that the kernel has of its own, in bytes.
func (k *Kernel) Static() int { return k.static }

// Local is the local memory of a thread, in bytes.
func (k *Kernel) Local() int { return k.local }

// defaultShared is the shared memory, static and dynamic together, that needs no opt-in.
const DefaultShared = 48 << 10

// Kernel finds an entry point. One that the module lacks is an *ImageError.
func (t *Thread) Kernel(m *Module, name string) (*Kernel, error) {
	if err := t.alive(); err != nil {
		return nil, err
	}
	h, err := t.driver.Function(m.handle, name)
	if err = t.check(err); err != nil {
		if t.alive() != nil {
			return nil, err
		}
		return nil, &ImageError{Image: m.name, Kernel: name, Cause: err}
	}
	parameters, err := t.driver.Parameters(h)
	if err = t.check(err); err != nil {
		return nil, err
	}
	threads, err := t.driver.MaxThreads(h)
	if err = t.check(err); err != nil {
		return nil, err
	}
	static, err := t.driver.StaticShared(h)
	if err = t.check(err); err != nil {
		return nil, err
	}
	local, err := t.driver.LocalBytes(h)
	if err = t.check(err); err != nil {
		return nil, err
	}
	return &Kernel{name: name, handle: h, parameters: parameters, static: static, local: local, shared: DefaultShared - static, threads: threads}, nil
}

// Argument is one argument of a kernel; Address, Int32, Uint32, Int64, Uint64,
// Float32, Float64 and Struct make them.
type Argument struct {
	bits  uint64
	value unsafe.Pointer // of a structure
	size  int
	kind  byte
}

// Address passes a device pointer.
func Address(p Pointer) Argument { return Argument{bits: uint64(p), size: 8, kind: 'p'} }

// Int32 passes an int.
func Int32[T ~int | ~int32](v T) Argument {
	if int(int32(v)) != int(v) {
		panic(fmt.Sprintf("driver: %d does not fit an int32 argument", v))
	}
	return Argument{bits: uint64(uint32(v)), size: 4, kind: 'i'}
}

// Int64 passes an int64_t.
func Int64[T ~int | ~int64](v T) Argument { return Argument{bits: uint64(v), size: 8, kind: 'i'} }

// Float32 passes a float.
func Float32(v float32) Argument {
	return Argument{bits: uint64(*(*uint32)(unsafe.Pointer(&v))), size: 4, kind: 'f'}
}

// Float64 passes a double.
func Float64(v float64) Argument { return Argument{bits: math.Float64bits(v), size: 8, kind: 'f'} }

// Struct passes a structure by value, copied at the launch. T must have the layout
// of the C structure: fields of fixed size without Go pointers, at most 255 bytes.
func Struct[T any](v *T) Argument {
	return Argument{value: unsafe.Pointer(v), size: int(unsafe.Sizeof(*v)), kind: 's'}
}

// Launch says where and how large a kernel runs.
type Launch struct {
	Grid, Block Dim
	Shared      int // bytes of dynamic shared memory
	Stream      Stream
}

// Launch queues a kernel. Number, size and, where the driver can tell, kind of the
// arguments are checked against the kernel's own.
func (t *Thread) Launch(k *Kernel, l Launch, arguments ...Argument) error {
	if err := t.alive(); err != nil {
		return err
	}
	if err := k.accepts(arguments); err != nil {
		return err
	}
	grid, block := l.Grid.full(), l.Block.full()
	if n := block.X * block.Y * block.Z; n > k.threads {
		return fmt.Errorf("kernel %s: a block of %d threads, it takes at most %d", k.name, n, k.threads)
	}
	if err := t.raiseShared(k, l.Shared); err != nil {
		return err
	}
	offset := 0
	for i, a := range arguments {
		words := (a.size + 7) / 8
		if offset+words > len(t.values) {
			return fmt.Errorf("kernel %s: its arguments take more than %d bytes", k.name, 8*len(t.values))
		}
		dst := unsafe.Pointer(&t.values[offset])
		if a.kind == 's' {
			copy(unsafe.Slice((*byte)(dst), a.size), unsafe.Slice((*byte)(a.value), a.size))
		} else {
			t.values[offset] = a.bits
		}
		t.pointer[i] = dst
		offset += words
	}
	err := t.driver.Launch(k.handle, grid, block, l.Shared, l.Stream, t.pointer[:len(arguments)])
	runtime.KeepAlive(arguments)
	if err = t.check(err); err != nil {
		return fmt.Errorf("kernel %s, grid %v, block %v, %d bytes of shared memory: %w", k.name, l.Grid, l.Block, l.Shared, err)
	}
	return nil
}

func (d Dim) full() Dim { return Dim{max(d.X, 1), max(d.Y, 1), max(d.Z, 1)} }

// raiseShared opts in to more dynamic shared memory than every device has beside the
// kernel's static memory. What is too much the driver says: it alone knows what it
// reserves of a block's.
func (t *Thread) raiseShared(k *Kernel, bytes int) error {
	if bytes <= k.shared {
		return nil
	}
	if err := t.check(t.driver.SetSharedLimit(k.handle, bytes)); err != nil {
		return fmt.Errorf("kernel %s: %d bytes of shared memory asked for beside %d of its own, a block of this device has %d: %w",
			k.name, bytes, k.static, t.context.device.SharedPerBlock, err)
	}
	k.shared = bytes
	return nil
}

func (k *Kernel) accepts(arguments []Argument) error {
	if len(arguments) > maxArguments {
		return fmt.Errorf("kernel %s: %d arguments given, at most %d can be", k.name, len(arguments), maxArguments)
	}
	if k.parameters == nil {
		return nil
	}
	if len(arguments) != len(k.parameters) {
		return fmt.Errorf("kernel %s: %d arguments given, it takes %d", k.name, len(arguments), len(k.parameters))
	}
	for i, p := range k.parameters {
		if a := arguments[i]; a.size != p.Size || p.Kind != 0 && p.Kind != a.kind {
			return fmt.Errorf("kernel %s: argument %d is %s of %d bytes, it takes %s of %d",
				k.name, i, kindText(a.kind), a.size, kindText(p.Kind), p.Size)
		}
	}
	return nil
}

func kindText(kind byte) string {
	switch kind {
	case 'p':
		return "a pointer"
	case 'f':
		return "a float"
	case 'i':
		return "a signed integer"
	case 'u':
		return "an unsigned integer"
	case 's':
		return "a structure"
	}
	return "a value"
}
