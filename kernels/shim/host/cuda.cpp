// cuda.cpp: the CUDA driver API's own symbols, as far as kernels/driver calls
// them, over host memory and block.cpp. It is stricter than a GPU where that
// finds bugs: work on a stream is put off until something waits for it, memory
// starts as NaN, every allocation stands between guard zones that are checked
// after each kernel, copies and kernel pointers must lie in live allocations,
// and async copies want pinned memory. Any call can be made to fail.
#include "block.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace gpc_shim {
namespace {

enum : int {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, ECC = 214, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, MISALIGNED = 716, LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNJOINED = 904, CAPTURE_IMPLICIT = 906,
    UNKNOWN = 999,
};

// Errors after which every call on the context fails in the same way.
bool sticky(int code) {
    return code == ECC || code == 46 || code == 220 || (code >= 700 && code <= 719 && code != 701 && code != 704 &&
           code != 705 && code != 708 && code != 711 && code != 712 && code != 713) || code == UNKNOWN;
}

constexpr size_t guard_bytes = 512, alignment = 256;

struct Allocation {
    unsigned char *raw;
    size_t size;
};

// One operation of a stream or node of a graph.
using Work = std::function<int()>;
struct Graph {
    std::vector<Work> nodes;
};
struct Event;
struct Stream {
    bool blocking = true;
    std::vector<Work> queue;
    Graph *capture = nullptr; // not owned while the origin captures
    bool origin = false, invalid = false;
    uint64_t enqueued = 0, executed = 0;
};
struct Event {
    Stream *stream = nullptr;
    uint64_t at = 0; // operations of the stream before it
    Graph *capture = nullptr;
    double time = 0;
    bool recorded = false;
};
struct Context {
    int dead = 0;
    Stream legacy;
    std::set<Stream *> streams;
    std::set<Event *> events;
    std::set<Graph *> graphs, executables;
    std::set<const Kernel **> modules;
    std::map<uintptr_t, Allocation> memory, pinned;
    std::map<const Kernel *, int> shared_limit;
    size_t used = 0;
};
struct Function {
    const Kernel *kernel;
};

std::vector<Kernel> &kernels() {
    static std::vector<Kernel> all;
    return all;
}

std::mutex lock;
bool initialized;
std::set<Context *> contexts;
thread_local std::vector<Context *> stack;

size_t total_memory = size_t(1) << 30;
std::map<int, int> attributes = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {10, 32},
    {12, 65536}, {13, 1410000}, {16, 1}, {36, 1215000}, {37, 5120}, {38, 41943040}, {39, 2048}, {75, 8}, {76, 0},
    {81, 167936}, {82, 65536}, {97, 166912},
};
struct Injected {
    std::string symbol;
    int countdown, code;
};
std::vector<Injected> injected;
std::map<std::string, int> calls;
std::string last_message;

int injected_fault(const std::string &symbol) {
    calls[symbol]++;
    for (auto i = injected.begin(); i != injected.end(); ++i)
        if (i->symbol == symbol && --i->countdown == 0) {
            int code = i->code;
            injected.erase(i);
            last_message = "injected into " + symbol;
            return code;
        }
    return OK;
}

int kill(Context *c, int code) {
    if (sticky(code) && !c->dead) c->dead = code;
    return code;
}

bool inside(const std::map<uintptr_t, Allocation> &m, uintptr_t p, size_t n) {
    auto i = m.upper_bound(p);
    if (i == m.begin()) return false;
    --i;
    return p - i->first <= i->second.size && n <= i->second.size - (p - i->first);
}

bool guards_whole(const Allocation &a) {
    static const std::vector<unsigned char> guard(guard_bytes + alignment, 0xff);
    auto *user = a.raw + guard_bytes;
    return !std::memcmp(a.raw, guard.data(), guard_bytes) && !std::memcmp(user + a.size, guard.data(), guard_bytes);
}

int report(int code, const std::string &message) {
    last_message = message;
    return code;
}

