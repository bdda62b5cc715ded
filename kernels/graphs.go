package kernels

import (
	"cmp"
	"slices"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// recent holds values by their keys; of too many the least recently used goes.
type recent[K comparable, V any] struct {
	values map[K]V
	order  []K // least recently used first
}

// get returns the value of a key, made if it is not there; then the least recently
// used of most values is dropped first.
func (c *recent[K, V]) get(key K, most int, create func() (V, error), drop func(V) error) (V, error) {
	if v, ok := c.values[key]; ok {
		if c.order[len(c.order)-1] != key {
			c.order = append(slices.DeleteFunc(c.order, func(k K) bool { return k == key }), key)
		}
		return v, nil
	}
	var zero V
	if len(c.order) == most {
		if err := drop(c.take(c.order[0])); err != nil {
			return zero, err
		}
	}
	v, err := create()
	if err != nil {
		return zero, err
	}
	if c.values == nil {
		c.values = map[K]V{}
	}
	c.values[key], c.order = v, append(c.order, key)
	return v, nil
}

// take removes the value of a key that is there.
func (c *recent[K, V]) take(key K) V {
	v := c.values[key]
	delete(c.values, key)
	c.order = slices.DeleteFunc(c.order, func(k K) bool { return k == key })
	return v
}

// maxGraphs bounds the graphs that an object keeps which sets no other bound.
const maxGraphs = 16

// keptGraphs holds captured graphs by their keys, on buffers of memory, which frees
// them together.
type keptGraphs[K comparable] struct {
	memory *memory
	most   int // 0: maxGraphs
	recent[K, *driver.Graph]
}

// run launches the graph of a key, captured from what fill puts on a queue if it is
// not there, and waits for it. Where launches are traced it fills the stream itself.
func (c *keptGraphs[K]) run(t *driver.Thread, b *Backend, key K, fill func(*queue)) error {
	if b.trace != nil {
		q := b.queue(t)
		fill(q)
		return q.wait()
	}
	g, err := c.get(key, cmp.Or(c.most, maxGraphs), func() (*driver.Graph, error) {
		g, err := b.capture(t, fill)
		if err == nil {
			c.memory.graphs = append(c.memory.graphs, g)
		}
		return g, err
	}, func(oldest *driver.Graph) error {
		c.memory.graphs = slices.DeleteFunc(c.memory.graphs, func(g *driver.Graph) bool { return g == oldest })
		return t.DestroyGraph(oldest)
	})
	if err != nil {
		return err
	}
	if err := t.LaunchGraph(g, b.stream); err != nil {
		return err
	}
	return t.Wait(b.stream)
}

// free frees the graphs with the memory that they are on.
func (c *keptGraphs[K]) free(t *driver.Thread) error {
	c.recent = recent[K, *driver.Graph]{}
	return c.memory.free(t)
}
