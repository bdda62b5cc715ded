// device.h: what the device of the shim consists of: contexts, memory between guard
// zones, streams whose work is put off until something waits for it, and faults
// that tests inject. cuda.cpp and streams.cpp are the driver API over it, test.cpp
// what only tests call.
#pragma once

#include "access.h"
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

enum : int {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
    INVALID_IMAGE = 200, INVALID_CONTEXT = 201, ECC = 214, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600,
    ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, MISALIGNED = 716, LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNJOINED = 904, CAPTURE_IMPLICIT = 906,
    UNKNOWN = 999,
};

// Errors after which every call on the context fails in the same way.
inline bool sticky(int code) {
    return code == ECC || code == 46 || code == 220 || code == 226 || code == 721 || (code >= 700 && code <= 719 && code != 701 && code != 704 &&
           code != 705 && code != 708 && code != 711 && code != 712 && code != 713) || code == UNKNOWN;
}

constexpr size_t guard_bytes = 512, alignment = 256;

struct Allocation {
    unsigned char *raw;
    size_t size;
    bool mapped = false; // pinned memory that kernels reach
};

// One operation of a stream or node of a graph.
using Work = std::function<int()>;
// A node comes after the nodes that it names, all of which come before it in the list.
struct Node {
    Work work;
    std::vector<size_t> after;
    std::string name;
};
struct Graph {
    std::vector<Node> nodes;
    int checked = 0; // launches whose accesses were recorded
};
struct Event;
struct Stream {
    bool blocking = true;
    std::vector<Work> queue;
    Graph *capture = nullptr; // not owned while the origin captures
    std::vector<size_t> tail; // the nodes that the next one captured comes after
    bool origin = false, invalid = false;
    uint64_t enqueued = 0, executed = 0;
};
struct Event {
    Stream *stream = nullptr;
    uint64_t at = 0; // operations of the stream before it
    Graph *capture = nullptr;
    std::vector<size_t> tail; // as of the stream, while it captures
    double time = 0;
    bool recorded = false;
};
struct Context {
    int device = 0;
    int dead = 0;
    bool maps = false; // pinned memory may be mapped
    Stream legacy;
    std::set<Stream *> streams;
    std::set<Event *> events;
    std::set<Graph *> graphs, executables;
    std::set<const Kernel **> modules;
    std::map<uintptr_t, Allocation> memory, pinned;
    std::map<const Kernel *, int> shared_limit;
    size_t used = 0;
};

inline std::vector<Kernel> &kernels() {
    static std::vector<Kernel> all;
    return all;
}

// static_shared is the shared memory that kernels have of their own, in bytes, as their
// cubins for sm_90 say; a kernel without any is left out (generated, kernels/shim/build.go).
extern const std::map<std::string, int> static_shared;

inline int static_of(const Kernel *k) {
    auto i = static_shared.find(k->name);
    return i == static_shared.end() ? 0 : i->second;
}

inline std::mutex lock;
inline bool initialized;
inline std::set<Context *> contexts;
inline thread_local std::vector<Context *> stack;

inline size_t total_memory = size_t(1) << 30;
// first_attributes are those of the device, with what GPC_SHIM_ATTRIBUTES changes.
inline std::map<int, int> first_attributes() {
    std::map<int, int> all = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {10, 32},
        {12, 65536}, {13, 1410000}, {16, 1}, {36, 1215000}, {37, 5120}, {38, 41943040}, {39, 2048}, {75, 8}, {76, 0},
        {81, 167936}, {82, 65536}, {97, 166912},
    };
    for (const char *at = std::getenv("GPC_SHIM_ATTRIBUTES"); at && *at;) {
        int attribute, value, length = 0;
        if (std::sscanf(at, "%d=%d%n", &attribute, &value, &length) != 2) break;
        all[attribute] = value;
        at += length;
        if (*at == ',') at++;
    }
    return all;
}
inline std::map<int, int> attributes = first_attributes();
struct Injected {
    int device; // whose calls count; −1: those of every one
    std::string symbol;
    int countdown, code;
};
inline std::vector<Injected> injected;
inline std::map<std::string, int> calls;
inline std::string last_message;

// device_count is attribute −2: one device unless it says otherwise.
inline int device_count() { return attributes.count(-2) ? attributes[-2] : 1; }

inline int injected_fault(const std::string &symbol) {
    calls[symbol]++;
    const int device = stack.empty() || !contexts.count(stack.back()) ? -1 : stack.back()->device;
    for (auto i = injected.begin(); i != injected.end(); ++i)
        if (i->symbol == symbol && (i->device < 0 || i->device == device) && --i->countdown == 0) {
            int code = i->code;
            injected.erase(i);
            last_message = "injected into " + symbol;
            return code;
        }
    return OK;
}

inline int kill(Context *c, int code) {
    if (sticky(code) && !c->dead) c->dead = code;
    return code;
}

inline bool inside(const std::map<uintptr_t, Allocation> &m, uintptr_t p, size_t n) {
    auto i = m.upper_bound(p);
    if (i == m.begin()) return false;
    --i;
    return p - i->first <= i->second.size && n <= i->second.size - (p - i->first);
}

// mapped tells whether p lies in pinned memory that kernels reach.
inline bool mapped(const Context *c, uintptr_t p) {
    auto i = c->pinned.upper_bound(p);
    return inside(c->pinned, p, 0) && (--i)->second.mapped;
}

