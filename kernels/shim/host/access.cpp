// access.cpp: records accesses to memory in the checked build. The instrumentation
// is the compiler's own for data races (-fsanitize=thread), whose calls are answered
// here instead of by its library: blocks run one after another, so that a race is an
// order that the program does not ask for, not one that happens.
//
// Two blocks of a kernel conflict where one writes, other than by an atomic, a byte
// that another touches. Two nodes of a graph conflict alike where neither comes
// after the other (streams.cpp).
#include "access.h"
#include "device.h"

namespace gpc_shim {
namespace {

constexpr uint32_t many = ~uint32_t(0);

// Owners are the blocks that touched each byte of a page, from 1; 0 is none.
struct Owners {
    uint32_t reader[access_page], writer[access_page];
};
struct Slot {
    uintptr_t page = 0;
    Owners *owners = nullptr; // nullptr: not memory that is recorded
};

Context *recorded; // nullptr: nothing is recorded
Access *into;
std::unordered_map<uintptr_t, std::unique_ptr<Owners>> pages;
constexpr size_t slots = 256;
Slot cache[slots];
uint32_t running; // number of the running block, from 1; 0: the driver itself

bool overlaps(const std::map<uintptr_t, Allocation> &m, uintptr_t from, uintptr_t to) {
    auto i = m.lower_bound(to);
    return i != m.begin() && (--i)->first + i->second.size > from;
}

bool held(Context *c, uintptr_t p) { return inside(c->memory, p, 1) || inside(c->pinned, p, 1); }

Owners *find(uintptr_t page, Slot &s);

inline Owners *owners_of(uintptr_t page) {
    Slot &s = cache[page % slots];
    return s.page == page ? s.owners : find(page, s);
}

Owners *find(uintptr_t page, Slot &s) {
    uintptr_t from = page * access_page, to = from + access_page;
    s.page = page, s.owners = nullptr;
    if (overlaps(recorded->memory, from, to) || overlaps(recorded->pinned, from, to)) {
        auto &o = pages[page];
        if (!o) o = std::make_unique<Owners>(Owners{});
        s.owners = o.get();
    }
    return s.owners;
}

std::string place(Context *c, uintptr_t p) {
    for (auto *m : {&c->memory, &c->pinned}) {
        auto i = m->upper_bound(p);
        if (i != m->begin() && inside(*m, p, 1)) {
            --i;
            return "byte " + std::to_string(p - i->first) + " of an allocation of " + std::to_string(i->second.size) + " bytes";
        }
    }
    return "";
}

// conflicting tells that the running block may not touch a byte of a page.
void conflicting(uintptr_t a, const Owners *o, bool write) {
    uint32_t r = o->reader[a % access_page], w = o->writer[a % access_page];
    uint32_t other = w && w != running ? w : write && r && r != running ? r : 0;
    if (!other || !held(recorded, a)) return;
    fault(719, "blocks " + std::to_string(running - 1) + " and " + (other == many ? "others" : std::to_string(other - 1)) +
                   " of a kernel both touch " + place(recorded, a) + ", and one writes it");
}

// access is one of the running kernel.
inline void access(uintptr_t p, size_t n, bool write) {
    if (!recorded || !running) return;
    while (n > 0) {
        size_t at = p % access_page, here = std::min(n, access_page - at);
        if (Owners *o = owners_of(p / access_page)) {
            const uint32_t me = running;
            uint32_t *r = o->reader + at, *w = o->writer + at;
            for (size_t i = 0; i < here; i++) {
                if ((w[i] && w[i] != me) || (write && r[i] && r[i] != me)) conflicting(p + i, o, write);
                if (write) w[i] = me;
                else if (r[i] != me) r[i] = r[i] ? many : me;
            }
        }
        p += here, n -= here;
    }
}

} // namespace

Recorder::Recorder(Context *c, Access *to) {
    if (!records) return;
    recorded = c, into = to, running = 0;
}

Recorder::~Recorder() {
    if (!records) return;
    if (into)
        for (auto &[page, owners] : pages) {
            Access::Page &p = into->pages[page];
            for (size_t i = 0; i < access_page; i++) {
                if (owners->reader[i]) p.read.set(i);
                if (owners->writer[i]) p.written.set(i);
            }
        }
    pages.clear();
    std::fill(cache, cache + slots, Slot{});
    recorded = nullptr, into = nullptr;
}

void Recorder::touch(uintptr_t p, size_t n, bool write) {
    if (!records || !into) return;
    for (uintptr_t a = p; a < p + n; a++) {
        Access::Page &page = into->pages[a / access_page];
        (write ? page.written : page.read).set(a % access_page);
    }
}

void Recorder::block(uint32_t number) { running = number + 1; }

std::string conflict(Context *c, const Access &a, const Access &b) {
    for (auto &[page, x] : a.pages) {
        auto i = b.pages.find(page);
        if (i == b.pages.end()) continue;
        auto &y = i->second;
        auto both = (x.written & (y.read | y.written)) | (x.read & y.written);
        for (size_t at = both._Find_first(); at < access_page; at = both._Find_next(at))
            if (held(c, page * access_page + at)) return place(c, page * access_page + at);
    }
    return "";
}

} // namespace gpc_shim

// What the instrumentation calls.
#define HIDDEN extern "C" __attribute__((visibility("hidden"), used))
#define ACCESS(n)                                                                                                  \
    HIDDEN void __tsan_read##n(void *p) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, false); }             \
    HIDDEN void __tsan_write##n(void *p) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, true); }             \
    HIDDEN void __tsan_unaligned_read##n(void *p) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, false); }   \
    HIDDEN void __tsan_unaligned_write##n(void *p) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, true); }   \
    HIDDEN void __tsan_volatile_read##n(void *p) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, false); }    \
    HIDDEN void __tsan_volatile_write##n(void *p) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
HIDDEN void __tsan_read_range(void *p, unsigned long n) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, false); }
HIDDEN void __tsan_write_range(void *p, unsigned long n) { gpc_shim::access(reinterpret_cast<uintptr_t>(p), n, true); }
HIDDEN void *__tsan_memcpy(void *to, const void *from, unsigned long n) {
    gpc_shim::access(reinterpret_cast<uintptr_t>(from), n, false);
    gpc_shim::access(reinterpret_cast<uintptr_t>(to), n, true);
    return std::memcpy(to, from, n);
}
HIDDEN void *__tsan_memmove(void *to, const void *from, unsigned long n) {
    gpc_shim::access(reinterpret_cast<uintptr_t>(from), n, false);
    gpc_shim::access(reinterpret_cast<uintptr_t>(to), n, true);
    return std::memmove(to, from, n);
}
HIDDEN void *__tsan_memset(void *to, int value, unsigned long n) {
    gpc_shim::access(reinterpret_cast<uintptr_t>(to), n, true);
    return std::memset(to, value, n);
}
HIDDEN void __tsan_func_entry(void *) {}
HIDDEN void __tsan_func_exit() {}
HIDDEN void __tsan_init() {}
HIDDEN void __tsan_vptr_update(void **, void *) {}
HIDDEN void __tsan_vptr_read(void **) {}