// drain executes what the stream holds; an error kills the context and drops the rest.
int drain(Context *c, Stream *s, uint64_t until = ~uint64_t(0)) {
    while (!s->queue.empty() && s->executed < until) {
        if (c->dead) { s->queue.clear(); break; }
        Work w = std::move(s->queue.front());
        s->queue.erase(s->queue.begin());
        s->executed++;
        if (int e = w()) return kill(c, e);
    }
    return c->dead;
}

int drain_blocking(Context *c) {
    if (int e = drain(c, &c->legacy)) return e;
    for (Stream *s : c->streams)
        if (s->blocking)
            if (int e = drain(c, s)) return e;
    return OK;
}

int drain_all(Context *c) {
    if (int e = drain(c, &c->legacy)) return e;
    for (Stream *s : c->streams)
        if (int e = drain(c, s)) return e;
    return OK;
}

bool capturing_blocking(Context *c) {
    for (Stream *s : c->streams)
        if (s->blocking && s->capture) { s->invalid = true; return true; }
    return false;
}

// enqueue puts work on a stream, or in the graph that the stream captures.
int enqueue(Context *c, Stream *s, Work w) {
    if (s->capture) {
        if (s->invalid) return CAPTURE_INVALIDATED;
        s->capture->nodes.push_back(std::move(w));
        return OK;
    }
    // The legacy stream waits for blocking streams, and they for it.
    if (s == &c->legacy) {
        if (capturing_blocking(c)) return CAPTURE_IMPLICIT;
        if (int e = drain_blocking(c)) return e;
    } else if (s->blocking) {
        if (int e = drain(c, &c->legacy)) return e;
    }
    s->queue.push_back(std::move(w));
    s->enqueued++;
    return OK;
}

int run_kernel(Context *c, const Kernel *k, uint3 grid, uint3 size, unsigned shared, const std::vector<std::vector<unsigned char>> &arguments) {
    for (auto symbol : {std::string("kernel"), std::string(k->name)})
        if (int e = injected_fault(symbol)) return e;
    std::vector<void *> pointers;
    for (int i = 0; i < k->parameters; i++) {
        pointers.push_back(const_cast<unsigned char *>(arguments[i].data()));
        if (k->kinds[i] != 'p') continue;
        uintptr_t p;
        std::memcpy(&p, arguments[i].data(), sizeof p);
        if (p && !inside(c->memory, p, 0) && !inside(c->pinned, p, 0))
            return report(ILLEGAL_ADDRESS, std::string(k->name) + ": argument " + std::to_string(i) + " points to no live allocation");
    }
    std::string message;
    if (int e = run({k, grid, size, shared, pointers.data()}, &message)) return report(e, message);
    for (auto &[p, a] : c->memory)
        if (!guards_whole(a))
            return report(ILLEGAL_ADDRESS, std::string(k->name) + ": a write outside an allocation of " + std::to_string(a.size) + " bytes");
    return OK;
}

Stream *resolve(Context *c, void *stream) {
    if (!stream || stream == reinterpret_cast<void *>(1)) return &c->legacy;
    auto i = c->streams.find(static_cast<Stream *>(stream));
    return i == c->streams.end() ? nullptr : *i;
}

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}

int copy(Context *c, uintptr_t to, uintptr_t from, size_t n, bool to_device, bool from_device) {
    if ((to_device && !inside(c->memory, to, n)) || (from_device && !inside(c->memory, from, n)))
        return report(INVALID_VALUE, "a copy of " + std::to_string(n) + " bytes leaves its device allocation");
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n);
    return OK;
}

int set_memory(Context *c, uintptr_t p, unsigned value, size_t n, size_t width) {
    if (!inside(c->memory, p, n * width) || p % width)
        return report(INVALID_VALUE, "a memset of " + std::to_string(n * width) + " bytes leaves its device allocation or is misaligned");
    for (size_t i = 0; i < n; i++) std::memcpy(reinterpret_cast<void *>(p + i * width), &value, width);
    return OK;
}

