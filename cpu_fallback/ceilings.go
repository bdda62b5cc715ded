package cpufallback

import "github.com/gpc-engine/gpc/cpu_fallback/internal/ceiling"

// PeakFMA measures the multiply-add ceiling of the backend's instruction set on
// all its threads, FLOP/s. It takes about 25 ms.
func (b *Backend) PeakFMA() float64 { return ceiling.FMA(b.pool, b.level) }

// PeakBandwidth measures the STREAM triad on arrays of 64 MiB, bytes/s.
func (b *Backend) PeakBandwidth() float64 { return ceiling.Triad(b.pool, b.level, 1<<24) }
