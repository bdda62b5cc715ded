// Command libgpc is gpc as a C library (-buildmode=c-shared), which the Python package gpc
// loads; it holds no logic of its own.
//
// Every function is
//
//	int32_t gpc_NAME(…, char **err)
//
// and returns 0, or 2 where what the caller gave was wrong, or 1 for any other error; *err is
// then a text that gpc_free frees. A panic in a call is such an error too. Objects are handles
// (uintptr_t) that gpc_release releases. An array is a pointer to C-contiguous memory of the
// caller's with its length, an int64_t, in entries; NULL with 0 where it may be left out. What is
// read is not kept, what is written is written by the time the call returns. Options and
// structured answers are JSON in UTF-8, answers in memory that gpc_free frees. All integers are of
// 64 bits. A call that may take long has before err a handle of gpc_cancel_new, or 0, by
// which another thread can cancel it (gpc_cancel) and see how far it is (gpc_progress).
//
// Objects may be used by any thread; calls of one object wait for each other.
package main

/*
#include <stdint.h>
#include <stdlib.h>
*/
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/cgo"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/bundled"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/version"
)

func main() {}

// Codes that a call returns.
const (
	succeeded = iota
	failed
	refused
)

// try runs f and says of its error or panic what the caller is told.
func try(err **C.char, f func() error) (code C.int32_t) {
	defer func() {
		if p := recover(); p != nil {
			code = tell(err, fmt.Errorf("gpc: an error of the library itself: %v\n%s", p, debug.Stack()))
		}
	}()
	if e := f(); e != nil {
		return tell(err, e)
	}
	return succeeded
}

// argumentOf is the argument in Python of a field of the library's options.
func argumentOf(field string) string {
	switch field {
	case "OutDir":
		return "out"
	case "TracePath":
		return "trace"
	}
	return strings.ReplaceAll(option.Kebab(field), "-", "_")
}

func tell(err **C.char, e error) C.int32_t {
	if err != nil {
		*err = C.CString(option.In(e, argumentOf))
	}
	if errors.As(e, new(gpc.InputError)) {
		return refused
	}
	return failed
}

// wrongf is an error of the caller's: code 2.
func wrongf(format string, args ...any) error { return gpc.BadInput(fmt.Errorf(format, args...)) }

// object is what a handle is of. One that is an io.Closer is closed behind its release and the last call that uses it.
type object struct {
	value any
	users atomic.Int32 // calls, less one behind the release; far below 0 once it is closed
}

func (o *object) leave() error {
	if c, ok := o.value.(io.Closer); o.users.Add(-1) == -1 && o.users.CompareAndSwap(-1, math.MinInt32/2) && ok {
		return c.Close()
	}
	return nil
}

// hand gives the caller a new object.
func hand(out *C.uintptr_t, v any) { *out = C.uintptr_t(cgo.NewHandle(&object{value: v})) }

// errClosed is of a handle that another thread has released.
var errClosed = errors.New("gpc: this object is closed")

// fromHandle is what a handle is of.
func fromHandle[T any](h C.uintptr_t) (zero T, o *object, err error) {
	if h == 0 {
		return zero, nil, wrongf("the handle is 0, want the handle of a %T", zero)
	}
	defer func() {
		if recover() != nil { // a handle is of one object alone, and invalid behind its release
			err = errClosed
		}
	}()
	o = cgo.Handle(h).Value().(*object)
	v, ok := o.value.(T)
	if !ok {
		return zero, nil, wrongf("the handle belongs to a %T, want a %T", o.value, zero)
	}
	return v, o, nil
}

// use runs f on what a handle is of, which stays open until f returns.
func use[T any](h C.uintptr_t, f func(T) error) error {
	v, o, err := fromHandle[T](h)
	if err != nil {
		return err
	}
	if o.users.Add(1) < 0 {
		return errClosed
	}
	defer o.leave()
	return f(v)
}

// onHandle is use for a function of the library.
func onHandle[T any](h C.uintptr_t, err **C.char, f func(T) error) C.int32_t {
	return try(err, func() error { return use(h, f) })
}

