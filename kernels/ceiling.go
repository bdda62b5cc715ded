package kernels

import (
	"errors"
	"math"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// Sizes of the measurements of the ceilings.
const (
	peakBlock      = 256
	peakBlocks     = 8    // on every multiprocessor
	peakIterations = 1024 // of 8·16 multiply-adds a thread, or fewer where those take peakSeconds
	peakSeconds    = 0.5e-3
	triadBytes     = 256 << 20 // of each of three arrays, beyond every second-level cache
	peakRepeats    = 5
)

// PeakFMA measures the sustained float32 multiply-add rate of the device, FLOP/s,
// as the best of a few runs. 0 where it cannot be measured.
func (b *Backend) PeakFMA() float64 {
	blocks := b.device.Multiprocessors * peakBlocks
	for iterations := 16; ; iterations *= 4 {
		flops := float64(blocks) * peakBlock * float64(iterations) * 8 * 16 * 2
		seconds := b.best(4*blocks*peakBlock, func(q *queue, p driver.Pointer) {
			q.launch("gpc_peak_fma", driver.Dim{X: blocks}, peakBlock, 0,
				driver.Address(p), driver.Int32(iterations), driver.Float32(0.999), driver.Float32(0.001))
		})
		if seconds >= peakSeconds || iterations >= peakIterations {
			return flops / seconds
		}
	}
}

// PeakBandwidth measures the sustained rate of a triad over device memory, bytes/s,
// as the best of a few runs. 0 where it cannot be measured.
func (b *Backend) PeakBandwidth() float64 {
	bytes := min(triadBytes, int(b.device.Memory/64)) &^ 255
	return 3 * float64(bytes) / b.best(3*bytes, func(q *queue, p driver.Pointer) {
		q.launch("gpc_peak_triad", driver.Dim{X: b.device.Multiprocessors * peakBlocks}, peakBlock, 0,
			driver.Address(p), driver.Address(p.Offset(bytes)), driver.Address(p.Offset(2*bytes)), driver.Float32(0.5), driver.Int64(bytes/16))
	})
}

// best is the least time of a launch on `bytes` zero bytes of device memory, in
// seconds; infinite where it fails.
func (b *Backend) best(bytes int, launch func(*queue, driver.Pointer)) float64 {
	least := float64(0)
	err := b.execute(func(t *driver.Thread) (err error) {
		p, err := t.Alloc(bytes)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Free(p)) }()
		var events [2]driver.Event
		for i := range events {
			if events[i], err = t.NewEvent(); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, t.DestroyEvent(events[i])) }()
		}
		if err := t.ZeroAsync(p, bytes, b.stream); err != nil {
			return err
		}
		for range peakRepeats {
			q := b.queue(t)
			q.enqueue(func() error { return t.Record(events[0], b.stream) })
			launch(q, p)
			q.enqueue(func() error { return t.Record(events[1], b.stream) })
			q.enqueue(func() error { return t.WaitEvent(events[1]) })
			if q.err != nil {
				return q.err
			}
			ms, err := t.Elapsed(events[0], events[1])
			if err != nil {
				return err
			}
			if s := float64(ms) / 1e3; s > 0 && (least == 0 || s < least) {
				least = s
			}
		}
		return nil
	})
	if err != nil || least == 0 {
		return math.Inf(1)
	}
	return least
}
