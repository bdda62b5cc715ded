// Package shim compiles every kernel of the project as C++20 for the host, into a
// library that exports the CUDA driver API's own symbols, and opens it through the
// driver binding that a GPU is reached with. So tests run the whole CUDA path,
// captured graphs included, on a machine without a GPU.
//
// The central type is Library. Open builds and loads it for a test. The threads of
// a block are fibers (host/block.cpp), host/shim.h is the device side of CUDA,
// host/cuda.cpp and host/streams.cpp are the driver side. It is a test double for
// correctness only: nothing about its speed, its rounding of expf and the like, or
// the scheduling of its warps is a GPU's.
//
// It is stricter than a GPU where that finds mistakes. Work on a stream waits until
// something asks for it. Memory starts as NaN. Writes outside an allocation or
// outside shared memory, copies that leave their allocation, pointers to freed
// memory, async copies from memory that is not pinned, shuffles whose lanes do not
// meet and barriers that cannot be passed are errors. Any driver call or kernel can
// be made to fail (Fail), and warps can be run in another order (SetOrder, or
// GPC_SHIM_ORDER in the environment), under which a kernel without races gives the
// same result. With GPC_SHIM_CHECK=1 in the
// environment the compiler also tests the alignment of every access and the bounds
// of every array.
//
// StandIn makes the same library without what only tests see, for programs that take it
// for the driver of a GPU.
//
// It promises no stability to other modules, which use it by package domaintest
// (docs/reference/library.md).
package shim
