package device

import (
	"errors"
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
)

func (s *Software) LoadModule(image []byte) (driver.ModuleHandle, error) {
	c, err := s.enter("cuModuleLoadDataEx")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	p, err := c.executor.Load(image)
	if err != nil {
		return 0, &driver.CallError{Call: "cuModuleLoadDataEx", Code: codeInvalidPTX, Name: softNames[codeInvalidPTX], Log: err.Error()}
	}
	h := driver.ModuleHandle(s.handle())
	c.modules[h] = p
	return h, nil
}

func (s *Software) Function(m driver.ModuleHandle, name string) (driver.FunctionHandle, error) {
	c, err := s.enter("cuModuleGetFunction")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	p := c.modules[m]
	if p == nil {
		return 0, softError("cuModuleGetFunction", codeInvalidHandle, "no such module")
	}
	e, err := p.Entry(name)
	if err != nil {
		return 0, softError("cuModuleGetFunction", codeInvalidPTX, "%v", err)
	}
	if e == nil {
		return 0, softError("cuModuleGetFunction", codeNotFound, "no entry %s", name)
	}
	h := driver.FunctionHandle(s.handle())
	c.entries[h] = &softFunction{Entry: e, name: name, limit: max(0, driver.DefaultShared-e.StaticShared())}
	return h, nil
}

// ofFunction calls f with an entry point.
func (s *Software) ofFunction(call string, h driver.FunctionHandle, f func(*softFunction) error) error {
	c, err := s.enter(call)
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	e := c.entries[h]
	if e == nil {
		return softError(call, codeInvalidHandle, "no such function")
	}
	return f(e)
}

func (s *Software) Parameters(h driver.FunctionHandle) (list []driver.Parameter, err error) {
	err = s.ofFunction("cuFuncGetParamInfo", h, func(f *softFunction) error { list, _, _ = f.Parameters(); return nil })
	return list, err
}

func (s *Software) MaxThreads(h driver.FunctionHandle) (n int, err error) {
	err = s.ofFunction("cuFuncGetAttribute", h, func(f *softFunction) error { n = f.MaxThreads(); return nil })
	return n, err
}

func (s *Software) StaticShared(h driver.FunctionHandle) (n int, err error) {
	err = s.ofFunction("cuFuncGetAttribute", h, func(f *softFunction) error { n = f.StaticShared(); return nil })
	return n, err
}

// LocalBytes is 0: registers do not run out.
func (s *Software) LocalBytes(driver.FunctionHandle) (int, error) { return 0, nil }

func (s *Software) SetSharedLimit(h driver.FunctionHandle, bytes int) error {
	return s.ofFunction("cuFuncSetAttribute", h, func(f *softFunction) error {
		if most := s.attributes[driver.SharedPerBlockOptin]; bytes < 0 || bytes+f.StaticShared() > most {
			return softError("cuFuncSetAttribute", codeInvalidValue, "%s: %d bytes of shared memory beside %d of its own, a block has %d", f.name, bytes, f.StaticShared(), most)
		}
		f.limit = bytes
		return nil
	})
}

func (s *Software) CreateStream() (driver.Stream, error) {
	c, err := s.enter("cuStreamCreate")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	h := driver.Stream(s.handle())
	c.streams[h] = &softStream{}
	return h, nil
}

func (s *Software) StreamSynchronize(h driver.Stream) error {
	c, err := s.enter("cuStreamSynchronize")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream("cuStreamSynchronize", h)
	if err != nil {
		return err
	}
	if stream.capture != nil {
		stream.invalid = true
		return softError("cuStreamSynchronize", codeCaptureUnsupported, "the stream captures")
	}
	if stream == &c.legacy {
		return c.drainAll()
	}
	return c.drain(stream, everything)
}

