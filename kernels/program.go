package kernels

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
)

var _ domain.Accelerator = (*Backend)(nil)

// program runs kernels of a domain's own. Each of its sequences is captured as one
// graph.
type program struct {
	backend *Backend
	names   []string
	memory  *memory
	words   []int
	buffers []driver.Pointer
	host    []*driver.HostMemory
	graphs  keptGraphs[any]
}

// Program implements domain.Accelerator. Kernels that the images lack are a
// *driver.ImageError.
func (b *Backend) Program(folder fs.FS, names ...string) (domain.Program, error) {
	set, err := images.New(folder)
	if err != nil {
		return nil, err
	}
	p := &program{backend: b, names: slices.Clone(names), memory: &memory{}}
	p.graphs.memory = p.memory
	err = b.execute(func(t *driver.Thread) error {
		modules := images.NewModules(set)
		for _, name := range names {
			if _, err := b.kernelOf(t, modules, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(p, func(m *memory) { b.discard(m.free) }, p.memory)
	return p, nil
}

// Reserve implements domain.Program. What does not fit is a *driver.MemoryError and
// leaves the program without memory.
func (p *program) Reserve(words ...int) error {
	grow := len(words) > len(p.words)
	for i, n := range words {
		grow = grow || n > p.words[i]
	}
	if !grow {
		return nil
	}
	for i := range words {
		if i < len(p.words) {
			words[i] = max(words[i], p.words[i])
		}
	}
	return p.backend.execute(func(t *driver.Thread) error {
		if err := t.Synchronize(); err != nil {
			return err
		}
		if err := p.graphs.free(t); err != nil {
			return err
		}
		p.words, p.buffers, p.host = nil, nil, nil
		buffers, host := make([]driver.Pointer, len(words)), make([]*driver.HostMemory, len(words))
		var err error
		for i, n := range words {
			if buffers[i], err = p.memory.alloc(t, max(4*n, 4)); err != nil {
				break
			}
			if host[i], err = p.memory.allocHost(t, 4*n); err != nil {
				break
			}
		}
		if err != nil {
			return errors.Join(err, p.memory.free(t))
		}
		p.words, p.buffers, p.host = slices.Clone(words), buffers, host
		return nil
	})
}

// Host implements domain.Program.
func (p *program) Host(i int) []float32 {
	return driver.HostSlice[float32](p.host[i], 0, p.words[i])
}

// Run implements domain.Program.
func (p *program) Run(key any, fill func(domain.Queue) error) error {
	b := p.backend
	return b.execute(func(t *driver.Thread) error {
		return p.graphs.run(t, b, key, func(q *queue) {
			if err := fill(recording{p, q}); err != nil {
				q.err = err
			}
		})
	})
}

// recording puts what a domain queues on the backend's stream.
type recording struct {
	*program
	queue *queue
}

func (r recording) check(quantity string, buffer, words int) error {
	if buffer < 0 || buffer >= len(r.words) || words < 0 || words > r.words[buffer] {
		return fmt.Errorf("%s of %d words of buffer %d: the program has buffers of %v words", quantity, words, buffer, r.words)
	}
	return nil
}

// Upload implements domain.Queue.
func (r recording) Upload(buffer, words int) error {
	if err := r.check("upload", buffer, words); err != nil {
		return err
	}
	r.queue.upload(r.buffers[buffer], r.host[buffer], 0, 4*words)
	return r.queue.err
}

// Download implements domain.Queue.
func (r recording) Download(buffer, words int) error {
	if err := r.check("download", buffer, words); err != nil {
		return err
	}
	r.queue.download(r.host[buffer], 0, r.buffers[buffer], 4*words)
	return r.queue.err
}

// Launch implements domain.Queue.
func (r recording) Launch(kernel string, blocks, threads, shared int, arguments ...any) error {
	if !slices.Contains(r.names, kernel) {
		return fmt.Errorf("kernel %s is not one of the program's, %v", kernel, r.names)
	}
	passed := make([]driver.Argument, len(arguments))
	for i, a := range arguments {
		switch v := a.(type) {
		case domain.Buffer:
			if err := r.check("address", int(v), 0); err != nil {
				return err
			}
			passed[i] = driver.Address(r.buffers[v])
		case int32:
			passed[i] = driver.Int32(v)
		case float32:
			passed[i] = driver.Float32(v)
		default:
			return fmt.Errorf("kernel %s: argument %d is %T, want domain.Buffer, int32 or float32", kernel, i, a)
		}
	}
	r.queue.launch(kernel, driver.Dim{X: blocks}, threads, shared, passed...)
	return r.queue.err
}
