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
	driver Driver
	device Device
	calls  chan call
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when the context is destroyed
	close  sync.Once
	lost   atomic.Pointer[LostError]
	closed error
}

type call struct {
	f     func(*Thread) error
	reply chan reply
}

type reply struct {
	err      error
	panicked any
	exited   bool // f ended the goroutine: t.FailNow of a test
}

// replies are reused: a Do costs no allocation of its own.
var replies = sync.Pool{New: func() any { return make(chan reply, 1) }}

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
		return nil, &DeviceError{Asked: ordinal}
	}
	if err := devices[ordinal].Usable(); err != nil {
		return nil, err
	}
	c := &Context{driver: d, device: devices[ordinal], calls: make(chan call), quit: make(chan struct{}), done: make(chan struct{})}
	opened := make(chan error)
	go c.own(opened)
	if err := <-opened; err != nil {
		return nil, err
	}
	return c, nil
}

// own is the goroutine that owns the context. Its OS thread ends with it, so that
// nothing of the context stays on a thread that Go uses for something else.
func (c *Context) own(opened chan<- error) {
	runtime.LockOSThread()
	handle, err := c.driver.createContext(c.device.Ordinal)
	opened <- err
	if err != nil {
		return
	}
	// Deferred, because a test may end this goroutine inside Do.
	defer func() {
		c.close.Do(func() { close(c.quit) })
		c.closed = c.driver.destroyContext(handle)
		if c.lost.Load() != nil {
			c.closed = nil // a lost context may refuse even that
		}
		close(c.done)
	}()
	t := &Thread{context: c, driver: c.driver}
	for {
		select {
		case next := <-c.calls:
			t.serve(next)
		case <-c.quit:
			return
		}
	}
}

// serve calls f. A panic in it, or the end of its goroutine, goes to the goroutine
// that called Do.
func (t *Thread) serve(next call) {
	r := reply{exited: true}
	defer func() {
		if p := recover(); p != nil {
			r.panicked = p
		}
		next.reply <- r
	}()
	r.err = next.f(t)
	r.exited = false
}

// Do runs f on the thread that owns the context and returns its error. Calls from
// several goroutines run one after another. f must not call Do, must not keep the
// Thread, and must not wait for another goroutine that calls Do. Each Do hands
// control to another OS thread and back, some microseconds: put what belongs
// together in one.
func (c *Context) Do(f func(*Thread) error) error {
	ch := replies.Get().(chan reply)
	defer replies.Put(ch)
	select {
	case c.calls <- call{f, ch}:
	case <-c.quit:
		return ErrClosed
	}
	r := <-ch
	if r.panicked != nil {
		panic(r.panicked)
	}
	if r.exited {
		runtime.Goexit()
	}
	return r.err
}

// Device is what the context runs on.
func (c *Context) Device() Device { return c.device }

// Driver is the library the context was opened with.
func (c *Context) Driver() Driver { return c.driver }

// Lost is the *LostError that ended the context, nil while it lives.
func (c *Context) Lost() error {
	if e := c.lost.Load(); e != nil {
		return e
	}
	return nil
}

// Close frees all that the context holds and ends its goroutine. Work still
// queued is lost.
func (c *Context) Close() error {
	c.close.Do(func() { close(c.quit) })
	<-c.done
	return c.closed
}

// Thread is the thread that owns a Context, inside Do. Every method but Close
// methods of a lost context returns a *LostError once the context is lost; the
// call that lost it does too.
type Thread struct {
	context *Context
	driver  Driver
	values  [maxArguments * 2]uint64
	pointer [maxArguments]unsafe.Pointer
}

// Context is the context that the thread owns.
func (t *Thread) Context() *Context { return t.context }

// check passes errors on and notices those that end the context.
func (t *Thread) check(err error) error {
	if err == nil {
		return nil
	}
	var ce *CallError
	if errors.As(err, &ce) && fatal[ce.Code] {
		t.context.lost.CompareAndSwap(nil, &LostError{Cause: err})
		return t.context.lost.Load()
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
func (t *Thread) Synchronize() error { return t.call(t.driver.synchronize) }