func (s *Software) StreamWait(h driver.Stream, ev driver.Event) error {
	c, err := s.enter("cuStreamWaitEvent")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream("cuStreamWaitEvent", h)
	if err != nil {
		return err
	}
	e := c.events[ev]
	switch {
	case e == nil:
		return softError("cuStreamWaitEvent", codeInvalidHandle, "no such event")
	case e.capture != nil: // the stream joins the capture, or waits within it
		if stream.capture != e.capture {
			stream.tail = nil
		}
		stream.capture = e.capture
		for _, n := range e.tail {
			if !slices.Contains(stream.tail, n) {
				stream.tail = append(stream.tail, n)
			}
		}
		return nil
	case !e.recorded:
		return nil
	}
	other, position := e.stream, e.position
	return c.enqueue("cuStreamWaitEvent", stream, func() error { return c.drain(other, position) })
}

func (s *Software) CreateEvent() (driver.Event, error) {
	c, err := s.enter("cuEventCreate")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	h := driver.Event(s.handle())
	c.events[h] = &softEvent{}
	return h, nil
}

// ofEvent calls f with an event.
func (s *Software) ofEvent(call string, h driver.Event, f func(*softContext, *softEvent) error) error {
	c, err := s.enter(call)
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	e := c.events[h]
	if e == nil {
		return softError(call, codeInvalidHandle, "no such event")
	}
	return f(c, e)
}

func (s *Software) DestroyEvent(h driver.Event) error {
	return s.ofEvent("cuEventDestroy", h, func(c *softContext, _ *softEvent) error {
		delete(c.events, h)
		return c.drainAll()
	})
}

func (s *Software) RecordEvent(h driver.Event, streamHandle driver.Stream) error {
	return s.ofEvent("cuEventRecord", h, func(c *softContext, e *softEvent) error {
		stream, err := c.stream("cuEventRecord", streamHandle)
		if err != nil {
			return err
		}
		if stream.capture != nil {
			e.capture, e.tail = stream.capture, slices.Clone(stream.tail)
			return nil
		}
		err = c.enqueue("cuEventRecord", stream, func() error { e.time = time.Now(); return nil })
		e.capture, e.stream = nil, stream
		e.recorded, e.position = true, stream.enqueued
		return err
	})
}

func (s *Software) EventSynchronize(h driver.Event) error {
	return s.ofEvent("cuEventSynchronize", h, func(c *softContext, e *softEvent) error {
		if !e.recorded {
			return nil
		}
		return c.drain(e.stream, e.position)
	})
}

func (s *Software) Elapsed(from, to driver.Event) (ms float32, err error) {
	const call = "cuEventElapsedTime"
	err = s.ofEvent(call, from, func(c *softContext, a *softEvent) error {
		b := c.events[to]
		if b == nil || !a.recorded || !b.recorded {
			return softError(call, codeInvalidHandle, "an event that was not recorded")
		}
		if a.stream.executed < a.position || b.stream.executed < b.position {
			return softError(call, codeNotReady, "an event that has not passed")
		}
		ms = float32(b.time.Sub(a.time).Seconds() * 1000)
		return nil
	})
	return ms, err
}

func (s *Software) Launch(h driver.FunctionHandle, grid, block driver.Dim, shared int, streamHandle driver.Stream, arguments []unsafe.Pointer) error {
	const call = "cuLaunchKernel"
	return s.enqueue(call, streamHandle, func(c *softContext) (func() error, error) {
		f := c.entries[h]
		if f == nil {
			return nil, softError(call, codeInvalidHandle, "no such function")
		}
		if grid.X < 1 || grid.Y < 1 || grid.Z < 1 || block.X < 1 || block.Y < 1 || block.Z < 1 || grid.X > 1<<31-1 || grid.Y > 65535 || grid.Z > 65535 ||
			block.X > 1024 || block.Y > 1024 || block.Z > 64 || block.X*block.Y*block.Z > f.MaxThreads() {
			return nil, softError(call, codeInvalidValue, "%s: grid %v or block %v out of range", f.name, grid, block)
		}
		if shared < 0 || shared > f.limit {
			return nil, softError(call, codeInvalidValue, "%s: %d bytes of dynamic shared memory, the function's limit is %d", f.name, shared, f.limit)
		}
		list, offsets, n := f.Parameters()
		if len(list) != len(arguments) {
			return nil, softError(call, codeInvalidValue, "%s: %d arguments, it takes %d", f.name, len(arguments), len(list))
		}
		values := make([]byte, n)
		for i, p := range list {
			copy(values[offsets[i]:], unsafe.Slice((*byte)(arguments[i]), p.Size))
		}
		return func() error {
			err := c.executor.Launch(f.Entry, grid, block, shared, values)
			if err == nil {
				return nil
			}
			code := codeLaunchFailed
			var coded interface{ Code() int }
			if errors.As(err, &coded) {
				code = coded.Code()
			}
			return softError(call, code, "%v", err)
		}, nil
	})
}