int allocate(std::map<uintptr_t, Allocation> &m, size_t n, uintptr_t *out) {
    void *raw = nullptr;
    // The user part is aligned to 256 bytes and, on purpose, to no more.
    if (posix_memalign(&raw, 2 * alignment, guard_bytes + alignment + n + 2 * guard_bytes)) return OUT_OF_MEMORY;
    auto *start = static_cast<unsigned char *>(raw) + alignment;
    std::memset(start, 0xff, n + 2 * guard_bytes);
    *out = reinterpret_cast<uintptr_t>(start + guard_bytes);
    m[*out] = {start, n};
    return OK;
}

void release(const Allocation &a) {
    std::memset(a.raw, 0xff, a.size + 2 * guard_bytes);
    std::free(a.raw - alignment);
}

void destroy(Context *c) {
    for (auto *s : c->streams) delete s;
    for (auto *e : c->events) delete e;
    for (auto *g : c->graphs) delete g;
    for (auto *g : c->executables) delete g;
    for (auto *m : c->modules) delete m;
    for (auto &[p, a] : c->memory) release(a);
    for (auto &[p, a] : c->pinned) release(a);
    contexts.erase(c);
    delete c;
}

} // namespace

void add(const Kernel &k) { kernels().push_back(k); }

} // namespace gpc_shim

using namespace gpc_shim;
using Handle = void *;

// ENTER begins every call on a context: injected faults, then a dead context.
#define ENTER_BARE(symbol)                        \
    std::lock_guard<std::mutex> hold(lock);       \
    if (int e = injected_fault(symbol)) {         \
        if (!stack.empty() && contexts.count(stack.back())) kill(stack.back(), e); \
        return e;                                 \
    }                                             \
    if (!initialized) return NOT_INITIALIZED;
#define ENTER(symbol)                                                               \
    ENTER_BARE(symbol)                                                              \
    if (stack.empty() || !contexts.count(stack.back())) return INVALID_CONTEXT;     \
    [[maybe_unused]] Context *c = stack.back();                                     \
    if (c->dead) return c->dead;
#define STREAM(handle)                 \
    Stream *s = resolve(c, handle);    \
    if (!s) return INVALID_HANDLE;
#define UNCAPTURED                                                        \
    if (s->capture) { s->invalid = true; return CAPTURE_UNSUPPORTED; }

