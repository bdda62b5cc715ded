// block.h: running the blocks of one launch as fibers.
#pragma once

#include "shim.h"

#include <string>

namespace gpc_shim {

struct Launch {
    const Kernel *kernel;
    uint3 grid, block;
    unsigned shared;
    void **arguments;
};

// run executes every block of the launch, in order, and returns 0 or the CUDA
// error that a device would report, with what happened in `message`.
int run(const Launch &, std::string *message);

// fault ends the running kernel with a CUDA error. Called on a fiber.
[[noreturn]] void fault(int code, const std::string &message);

// The order in which the warps of a block and the lanes of a warp are resumed: 0
// ascending, 1 descending, other values a permutation drawn from the value. A
// kernel without races gives the same result in every order.
extern uint64_t order;

} // namespace gpc_shim