func (s *Software) BeginCapture(h driver.Stream) error {
	c, err := s.enter("cuStreamBeginCapture")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream("cuStreamBeginCapture", h)
	switch {
	case err != nil:
		return err
	case stream == &c.legacy:
		return softError("cuStreamBeginCapture", codeCaptureUnsupported, "the default stream")
	case stream.capture != nil:
		return softError("cuStreamBeginCapture", codeInvalidValue, "the stream captures already")
	}
	stream.capture, stream.tail = &softGraph{}, nil
	stream.origin, stream.invalid = true, false
	return nil
}

// earlier lists for each node those that come before it.
func (g *softGraph) earlier() []map[int]bool {
	predecessors := make([]map[int]bool, len(g.nodes))
	for i, n := range g.nodes {
		predecessors[i] = map[int]bool{}
		for _, j := range n.predecessors {
			predecessors[i][j] = true
			maps.Copy(predecessors[i], predecessors[j])
		}
	}
	return predecessors
}

func (s *Software) EndCapture(h driver.Stream) (driver.GraphHandle, error) {
	const call = "cuStreamEndCapture"
	c, err := s.enter(call)
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream(call, h)
	if err != nil {
		return 0, err
	}
	if stream.capture == nil || !stream.origin {
		return 0, softError(call, codeInvalidValue, "the stream began no capture")
	}
	g, invalid := stream.capture, false
	predecessors := g.earlier()
	joined := map[int]bool{}
	for _, n := range stream.tail {
		joined[n] = true
		maps.Copy(joined, predecessors[n])
	}
	for _, o := range c.streams {
		if o.capture == g {
			invalid = invalid || o.invalid
			o.capture, o.origin, o.invalid = nil, false, false
		}
	}
	for _, e := range c.events {
		if e.capture == g {
			e.capture = nil
		}
	}
	if invalid {
		return 0, softError(call, codeCaptureInvalidated, "the capture has failed")
	}
	if len(joined) != len(g.nodes) {
		return 0, softError(call, codeCaptureUnjoined, "a branch has not come back")
	}
	handle := driver.GraphHandle(s.handle())
	c.graphs[handle] = g
	return handle, nil
}

func (s *Software) Instantiate(h driver.GraphHandle) (driver.Executable, error) {
	c, err := s.enter("cuGraphInstantiate")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	g := c.graphs[h]
	if g == nil {
		return 0, softError("cuGraphInstantiate", codeInvalidHandle, "no such graph")
	}
	e := driver.Executable(s.handle())
	c.runnable[e] = &softGraph{slices.Clone(g.nodes)}
	return e, nil
}

func (s *Software) LaunchGraph(e driver.Executable, h driver.Stream) error {
	return s.enqueue("cuGraphLaunch", h, func(c *softContext) (func() error, error) {
		g := c.runnable[e]
		if g == nil {
			return nil, softError("cuGraphLaunch", codeInvalidHandle, "no such graph")
		}
		if stream, _ := c.stream("cuGraphLaunch", h); stream.capture != nil {
			return nil, softError("cuGraphLaunch", codeCaptureUnsupported, "the stream captures")
		}
		return func() error {
			for _, n := range g.nodes {
				if err := n.work(); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
}

func (s *Software) DestroyGraph(h driver.GraphHandle) error {
	c, err := s.enter("cuGraphDestroy")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	delete(c.graphs, h)
	return nil
}

func (s *Software) DestroyExecutable(e driver.Executable) error {
	c, err := s.enter("cuGraphExecDestroy")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	delete(c.runnable, e)
	return c.drainAll()
}
