package dataset

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Thrift (compact protocol) type codes.
const (
	thriftTrue = iota + 1
	thriftFalse
	thriftByte
	thriftInt16
	thriftInt32
	thriftInt64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
	thriftUUID
)

// checkThrift walks one struct in thrift's compact encoding. It refuses list and string lengths beyond the bytes,
// deep nesting, and more list elements than any dataset has. A decoder allocates by those lengths before it sees the
// elements.
func checkThrift(b []byte) error {
	w := thriftWalker{left: b, elements: 1 << 18}
	return w.structure(0)
}

type thriftWalker struct {
	left     []byte
	elements int
}

func (w *thriftWalker) byte() (byte, error) {
	if len(w.left) == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	b := w.left[0]
	w.left = w.left[1:]
	return b, nil
}

func (w *thriftWalker) uvarint() (uint64, error) {
	v, n := binary.Uvarint(w.left)
	if n <= 0 {
		return 0, fmt.Errorf("malformed integer")
	}
	w.left = w.left[n:]
	return v, nil
}

func (w *thriftWalker) skip(n uint64) error {
	if n > uint64(len(w.left)) {
		return fmt.Errorf("a length of %d bytes where %d are left", n, len(w.left))
	}
	w.left = w.left[n:]
	return nil
}

func (w *thriftWalker) structure(depth int) error {
	if depth > 16 {
		return fmt.Errorf("nested deeper than 16 structures")
	}
	for {
		b, err := w.byte()
		if err != nil {
			return err
		}
		kind := b & 15
		if kind == 0 {
			return nil
		}
		if b>>4 == 0 { // field id follows
			if _, err := w.uvarint(); err != nil {
				return err
			}
		}
		if kind == thriftTrue || kind == thriftFalse {
			continue // the value of a boolean field is its type
		}
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
}

func (w *thriftWalker) value(kind byte, depth int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return w.skip(1)
	case thriftInt16, thriftInt32, thriftInt64:
		_, err := w.uvarint()
		return err
	case thriftDouble:
		return w.skip(8)
	case thriftUUID:
		return w.skip(16)
	case thriftBinary:
		n, err := w.uvarint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case thriftStruct:
		return w.structure(depth + 1)
	case thriftList, thriftSet:
		b, err := w.byte()
		if err != nil {
			return err
		}
		n := uint64(b >> 4)
		if n == 15 {
			if n, err = w.uvarint(); err != nil {
				return err
			}
		}
		if n > uint64(len(w.left)) || n > uint64(w.elements) || n > math.MaxInt32 {
			return fmt.Errorf("a list of %d elements where %d bytes are left", n, len(w.left))
		}
		w.elements -= int(n)
		for range n {
			if err := w.value(b&15, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("a value of the unexpected type %d", kind)
	}
}
