package driver

// NewStream makes a stream, which ends with the context. Work on it also waits for, and is waited for by,
// Upload and Download.
func (t *Thread) NewStream() (Stream, error) { return ask(t, t.driver.CreateStream) }

// Wait waits for the work of one stream. An error of a kernel shows here.
func (t *Thread) Wait(s Stream) error {
	return t.call(func() error { return t.driver.StreamSynchronize(s) })
}

// WaitFor makes later work of the stream wait for the event.
func (t *Thread) WaitFor(s Stream, e Event) error {
	return t.call(func() error { return t.driver.StreamWait(s, e) })
}

// NewEvent makes an event, with timing.
func (t *Thread) NewEvent() (Event, error) { return ask(t, t.driver.CreateEvent) }

// DestroyEvent ends an event.
func (t *Thread) DestroyEvent(e Event) error {
	if e == 0 || t.alive() != nil {
		return nil
	}
	return t.check(t.driver.DestroyEvent(e))
}

// Record puts the event behind the work now on the stream.
func (t *Thread) Record(e Event, s Stream) error {
	return t.call(func() error { return t.driver.RecordEvent(e, s) })
}

// WaitEvent waits until the event has passed.
func (t *Thread) WaitEvent(e Event) error {
	return t.call(func() error { return t.driver.EventSynchronize(e) })
}

// Elapsed is the time between two events that have passed, in milliseconds.
func (t *Thread) Elapsed(from, to Event) (float32, error) {
	return ask(t, func() (float32, error) { return t.driver.Elapsed(from, to) })
}

// Graph is work captured once and launched many times. Its kernels keep the
// arguments they were captured with.
type Graph struct{ handle Executable }

// Capture records what f puts on the stream as a graph, without running it. f may
// launch, copy asynchronously and fill; it may not allocate or wait. On an error
// of f, or of the capture, there is no graph and the stream is usable again.
func (t *Thread) Capture(s Stream, f func() error) (*Graph, error) {
	if err := t.alive(); err != nil {
		return nil, err
	}
	if err := t.check(t.driver.BeginCapture(s)); err != nil {
		return nil, err
	}
	err := f()
	template, endErr := t.driver.EndCapture(s)
	endErr = t.check(endErr)
	if template != 0 {
		defer t.driver.DestroyGraph(template)
	}
	if err != nil {
		return nil, err
	}
	if endErr != nil {
		return nil, endErr
	}
	h, err := t.driver.Instantiate(template)
	if err = t.check(err); err != nil {
		return nil, err
	}
	return &Graph{h}, nil
}

// LaunchGraph queues a captured graph.
func (t *Thread) LaunchGraph(g *Graph, s Stream) error {
	return t.call(func() error { return t.driver.LaunchGraph(g.handle, s) })
}

// DestroyGraph ends a graph once its work is done.
func (t *Thread) DestroyGraph(g *Graph) error {
	if g == nil || t.alive() != nil {
		return nil
	}
	return t.check(t.driver.DestroyExecutable(g.handle))
}
