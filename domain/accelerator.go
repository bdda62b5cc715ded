package domain

import "io/fs"

// Accelerator is a device that runs kernels of a domain's own, beside the functions
// of Device: a search over plans, say, that is no part of the online step. The CUDA
// backend is one.
type Accelerator interface {
	// Program loads the named kernels from images, a folder as `make kernels` writes
	// it: manifest.json and the compiled files. The kernels' names are unique in the
	// program. Here and in the Program, errors.ErrUnsupported says that there is no
	// device (any more): go on on the CPU.
	Program(images fs.FS, kernels ...string) (Program, error)
}

// Program is some kernels and the memory that they work on. It is used by one
// goroutine. Its memory is numbered buffers of 4-byte words, each with pinned memory
// of the same size on the host.
type Program interface {
	// Reserve makes buffer i hold at least words[i] words. Where one has to grow, all
	// are made again, with undefined contents, and Host's slices end.
	Reserve(words ...int) error
	// Host is buffer i's pinned memory. Kernels see what it holds once Queue.Upload
	// has run.
	Host(i int) []float32
	// Run runs a sequence and waits for it. The sequence of a key is recorded by queue
	// the first time, with the arguments of that time, and repeated from then on until
	// buffers grow: what changes from call to call lies in buffers or in the key.
	Run(key any, queue func(Queue) error) error
}

// Queue is the sequence of a Program being recorded.
type Queue interface {
	// Upload and Download copy the first words of a buffer to the device and back.
	Upload(buffer, words int) error
	Download(buffer, words int) error
	// Launch queues a kernel of blocks × threads with shared bytes of dynamic shared
	// memory. An argument is a Buffer, an int32 or a float32.
	Launch(kernel string, blocks, threads, shared int, arguments ...any) error
}

// Buffer as an argument of a kernel is the device address of that buffer.
type Buffer int