// view is an array of the caller's by its name, nil where it is left out.
func view[T any](name string, p unsafe.Pointer, length C.int64_t, want int) ([]T, error) {
	if p == nil && length == 0 {
		return nil, nil
	}
	if p == nil || int64(length) != int64(want) {
		return nil, wrongf("%s has %d entries, want %d", name, int64(length), want)
	}
	return unsafe.Slice((*T)(p), want), nil
}

// views reads several of them and keeps the first error.
type views struct{ err error }

// viewed is view of one of several, nil behind an error.
func viewed[T any](a *views, name string, p unsafe.Pointer, length C.int64_t, want int) []T {
	if a.err != nil {
		return nil
	}
	var v []T
	v, a.err = view[T](name, p, length, want)
	return v
}

// options reads JSON of the caller's into a struct; NULL and "" leave it as it is.
func options(text *C.char, dst any) error {
	if text == nil || *text == 0 {
		return nil
	}
	if err := jsonin.Known([]byte(C.GoString(text)), dst); err != nil {
		return wrongf("options: %w", err)
	}
	return nil
}

// withOptions runs f on options.
func withOptions[O any](opt *C.char, err **C.char, f func(*O) error) C.int32_t {
	return try(err, func() error {
		o := new(O)
		if err := options(opt, o); err != nil {
			return err
		}
		return f(o)
	})
}

// onCall runs f on the object of a handle, options, and the run of a handle of gpc_cancel_new.
func onCall[T, O any](h C.uintptr_t, opt *C.char, cancel C.uintptr_t, err **C.char, f func(T, *O, *run) error) C.int32_t {
	return withOptions(opt, err, func(o *O) error {
		return use(h, func(v T) error {
			r, err := runOf(cancel)
			if err != nil {
				return err
			}
			return f(v, o, r)
		})
	})
}

// checkOutput refuses, before any work, a file that cannot be written or holds the system that is worked on; "" is none.
func checkOutput(name, path string, systems ...string) error {
	inputs := durable.Ending(gpc.SystemSuffix, "the system", systems...)
	return gpc.BadInput(durable.Check([]durable.File{{Name: name, Path: path}}, inputs))
}

// answer gives the caller JSON, null for numbers that are none, unless v came with an error.
func answer(out **C.char, v any, errs ...error) error {
	if err := cmp.Or(errs...); err != nil {
		return err
	}
	text, err := finite.Marshal(v)
	if err == nil {
		*out = C.CString(string(text))
	}
	return err
}

// run is a call that may take long.
type run struct {
	context.Context
	cancel      context.CancelFunc
	done, total atomic.Int64
	mu          sync.Mutex
	events      []event // that nobody has asked for yet
}

func (r *run) Close() error {
	r.cancel()
	return nil
}

// progress is what Go's own calls report to.
func (r *run) progress(done, total int) {
	r.done.Store(int64(done))
	r.total.Store(int64(total))
}

// runOf is the run of a handle, or for 0 one that nobody cancels.
func runOf(h C.uintptr_t) (*run, error) {
	if h == 0 {
		return &run{Context: context.Background()}, nil
	}
	r, _, err := fromHandle[*run](h)
	return r, err
}

//export gpc_cancel_new
func gpc_cancel_new(out *C.uintptr_t, err **C.char) C.int32_t {
	return try(err, func() error {
		ctx, cancel := context.WithCancel(context.Background())
		hand(out, &run{Context: ctx, cancel: cancel})
		return nil
	})
}

//export gpc_cancel
func gpc_cancel(h C.uintptr_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(r *run) error {
		r.cancel()
		return nil
	})
}

//export gpc_progress
func gpc_progress(h C.uintptr_t, done, total *C.int64_t, err **C.char) C.int32_t {
	return onHandle(h, err, func(r *run) error {
		*done, *total = C.int64_t(r.done.Load()), C.int64_t(r.total.Load())
		return nil
	})
}