inline bool guards_whole(const Allocation &a) {
    static const std::vector<unsigned char> guard(guard_bytes + alignment, 0xff);
    auto *user = a.raw + guard_bytes;
    return !std::memcmp(a.raw, guard.data(), guard_bytes) && !std::memcmp(user + a.size, guard.data(), guard_bytes);
}

inline int report(int code, const std::string &message) {
    last_message = message;
    return code;
}

// drain executes what the stream holds; an error kills the context and drops the rest.
inline int drain(Context *c, Stream *s, uint64_t until = ~uint64_t(0)) {
    while (!s->queue.empty() && s->executed < until) {
        if (c->dead) { s->queue.clear(); break; }
        Work w = std::move(s->queue.front());
        s->queue.erase(s->queue.begin());
        s->executed++;
        if (int e = w()) return kill(c, e);
    }
    return c->dead;
}

inline int drain_blocking(Context *c) {
    if (int e = drain(c, &c->legacy)) return e;
    for (Stream *s : c->streams)
        if (s->blocking)
            if (int e = drain(c, s)) return e;
    return OK;
}

inline int drain_all(Context *c) {
    if (int e = drain(c, &c->legacy)) return e;
    for (Stream *s : c->streams)
        if (int e = drain(c, s)) return e;
    return OK;
}

inline bool capturing_blocking(Context *c) {
    for (Stream *s : c->streams)
        if (s->blocking && s->capture) { s->invalid = true; return true; }
    return false;
}

// enqueue puts work on a stream, or in the graph that the stream captures.
inline int enqueue(Context *c, Stream *s, const std::string &name, Work w) {
    if (s->capture) {
        if (s->invalid) return CAPTURE_INVALIDATED;
        auto &nodes = s->capture->nodes;
        nodes.push_back({std::move(w), s->tail, name});
        s->tail = {nodes.size() - 1};
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

inline int run_kernel(Context *c, const Kernel *k, uint3 grid, uint3 size, unsigned shared, const std::vector<std::vector<unsigned char>> &arguments, Access *accesses) {
    for (auto symbol : {std::string("kernel"), std::string(k->name)})
        if (int e = injected_fault(symbol)) return e;
    std::vector<void *> pointers;
    for (int i = 0; i < k->parameters; i++) {
        pointers.push_back(const_cast<unsigned char *>(arguments[i].data()));
        if (k->kinds[i] != 'p') continue;
        uintptr_t p;
        std::memcpy(&p, arguments[i].data(), sizeof p);
        if (p && !inside(c->memory, p, 0) && !mapped(c, p))
            return report(ILLEGAL_ADDRESS, std::string(k->name) + ": argument " + std::to_string(i) + " points to no live allocation");
    }
    std::string message;
    Recorder recorder(c, accesses);
    if (int e = run({k, grid, size, shared, pointers.data()}, &message)) return report(e, message);
    for (auto *m : {&c->memory, &c->pinned})
        for (auto &[p, a] : *m)
            if (!guards_whole(a))
                return report(ILLEGAL_ADDRESS, std::string(k->name) + ": a write outside an allocation of " + std::to_string(a.size) + " bytes");
    return OK;
}

inline Stream *resolve(Context *c, void *stream) {
    if (!stream || stream == reinterpret_cast<void *>(1)) return &c->legacy;
    auto i = c->streams.find(static_cast<Stream *>(stream));
    return i == c->streams.end() ? nullptr : *i;
}

inline double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) * 1e3 + double(t.tv_nsec) * 1e-6;
}

inline int copy(Context *c, uintptr_t to, uintptr_t from, size_t n, bool to_device, bool from_device) {
    if ((to_device && !inside(c->memory, to, n)) || (from_device && !inside(c->memory, from, n)))
        return report(INVALID_VALUE, "a copy of " + std::to_string(n) + " bytes leaves its device allocation");
    Recorder::touch(from, n, false);
    Recorder::touch(to, n, true);
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n);
    return OK;
}

inline int set_memory(Context *c, uintptr_t p, unsigned value, size_t n, size_t width) {
    if (!inside(c->memory, p, n * width) || p % width)
        return report(INVALID_VALUE, "a memset of " + std::to_string(n * width) + " bytes leaves its device allocation or is misaligned");
    Recorder::touch(p, n * width, true);
    for (size_t i = 0; i < n; i++) std::memcpy(reinterpret_cast<void *>(p + i * width), &value, width);
    return OK;
}

inline int allocate(std::map<uintptr_t, Allocation> &m, size_t n, uintptr_t *out) {
    void *raw = nullptr;
    // The user part is aligned to 256 bytes and, on purpose, to no more.
    if (posix_memalign(&raw, 2 * alignment, guard_bytes + alignment + n + 2 * guard_bytes)) return OUT_OF_MEMORY;
    auto *start = static_cast<unsigned char *>(raw) + alignment;
    std::memset(start, 0xff, n + 2 * guard_bytes);
    *out = reinterpret_cast<uintptr_t>(start + guard_bytes);
    m[*out] = {start, n};
    return OK;
}

inline void release(const Allocation &a) {
    std::memset(a.raw, 0xff, a.size + 2 * guard_bytes);
    std::free(a.raw - alignment);
}

inline void destroy(Context *c) {
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

