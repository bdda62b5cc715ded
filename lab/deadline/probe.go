package deadline

import (
	"runtime/metrics"
	"slices"
)

// probe reads what the collector has done so far, without memory of its own in the loop.
type probe struct{ all, one []metrics.Sample }

// collectorMetrics are in the order of collected's fields.
var collectorMetrics = []string{"/gc/cycles/total:gc-cycles", "/gc/heap/allocs:bytes", "/sched/pauses/total/gc:seconds"}

func newProbe() *probe {
	p := &probe{}
	for _, name := range collectorMetrics {
		p.all = append(p.all, metrics.Sample{Name: name})
	}
	p.one = slices.Clone(p.all[:1])
	return p
}

// cycles are those that have ended.
func (p *probe) cycles() uint64 {
	metrics.Read(p.one)
	return p.one[0].Value.Uint64()
}

// collected is a reading.
type collected struct {
	cycles, allocated uint64
	pauses            *metrics.Float64Histogram
}

func (p *probe) read() collected {
	metrics.Read(p.all)
	pauses := *p.all[2].Value.Float64Histogram()
	pauses.Counts = slices.Clone(pauses.Counts)
	return collected{p.all[0].Value.Uint64(), p.all[1].Value.Uint64(), &pauses}
}

// sub is what the collector did after an earlier reading.
func (c collected) sub(earlier collected) Collector {
	k := Collector{Cycles: int(c.cycles - earlier.cycles), Allocated: float64(c.allocated - earlier.allocated)}
	for i, n := range c.pauses.Counts {
		if n -= earlier.pauses.Counts[i]; n > 0 {
			k.Pauses += int(n)
			k.LongestPause = 1e6 * c.pauses.Buckets[i+1]
		}
	}
	return k
}
