package backend

// Tracer is implemented by a backend whose launches on a device can be timed one by one.
type Tracer interface {
	// Trace makes objects by prepare and calls call so many times, launch by launch where
	// it would launch a captured graph, branches one after the other. It gives the launches
	// of one call in their order.
	Trace(calls int, prepare, call func() error) ([]Launch, error)
}

// Launch is a kernel as it is launched, beside what it cannot be faster than.
type Launch struct {
	Kernel        string
	Grid          [2]int // blocks
	Block, Shared int    // threads, bytes of dynamic shared memory
	// Times of every call, µs, from one event of the device to the next; nil on the host
	// shim, whose times say nothing and which makes one call.
	Times  []float64
	Limits Limits
}

// Limits are the least µs that a launch takes by each thing that it needs, on this device
// at the clock that its driver says; 0 where the thing is not counted.
type Limits struct {
	FMA     float64 // multiply-adds of the products, on tensor cores in TF32
	Shared  float64 // requests of warps to shared memory
	Bytes   float64 // from and to what lies beyond a multiprocessor
	Latency float64 // the longest chain of one block, times the waves of blocks
}

// Largest is what bounds the launch, "" where nothing of it is counted.
func (l Limits) Largest() (us float64, source string) {
	for _, v := range []struct {
		us     float64
		source string
	}{{l.FMA, "multiply-adds"}, {l.Shared, "shared memory"}, {l.Bytes, "bytes"}, {l.Latency, "latency"}} {
		if v.us > us {
			us, source = v.us, v.source
		}
	}
	return us, source
}
