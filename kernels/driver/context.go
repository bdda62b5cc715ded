package driver

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Context is one device with what is allocated on it. Close it when done.
type Context struct {
	driver   Driver
	device   Device
	handle   ContextHandle
	thread   Thread
	mutex    sync.Mutex // of the call that runs
	isClosed bool       // by Close
	closed   error
	loss     atomic.Pointer[LostError]
}

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("the CUDA context is closed")

// Open checks driver and device and makes a context on device `ordinal` (as
// counted after CUDA_VISIBLE_DEVICES). Errors: *VersionError, *DeviceError,
// *CapabilityError, *MemoryError, *CallError.
func Open(d Driver, ordinal int) (*Context, error) {
	if _, err := CheckVersion(d); err != nil {
		return nil, err
	}
	devices, err := Devices(d)
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= len(devices) {
		return nil, &DeviceError{Ordinal: ordinal}
	}
	if err := devices[ordinal].Usable(); err != nil {
		return nil, err
	}
	c := &Context{driver: d, device: devices[ordinal]}
	c.thread = Thread{context: c, driver: d}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.handle, err = d.CreateContext(ordinal); err != nil {
		return nil, err
	}
	if err := d.SetContext(0); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Do runs f on the calling goroutine, locked to its OS thread, with the context current
// there, and returns its error. Calls from several goroutines run one after another. f
// must not call Do, must not keep the Thread, and must not wait for another goroutine
// that calls Do.
func (c *Context) Do(f func(*Thread) error) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return ErrClosed
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.Lost() == nil { // a lost context may refuse even that, and f will be told
		if err := c.thread.check(c.driver.SetContext(c.handle)); err != nil {
			return err
		}
		// Nothing of the context stays on a thread that Go uses for something else.
		defer func() { _ = c.driver.SetContext(0) }()
	}
	return f(&c.thread)
}

// Device is what the context runs on.
func (c *Context) Device() Device { return c.device }

// Driver is the library the context was opened with.
func (c *Context) Driver() Driver { return c.driver }

// Lost is the *LostError that ended the context, nil while it lives.
func (c *Context) Lost() error {
	if e := c.loss.Load(); e != nil {
		return e
	}
	return nil
}

// Close frees all that the context holds. Work still queued is lost.
func (c *Context) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return c.closed
	}
	c.isClosed = true
	if c.closed = c.driver.DestroyContext(c.handle); c.loss.Load() != nil {
		c.closed = nil // a lost context may refuse even that
	}
	return c.closed
}

// Thread is a thread on which a Context is current, inside Do. Every method but Close
// methods of a lost context returns a *LostError once the context is lost; the
// call that lost it does too.
type Thread struct {
	context *Context
	driver  Driver
	values  [maxArguments * 2]uint64
	pointer [maxArguments]unsafe.Pointer
}

// Context is the context that is current on the thread.
func (t *Thread) Context() *Context { return t.context }

// check passes errors on and notices those that end the context.
func (t *Thread) check(err error) error {
	if err == nil {
		return nil
	}
	if ce, ok := errors.AsType[*CallError](err); ok && fatal[ce.Code] {
		t.context.loss.CompareAndSwap(nil, &LostError{Cause: err})
		return t.context.loss.Load()
	}
	return err
}

// alive is the *LostError of a lost context.
func (t *Thread) alive() error { return t.context.Lost() }

// call makes one driver call, unless the context is lost.
func (t *Thread) call(f func() error) error {
	if err := t.alive(); err != nil {
		return err
	}
	return t.check(f())
}

// ask is call for what gives a value.
func ask[T any](t *Thread, f func() (T, error)) (v T, err error) {
	err = t.call(func() (err error) { v, err = f(); return err })
	return v, err
}

// Synchronize waits for all work on the context. An error of a kernel shows here
// at the latest.
func (t *Thread) Synchronize() error { return t.call(t.driver.Synchronize) }
