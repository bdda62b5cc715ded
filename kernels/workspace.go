package kernels

import (
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// workspace is device memory, and as much pinned memory for what crosses, that
// grows to the largest request. Pieces are placed by fit and are valid until the
// next.
type workspace struct {
	memory
	base  driver.Pointer
	bytes int
	host  *driver.HostMemory
}

// piece is a part of a workspace; host is its place in pinned memory, −1 for none.
type piece struct {
	device      driver.Pointer
	bytes, host int
}

// layoutOf collects the pieces of one operation before their memory is known.
type layoutOf struct {
	device, host int
	reserved     []*piece
}

// reserve is take into a piece that place puts in memory.
func (l *layoutOf) reserve(p *piece, bytes int, crosses bool) {
	*p = l.take(bytes, crosses)
	l.reserved = append(l.reserved, p)
}

// place puts what is reserved in memory of its own.
func (l *layoutOf) place(q *queue, m *memory) (base driver.Pointer, host *driver.HostMemory) {
	base, host = q.alloc(m, l.device), q.allocHost(m, l.host)
	for _, p := range l.reserved {
		p.device += base
	}
	return base, host
}

// take reserves bytes, on 256 bytes, and with crosses as many of pinned memory.
func (l *layoutOf) take(bytes int, crosses bool) piece {
	p := piece{device: driver.Pointer(l.device), bytes: bytes, host: -1}
	l.device += (bytes + 255) / 256 * 256
	if crosses {
		p.host = l.host
		l.host += (bytes + 255) / 256 * 256
	}
	return p
}

// floats reserves n float32 or int32.
func (l *layoutOf) floats(n int, crosses bool) piece { return l.take(4*n, crosses) }

// fit makes the workspace large enough for a layout and places its pieces.
func (w *workspace) fit(t *driver.Thread, l *layoutOf, pieces ...*piece) error {
	if l.device > w.bytes || w.host == nil || l.host > w.host.Bytes() {
		if err := t.Synchronize(); err != nil {
			return err
		}
		device, host := max(l.device, w.bytes), l.host
		if w.host != nil {
			host = max(host, w.host.Bytes())
		}
		if err := w.free(t); err != nil {
			return err
		}
		w.base, w.bytes, w.host = 0, 0, nil
		var err error
		if w.base, err = w.alloc(t, max(device, 256)); err != nil {
			return err
		}
		w.bytes = max(device, 256)
		if w.host, err = w.allocHost(t, host); err != nil {
			return err
		}
	}
	for _, p := range pieces {
		p.device += w.base
	}
	return nil
}

// rowsOf cuts [0, rows) into chunks and calls f for each; a chunk that does not
// fit into device memory is halved, as far as leastChunk rows.
func rowsOf(rows, most int, f func(from, to int) error) error {
	const leastChunk = 32
	chunk := max(1, min(rows, most))
	for from := 0; from < rows; {
		to := min(rows, from+chunk)
		err := f(from, to)
		if driver.IsShort(err) && chunk > leastChunk {
			chunk = max(leastChunk, chunk/2)
			continue
		}
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// upload copies rows [from, to) of a matrix into pinned memory and queues its upload.
// A matrix whose rows are one and the same (stride 0) is one row there. It returns
// the distance between rows on the device.
func (w *workspace) upload(q *queue, m tensor.Matrix, from, to int, p piece) int {
	rows := to - from
	if m.Stride == 0 && m.Rows > 1 {
		rows = 1
	}
	gather(driver.HostSlice[float32](w.host, p.host, rows*m.Cols), m, from, rows)
	q.upload(p.device, w.host, p.host, 4*rows*m.Cols)
	if rows == 1 {
		return 0
	}
	return m.Cols
}

// gather copies rows of a matrix to a place without gaps.
func gather(to []float32, m tensor.Matrix, from, rows int) {
	if m.Stride == m.Cols {
		copy(to, m.Data[from*m.Cols:(from+rows)*m.Cols])
		return
	}
	for i := range rows {
		copy(to[i*m.Cols:(i+1)*m.Cols], m.Row(from+i))
	}
}

// get queues the download of n float32 of a piece.
func (w *workspace) get(q *queue, p piece, n int) { q.download(w.host, p.host, p.device, 4*n) }

// giveNumbers copies downloaded numbers into those from and before to; nothing into none.
func giveNumbers[T driver.Element](w *workspace, dst []T, from, to int, p piece) {
	if dst != nil {
		copy(dst[from:to], driver.HostSlice[T](w.host, p.host, to-from))
	}
}

// flag is a truth as kernels read it.
func flag(v bool) int32 {
	if v {
		return 1
	}
	return 0
}

// give copies downloaded rows, without gaps, into rows [from, to) of a matrix; nothing into one without rows.
func (w *workspace) give(m tensor.Matrix, from, to int, p piece) {
	if m.Rows == 0 {
		return
	}
	values := driver.HostSlice[float32](w.host, p.host, (to-from)*m.Cols)
	if m.Stride == m.Cols {
		copy(m.Data[from*m.Cols:to*m.Cols], values)
		return
	}
	for i := from; i < to; i++ {
		copy(m.Row(i), values[(i-from)*m.Cols:(i-from+1)*m.Cols])
	}
}
