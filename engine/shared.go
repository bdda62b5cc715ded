package engine

import (
	"sync"
	"sync/atomic"

	"github.com/gpc-engine/gpc/kernels"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// A process opens one context a device, whatever the number of its engines: workers
// that run side by side share its goroutine, its kernels and its memory, and each
// makes objects of its own. A context that is lost is not given out again.
var contexts = struct {
	sync.Mutex
	open map[contextKey]*sharedContext
}{open: map[contextKey]*sharedContext{}}

// contextKey names a backend that may be shared.
type contextKey struct {
	driver, library string
	device          int
	options         kernels.Options
}

type sharedContext struct {
	backend  *kernels.Backend
	users    int
	lossTold atomic.Bool // somebody was told of its loss
}

// lease is one engine's part of a shared backend.
type lease struct {
	*kernels.Backend
	key     contextKey
	shared  *sharedContext
	closing sync.Once
}

// share gives the open backend of a device, or opens it.
func share(d driver.Driver, device int, options kernels.Options) (*lease, error) {
	key := contextKey{d.Name(), d.Library(), device, options}
	contexts.Lock()
	defer contexts.Unlock()
	s := contexts.open[key]
	if s == nil || s.backend.Context().Lost() != nil {
		context, err := driver.Open(d, device)
		if err != nil {
			return nil, err
		}
		b, err := kernels.New(context, options)
		if err != nil {
			return nil, err
		}
		s = &sharedContext{backend: b}
		contexts.open[key] = s
	}
	s.users++
	return &lease{Backend: s.backend, key: key, shared: s}, nil
}

// markLoss notes that the loss of the context is told, and whether it was before.
func (l *lease) markLoss() bool { return l.shared.lossTold.Swap(true) }

// Close gives the part back. The last one ends the context.
func (l *lease) Close() (err error) {
	l.closing.Do(func() {
		contexts.Lock()
		defer contexts.Unlock()
		l.shared.users--
		if l.shared.users > 0 {
			return
		}
		if contexts.open[l.key] == l.shared {
			delete(contexts.open, l.key)
		}
		err = l.shared.backend.Close()
	})
	return err
}
