// access.h: what kernels and copies read and write, in the checked build
// (GPC_SHIM_CHECK=1). There the compiler calls the functions of access.cpp at every
// access of a kernel to memory; elsewhere nothing is recorded.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace gpc_shim {

struct Context;

#ifdef GPC_SHIM_RECORD
constexpr bool records = true;
#else
constexpr bool records = false;
#endif

constexpr uintptr_t access_page = 4096;

// Access is the set of bytes of device and pinned memory that one node touched.
struct Access {
    struct Page {
        std::bitset<access_page> read, written;
    };
    std::unordered_map<uintptr_t, Page> pages;
};

// conflict names a byte of an allocation that one writes and the other touches; ""
// if there is none.
std::string conflict(Context *c, const Access &a, const Access &b);

// While a recorder lives, accesses go into `into`, which may be nullptr: then those
// of a kernel are still held against each other, block by block.
class Recorder {
  public:
    Recorder(Context *c, Access *into);
    ~Recorder();
    // touch notes an access of the driver's own, as a copy makes.
    static void touch(uintptr_t p, size_t n, bool write);
    // block begins the accesses of another block of the running kernel.
    static void block(uint32_t number);
};

} // namespace gpc_shim
