package interrupt

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

func TestReaderReadsAsItsOwnDoes(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 1000)
	require.OK(t, iotest.TestReader(Reader(context.Background(), bytes.NewReader(text)), text))
	if _, err := io.ReadAll(Reader(context.Background(), iotest.ErrReader(os.ErrClosed))); !errors.Is(err, os.ErrClosed) {
		t.Errorf("an error of the reader is given as %v", err)
	}
}

// A pipe that nobody writes to, and one that never ends.
func TestReaderEndsWithItsContext(t *testing.T) {
	silent, _ := io.Pipe()
	for name, r := range map[string]io.Reader{"silent": silent, "endless": endless{}} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := io.Copy(io.Discard, Reader(ctx, r)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