// Initialisation, errors, devices.
EXPORT int cuInit(unsigned flags) {
    std::lock_guard<std::mutex> hold(lock);
    if (int e = injected_fault("cuInit")) return e;
    if (flags) return INVALID_VALUE;
    initialized = true;
    return OK;
}
EXPORT int cuDriverGetVersion(int *version) {
    std::lock_guard<std::mutex> hold(lock);
    if (int e = injected_fault("cuDriverGetVersion")) return e;
    *version = attributes.count(-1) ? attributes[-1] : 12080;
    return OK;
}
EXPORT int cuGetErrorName(int code, const char **name) {
    static const std::map<int, const char *> names = {
        {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"},
        {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {218, "CUDA_ERROR_INVALID_PTX"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
        {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}, {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
        {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}, {999, "CUDA_ERROR_UNKNOWN"},
    };
    auto i = names.find(code);
    *name = i == names.end() ? nullptr : i->second;
    return i == names.end() ? INVALID_VALUE : OK;
}
EXPORT int cuGetErrorString(int code, const char **text) {
    static thread_local std::string held;
    std::lock_guard<std::mutex> hold(lock);
    held = last_message.empty() ? "error " + std::to_string(code) : last_message;
    *text = held.c_str();
    return OK;
}
EXPORT int cuDeviceGetCount(int *count) {
    ENTER_BARE("cuDeviceGetCount")
    *count = attributes.count(-2) ? attributes[-2] : 1;
    return OK;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
    ENTER_BARE("cuDeviceGet")
    int count = attributes.count(-2) ? attributes[-2] : 1;
    if (ordinal < 0 || ordinal >= count) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}
EXPORT int cuDeviceGetName(char *name, int length, int) {
    ENTER_BARE("cuDeviceGetName")
    std::snprintf(name, size_t(length), "gpc host shim");
    return OK;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
    ENTER_BARE("cuDeviceGetAttribute")
    auto i = attributes.find(attribute);
    if (i == attributes.end()) return INVALID_VALUE;
    *value = i->second;
    return OK;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int) {
    ENTER_BARE("cuDeviceTotalMem_v2")
    *bytes = total_memory;
    return OK;
}

// Contexts.
EXPORT int cuCtxCreate_v2(Handle *out, unsigned, int) {
    ENTER_BARE("cuCtxCreate_v2")
    auto *c = new Context;
    contexts.insert(c);
    stack.push_back(c);
    *out = c;
    return OK;
}
EXPORT int cuCtxDestroy_v2(Handle h) {
    ENTER_BARE("cuCtxDestroy_v2")
    auto *c = static_cast<Context *>(h);
    if (!contexts.count(c)) return INVALID_CONTEXT;
    stack.erase(std::remove(stack.begin(), stack.end(), c), stack.end());
    for (auto &[p, a] : c->memory)
        if (!guards_whole(a)) report(ILLEGAL_ADDRESS, "guard zone of an allocation of " + std::to_string(a.size) + " bytes written");
    destroy(c);
    return OK;
}
EXPORT int cuCtxSetCurrent(Handle h) {
    ENTER_BARE("cuCtxSetCurrent")
    if (!stack.empty()) stack.pop_back();
    if (!h) return OK;
    if (!contexts.count(static_cast<Context *>(h))) return INVALID_CONTEXT;
    stack.push_back(static_cast<Context *>(h));
    return OK;
}
EXPORT int cuCtxSynchronize() {
    ENTER("cuCtxSynchronize")
    for (Stream *s : c->streams)
        if (s->capture) { s->invalid = true; return CAPTURE_UNSUPPORTED; }
    return drain_all(c);
}

// Modules and functions.
EXPORT int cuModuleLoadDataEx(Handle *out, const void *image, unsigned, const int *, void **) {
    ENTER("cuModuleLoadDataEx")
    auto *b = static_cast<const char *>(image);
    if (std::memcmp(b, "\x7f" "ELF", 4) && std::memcmp(b, "//", 2) && std::memcmp(b, ".version", 8) && std::memcmp(b, "gpc shim", 8))
        return report(INVALID_IMAGE, "an image that is neither ELF nor PTX");
    auto *m = new const Kernel *(nullptr);
    c->modules.insert(m);
    *out = m;
    return OK;
}
EXPORT int cuModuleUnload(Handle h) {
    ENTER("cuModuleUnload")
    auto i = c->modules.find(static_cast<const Kernel **>(h));
    if (i == c->modules.end()) return INVALID_HANDLE;
    delete *i;
    c->modules.erase(i);
    return OK;
}
EXPORT int cuModuleGetFunction(Handle *out, Handle module, const char *name) {
    ENTER("cuModuleGetFunction")
    if (!c->modules.count(static_cast<const Kernel **>(module))) return INVALID_HANDLE;
    for (auto &k : kernels())
        if (!std::strcmp(k.name, name)) {
            *out = const_cast<Kernel *>(&k);
            return OK;
        }
    return NOT_FOUND;
}
EXPORT int cuFuncSetAttribute(Handle f, int attribute, int value) {
    ENTER("cuFuncSetAttribute")
    if (attribute == 8) {
        if (value < 0 || value > attributes[97]) return INVALID_VALUE;
        c->shared_limit[static_cast<Kernel *>(f)] = value;
    }
    return OK;
}
EXPORT int cuFuncGetAttribute(int *value, int attribute, Handle) {
    ENTER("cuFuncGetAttribute")
    *value = attribute == 0 ? 1024 : 0;
    return OK;
}
EXPORT int cuFuncGetParamInfo(Handle f, size_t index, size_t *offset, size_t *size) {
    ENTER("cuFuncGetParamInfo")
    auto *k = static_cast<Kernel *>(f);
    if (index >= size_t(k->parameters)) return INVALID_VALUE;
    size_t at = 0;
    for (size_t i = 0; i <= index; i++) {
        size_t n = k->sizes[i], a = std::min<size_t>(n & -n, 16);
        at = (at + a - 1) / a * a;
        if (i == index) break;
        at += n;
    }
    *offset = at;
    *size = k->sizes[index];
    return OK;
}
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle, int threads, size_t) {
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor")
    if (threads <= 0) return INVALID_VALUE;
    *blocks = std::min(2048 / threads, 32);
    return OK;
}

// Memory.
EXPORT int cuMemGetInfo_v2(size_t *free, size_t *total) {
    ENTER("cuMemGetInfo_v2")
    *free = total_memory - std::min(c->used, total_memory);
    *total = total_memory;
    return OK;
}
EXPORT int cuMemAlloc_v2(uint64_t *out, size_t n) {
    ENTER("cuMemAlloc_v2")
    if (!n) return INVALID_VALUE;
    if (c->used + n > total_memory) return OUT_OF_MEMORY;
    uintptr_t p;
    if (int e = allocate(c->memory, n, &p)) return e;
    c->used += n;
    *out = p;
    return OK;
}
EXPORT int cuMemFree_v2(uint64_t p) {
    ENTER("cuMemFree_v2")
    auto i = c->memory.find(p);
    if (i == c->memory.end()) return report(INVALID_VALUE, "free of an address that is no allocation");
    if (int e = drain_all(c)) return e;
    bool whole = guards_whole(i->second);
    c->used -= i->second.size;
    release(i->second);
    c->memory.erase(i);
    return whole ? OK : kill(c, report(ILLEGAL_ADDRESS, "a freed allocation was written outside its bounds"));
}
EXPORT int cuMemHostAlloc(void **out, size_t n, unsigned) {
    ENTER("cuMemHostAlloc")
    if (!n) return INVALID_VALUE;
    uintptr_t p;
    if (int e = allocate(c->pinned, n, &p)) return e;
    *out = reinterpret_cast<void *>(p);
    return OK;
}
EXPORT int cuMemFreeHost(void *p) {
    ENTER("cuMemFreeHost")
    auto i = c->pinned.find(reinterpret_cast<uintptr_t>(p));
    if (i == c->pinned.end()) return report(INVALID_VALUE, "free of an address that is no pinned allocation");
    if (int e = drain_all(c)) return e;
    release(i->second);
    c->pinned.erase(i);
    return OK;
}
EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) {
    ENTER("cuMemcpyHtoD_v2")
    if (capturing_blocking(c)) return CAPTURE_IMPLICIT;
    if (int e = drain_blocking(c)) return e;
    return copy(c, to, reinterpret_cast<uintptr_t>(from), n, true, false);
}
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
    ENTER("cuMemcpyDtoH_v2")
    if (capturing_blocking(c)) return CAPTURE_IMPLICIT;
    if (int e = drain_blocking(c)) return e;
    return copy(c, reinterpret_cast<uintptr_t>(to), from, n, false, true);
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, Handle stream) {
    ENTER("cuMemcpyHtoDAsync_v2")
    STREAM(stream)
    auto host = reinterpret_cast<uintptr_t>(from);
    if (!inside(c->pinned, host, n)) return report(INVALID_VALUE, "an async copy from memory that is not pinned");
    if (!inside(c->memory, to, n)) return report(INVALID_VALUE, "an async copy of " + std::to_string(n) + " bytes leaves its device allocation");
    return enqueue(c, s, [=] {
        return inside(c->pinned, host, n) ? copy(c, to, host, n, true, false) : report(ILLEGAL_ADDRESS, "pinned memory freed before its copy ran");
    });
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, Handle stream) {
    ENTER("cuMemcpyDtoHAsync_v2")
    STREAM(stream)
    auto host = reinterpret_cast<uintptr_t>(to);
    if (!inside(c->pinned, host, n)) return report(INVALID_VALUE, "an async copy to memory that is not pinned");
    if (!inside(c->memory, from, n)) return report(INVALID_VALUE, "an async copy of " + std::to_string(n) + " bytes leaves its device allocation");
    return enqueue(c, s, [=] {
        return inside(c->pinned, host, n) ? copy(c, host, from, n, false, true) : report(ILLEGAL_ADDRESS, "pinned memory freed before its copy ran");
    });
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, Handle stream) {
    ENTER("cuMemcpyDtoDAsync_v2")
    STREAM(stream)
    if (!inside(c->memory, to, n) || !inside(c->memory, from, n))
        return report(INVALID_VALUE, "an async copy of " + std::to_string(n) + " bytes leaves its device allocation");
    return enqueue(c, s, [=] { return copy(c, to, from, n, true, true); });
}
EXPORT int cuMemsetD8Async(uint64_t p, unsigned char value, size_t n, Handle stream) {
    ENTER("cuMemsetD8Async")
    STREAM(stream)
    if (!inside(c->memory, p, n)) return report(INVALID_VALUE, "a memset leaves its device allocation");
    return enqueue(c, s, [=] { return set_memory(c, p, value, n, 1); });
}
EXPORT int cuMemsetD32Async(uint64_t p, unsigned value, size_t n, Handle stream) {
    ENTER("cuMemsetD32Async")
    STREAM(stream)
    if (!inside(c->memory, p, n * 4) || p % 4) return report(INVALID_VALUE, "a memset leaves its device allocation");
    return enqueue(c, s, [=] { return set_memory(c, p, value, n, 4); });
}

// Streams and events.
EXPORT int cuStreamCreate(Handle *out, unsigned flags) {
    ENTER("cuStreamCreate")
    auto *s = new Stream;
    s->blocking = !(flags & 1);
    c->streams.insert(s);
    *out = s;
    return OK;
}
EXPORT int cuStreamDestroy_v2(Handle h) {
    ENTER("cuStreamDestroy_v2")
    STREAM(h)
    if (s == &c->legacy) return INVALID_HANDLE;
    int e = drain(c, s);
    for (Event *event : c->events)
        if (event->stream == s) event->stream = nullptr;
    c->streams.erase(s);
    delete s;
    return e;
}
EXPORT int cuStreamSynchronize(Handle h) {
    ENTER("cuStreamSynchronize")
    STREAM(h)
    UNCAPTURED
    return s == &c->legacy ? drain_blocking(c) : drain(c, s);
}
EXPORT int cuStreamQuery(Handle h) {
    ENTER("cuStreamQuery")
    STREAM(h)
    UNCAPTURED
    return drain(c, s);
}
EXPORT int cuStreamWaitEvent(Handle h, Handle event, unsigned) {
    ENTER("cuStreamWaitEvent")
    STREAM(h)
    auto *e = static_cast<Event *>(event);
    if (!c->events.count(e)) return INVALID_HANDLE;
    if (e->capture) { // the stream joins the capture; the graph keeps one order
        s->capture = e->capture;
        return OK;
    }
    if (!e->recorded || !e->stream) return OK;
    Stream *other = e->stream;
    uint64_t at = e->at;
    return enqueue(c, s, [=] { return c->streams.count(other) || other == &c->legacy ? drain(c, other, at) : OK; });
}
EXPORT int cuEventCreate(Handle *out, unsigned) {
    ENTER("cuEventCreate")
    auto *e = new Event;
    c->events.insert(e);
    *out = e;
    return OK;
}
EXPORT int cuEventDestroy_v2(Handle h) {
    ENTER("cuEventDestroy_v2")
    auto *e = static_cast<Event *>(h);
    if (!c->events.count(e)) return INVALID_HANDLE;
    if (int err = drain_all(c)) return err;
    c->events.erase(e);
    delete e;
    return OK;
}
EXPORT int cuEventRecord(Handle h, Handle stream) {
    ENTER("cuEventRecord")
    STREAM(stream)
    auto *e = static_cast<Event *>(h);
    if (!c->events.count(e)) return INVALID_HANDLE;
    if (s->capture) {
        e->capture = s->capture;
        return OK;
    }
    e->capture = nullptr;
    e->stream = s;
    e->recorded = true;
    int err = enqueue(c, s, [=] { return e->time = now(), OK; });
    e->at = s->enqueued;
    return err;
}
EXPORT int cuEventSynchronize(Handle h) {
    ENTER("cuEventSynchronize")
    auto *e = static_cast<Event *>(h);
    if (!c->events.count(e)) return INVALID_HANDLE;
    return e->recorded && e->stream ? drain(c, e->stream, e->at) : OK;
}
EXPORT int cuEventQuery(Handle h) {
    ENTER("cuEventQuery")
    auto *e = static_cast<Event *>(h);
    if (!c->events.count(e)) return INVALID_HANDLE;
    return e->recorded && e->stream ? drain(c, e->stream, e->at) : OK;
}
EXPORT int cuEventElapsedTime(float *ms, Handle from, Handle to) {
    ENTER("cuEventElapsedTime")
    auto *a = static_cast<Event *>(from), *b = static_cast<Event *>(to);
    if (!c->events.count(a) || !c->events.count(b) || !a->recorded || !b->recorded) return INVALID_HANDLE;
    for (Event *e : {a, b})
        if (e->stream && e->stream->executed < e->at) return NOT_READY;
    *ms = float(b->time - a->time);
    return OK;
}

// Launches and graphs.
EXPORT int cuLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, Handle stream, void **arguments, void **) {
    ENTER("cuLaunchKernel")
    STREAM(stream)
    auto *k = static_cast<const Kernel *>(f);
    if (!gx || !gy || !gz || !bx || !by || !bz || gx > 2147483647u || gy > 65535 || gz > 65535 || bx > 1024 || by > 1024 ||
        bz > 64 || uint64_t(bx) * by * bz > 1024)
        return report(INVALID_VALUE, std::string(k->name) + ": grid or block out of range");
    auto limit = c->shared_limit.find(k);
    if (shared > unsigned(limit == c->shared_limit.end() ? attributes[8] : limit->second))
        return report(INVALID_VALUE, std::string(k->name) + ": " + std::to_string(shared) + " bytes of dynamic shared memory, more than the function's limit");
    std::vector<std::vector<unsigned char>> values;
    for (int i = 0; i < k->parameters; i++) {
        auto *p = static_cast<unsigned char *>(arguments[i]);
        values.emplace_back(p, p + k->sizes[i]);
    }
    return enqueue(c, s, [=, values = std::move(values)] { return run_kernel(c, k, {gx, gy, gz}, {bx, by, bz}, shared, values); });
}
EXPORT int cuStreamBeginCapture_v2(Handle h, int mode) {
    ENTER("cuStreamBeginCapture_v2")
    STREAM(h)
    if (mode < 0 || mode > 2) return INVALID_VALUE;
    if (s == &c->legacy) return CAPTURE_UNSUPPORTED;
    if (s->capture) return INVALID_VALUE;
    s->capture = new Graph;
    c->graphs.insert(s->capture);
    s->origin = true;
    s->invalid = false;
    return OK;
}
EXPORT int cuStreamEndCapture(Handle h, Handle *out) {
    *out = nullptr;
    std::lock_guard<std::mutex> hold(lock);
    if (!initialized) return NOT_INITIALIZED;
    if (stack.empty() || !contexts.count(stack.back())) return INVALID_CONTEXT;
    Context *c = stack.back();
    // The capture ends even when the call fails.
    int injected = kill(c, injected_fault("cuStreamEndCapture"));
    if (!injected && c->dead) return c->dead;
    STREAM(h)
    if (!s->capture || !s->origin) return injected ? injected : int(INVALID_VALUE);
    Graph *g = s->capture;
    bool invalid = s->invalid;
    for (Stream *other : c->streams)
        if (other->capture == g) {
            invalid = invalid || other->invalid;
            other->capture = nullptr;
            other->origin = other->invalid = false;
        }
    for (Event *e : c->events)
        if (e->capture == g) e->capture = nullptr;
    if (invalid || injected) {
        c->graphs.erase(g);
        delete g;
        return injected ? injected : int(CAPTURE_INVALIDATED);
    }
    *out = g;
    return OK;
}
EXPORT int cuGraphInstantiateWithFlags(Handle *out, Handle graph, unsigned long long) {
    ENTER("cuGraphInstantiateWithFlags")
    auto *g = static_cast<Graph *>(graph);
    if (!c->graphs.count(g)) return INVALID_HANDLE;
    auto *e = new Graph(*g);
    c->executables.insert(e);
    *out = e;
    return OK;
}
EXPORT int cuGraphLaunch(Handle exec, Handle stream) {
    ENTER("cuGraphLaunch")
    STREAM(stream)
    auto *g = static_cast<Graph *>(exec);
    if (!c->executables.count(g)) return INVALID_HANDLE;
    if (s->capture) return CAPTURE_UNSUPPORTED;
    return enqueue(c, s, [=] {
        if (!c->executables.count(g)) return report(ILLEGAL_ADDRESS, "a graph destroyed before it ran");
        for (auto &node : g->nodes)
            if (int e = node()) return e;
        return int(OK);
    });
}
EXPORT int cuGraphExecDestroy(Handle exec) {
    ENTER("cuGraphExecDestroy")
    auto *g = static_cast<Graph *>(exec);
    if (!c->executables.count(g)) return INVALID_HANDLE;
    if (int e = drain_all(c)) return e;
    c->executables.erase(g);
    delete g;
    return OK;
}
EXPORT int cuGraphDestroy(Handle graph) {
    ENTER("cuGraphDestroy")
    auto *g = static_cast<Graph *>(graph);
    if (!c->graphs.count(g)) return INVALID_HANDLE;
    c->graphs.erase(g);
    delete g;
    return OK;
}