//export gpc_release
func gpc_release(h C.uintptr_t, err **C.char) C.int32_t {
	return try(err, func() error {
		if h == 0 {
			return nil
		}
		_, o, err := fromHandle[any](h)
		if err != nil {
			return err
		}
		cgo.Handle(h).Delete()
		return o.leave()
	})
}

//export gpc_free
func gpc_free(p unsafe.Pointer) { C.free(p) }

//export gpc_version
func gpc_version(out **C.char, err **C.char) C.int32_t {
	return try(err, func() error {
		return answer(out, map[string]string{"version": version.Version, "commit": version.Build()})
	})
}

// catalogue is what case names name. A case is checked when it is named.
var catalogue = sync.OnceValue(func() *gpc.Catalogue {
	k := bundled.Cases()
	return &k
})

// session is a case with a map on an engine.
type session struct {
	catalogued *gpc.Case          // as the catalogue has it
	staged     *gpc.Case          // on the plant of scenes, or catalogued
	scenes     *closedloop.Scenes // that were given; nil: episodes are drawn
	scene      string             // where they were read
	setup      gpc.Setup
	uncertain  bool     // gains of the actuators are, by an option
	measured   measured // what evaluations and loops measure by where they do not say it
	file       string   // of the map or weights, "" for the bundled ones
	choice     engine.Options
	engine     *gpc.Engine
	users      atomic.Int32 // it and what was made of it
	notices    notices
	mu         sync.Mutex       // of what follows
	refiner    *gpc.Refiner     // nil: none yet, as operations
	fronts     *batchnav.Fronts // nil: none yet
	operations *batchnav.Latents
}

// notices are what engines had to say.
type notices struct {
	mu    sync.Mutex
	texts []string
}

func (n *notices) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts = append(n.texts, text)
}

func (n *notices) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string{}, n.texts...)
}

// use makes the engine stay until Close has been called once more.
func (s *session) use() *session {
	s.users.Add(1)
	return s
}

// Close gives the engine back with the last user.
func (s *session) Close() error {
	if s.users.Add(-1) > 0 {
		return nil
	}
	return s.engine.Close()
}

// setupOf is the setup of a method, "" for the session's own.
func (s *session) setupOf(method string) (gpc.Setup, error) {
	if method == "" || method == s.setup.Method {
		return s.setup, nil
	}
	return s.staged.Setup(method, s.file)
}

//export gpc_open
func gpc_open(opt *C.char, out *C.uintptr_t, err **C.char) C.int32_t {
	return withOptions(opt, err, func(o *struct {
		Case    string `json:"case"`
		System  string `json:"system"` // the text of one, instead of a case
		Model   string `json:"model"`
		Method  string `json:"method"`
		Backend string `json:"backend"`
		Threads int    `json:"threads"`
		TF32    bool   `json:"tf32"`
		Device  *int   `json:"device"`
		Scene   string `json:"scene"`
		// Gains is the share by which those of the actuators are uncertain.
		Gains  float64 `json:"uncertain_gains"`
		Robots int     `json:"robots"` // of a crowd; 0: the case's scenes
		measured
	}) error {
		s := &session{file: o.Model, uncertain: o.Gains != 0, measured: o.measured}
		var err error
		if s.catalogued, err = findCase(o.Case, o.System); err != nil {
			return err
		}
		if s.catalogued, err = gains(s.catalogued, o.Gains); err != nil {
			return err
		}
		if o.Robots != 0 {
			if s.catalogued, err = s.catalogued.ForRobots(o.Robots); err != nil {
				return err
			}
		}
		if s.setup, err = s.catalogued.Setup(o.Method, o.Model); err != nil {
			return err
		}
		if err := s.stage(o.Scene); err != nil {
			return err
		}
		s.choice = engine.Options{Backend: o.Backend, Threads: o.Threads, TF32: o.TF32, Device: o.Device, Notice: s.notices.add}
		if s.engine, err = gpc.OpenEngine(s.choice); err != nil {
			return err
		}
		hand(out, s.use())
		return nil
	})
}
