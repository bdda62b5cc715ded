package driver

import "errors"

// ReachPeer lets copies of this context read memory of another device directly, where
// the two can, and tells whether they do. Where they cannot, CopyPeerAsync goes by way
// of the host.
func (t *Thread) ReachPeer(peer *Context) (direct bool, err error) {
	if t.context.device.Ordinal == peer.device.Ordinal { // two contexts of one device
		return false, nil
	}
	direct, err = ask(t, func() (bool, error) {
		return t.driver.CanAccessPeer(t.context.device.Ordinal, peer.device.Ordinal)
	})
	if err != nil || !direct {
		return false, err
	}
	err = t.call(func() error { return t.driver.EnablePeer(peer.handle) })
	var ce *CallError
	if errors.As(err, &ce) && ce.Code == CodePeerEnabled {
		err = nil
	}
	return err == nil, err
}

// CopyPeerAsync queues a copy from memory of another context. What is there has to be
// ready: streams of one context do not wait for those of another.
func (t *Thread) CopyPeerAsync(dst Pointer, peer *Context, src Pointer, bytes int, s Stream) error {
	if err := t.alive(); err != nil || bytes == 0 {
		return err
	}
	return t.check(t.driver.CopyPeerAsync(dst, t.context.handle, src, peer.handle, bytes, s))
}