// What only the shim has: for tests.

// gpc_shim_fail makes the n-th call from now of a driver symbol, or the n-th
// execution of a kernel ("kernel", or its name), fail with a CUDA error.
EXPORT void gpc_shim_fail(const char *symbol, int n, int code) {
    std::lock_guard<std::mutex> hold(lock);
    injected.push_back({symbol, n, code});
}
// gpc_shim_reset forgets injected faults, counts, attributes set and the order.
EXPORT void gpc_shim_reset() {
    static const auto original = attributes;
    static bool first = true;
    std::lock_guard<std::mutex> hold(lock);
    if (!first) attributes = original;
    first = false;
    injected.clear();
    calls.clear();
    last_message.clear();
    order = 0;
    total_memory = size_t(1) << 30;
}
EXPORT int gpc_shim_calls(const char *symbol) {
    std::lock_guard<std::mutex> hold(lock);
    return calls[symbol];
}
// gpc_shim_attribute sets a device attribute; −1 is the driver's version, −2 the
// number of devices.
EXPORT void gpc_shim_attribute(int attribute, int value) {
    std::lock_guard<std::mutex> hold(lock);
    attributes[attribute] = value;
}
EXPORT void gpc_shim_memory(uint64_t bytes) {
    std::lock_guard<std::mutex> hold(lock);
    total_memory = bytes;
}
EXPORT void gpc_shim_order(uint64_t o) {
    std::lock_guard<std::mutex> hold(lock);
    order = o;
}
// gpc_shim_allocations counts live device and pinned allocations of all contexts.
EXPORT int gpc_shim_allocations() {
    std::lock_guard<std::mutex> hold(lock);
    size_t n = 0;
    for (auto *c : contexts) n += c->memory.size() + c->pinned.size();
    return int(n);
}
// gpc_shim_parameter_kind is 'p', 'f', 'i', 'u' or 's' for a kernel's argument, 0 past the last.
EXPORT int gpc_shim_parameter_kind(Handle f, int index) {
    auto *k = static_cast<Kernel *>(f);
    return index < k->parameters ? k->kinds[index] : 0;
}
// gpc_shim_kernel names the index-th registered kernel, null past the last.
EXPORT const char *gpc_shim_kernel(int index) {
    return size_t(index) < kernels().size() ? kernels()[size_t(index)].name : nullptr;
}
EXPORT const char *gpc_shim_message() {
    static thread_local std::string held;
    std::lock_guard<std::mutex> hold(lock);
    held = last_message;
    return held.c_str();
}
