// block.cpp: the threads of a block as fibers. A fiber runs until its thread
// waits (__syncthreads, a shuffle) or returns; the scheduler, on the caller's own
// stack, resumes warp by warp, lane by lane, in an order fixed by `order`.
#include "access.h"
#include "block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

// gpc_shim_switch(save, to) stores the callee-saved registers on the running
// stack, its pointer in *save, and continues on the stack `to`.
#if defined(__x86_64__)
asm(R"(
.text
.globl gpc_shim_switch
.hidden gpc_shim_switch
.type gpc_shim_switch,@function
gpc_shim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size gpc_shim_switch,.-gpc_shim_switch
)");
static void **first_frame(unsigned char *top, void (*entry)()) {
    // At entry the stack pointer is 8 below a multiple of 16, as after a call.
    void **sp = reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15)) - 8;
    std::fill(sp, sp + 8, nullptr);
    sp[6] = reinterpret_cast<void *>(entry);
    return sp;
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl gpc_shim_switch
.hidden gpc_shim_switch
.type gpc_shim_switch,%function
gpc_shim_switch:
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    ret
.size gpc_shim_switch,.-gpc_shim_switch
)");
static void **first_frame(unsigned char *top, void (*entry)()) {
    void **sp = reinterpret_cast<void **>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15)) - 20;
    std::fill(sp, sp + 20, nullptr);
    sp[1] = reinterpret_cast<void *>(entry);
    return sp;
}
#else
#error "the shim switches stacks on x86-64 and aarch64 only"
#endif
extern "C" void gpc_shim_switch(void ***save, void **to);

namespace gpc_shim {

Position *current;
uint3 block, block_size, grid_size;
unsigned char *dynamic_shared;
uint64_t order;

namespace {

constexpr size_t max_threads = 1024, page = 4096;
// An odd number of pages, and a start that differs within the page, keep the
// stacks of a block from sharing cache sets.
constexpr size_t stack_pages = 65;
constexpr size_t guard_bytes = 1024;

struct Fiber {
    void **sp;
};

struct Thread : Position {
    Fiber *fiber;
    Operation operation;
    unsigned mask;
    int source;
    uint64_t value, result;
};

// Warp holds what its lanes do, one bit for a lane: ready to run, not begun, waiting
// in an exchange, waiting at the barrier. A lane in none of these has returned, or
// runs. Bits are places in the order in which lanes are resumed.
struct Warp {
    unsigned ready, fresh, exchanging, at_barrier;
};

Thread threads[max_threads];
Warp warps[max_threads / 32], whole[max_threads / 32]; // whole: as at the start of a block
int place_of[32], lane_at[32];                         // lane → place and back
std::vector<int> warp_order;
Fiber fibers[max_threads];
std::vector<Fiber *> idle;
unsigned char *stacks;
void **scheduler;
const Launch *launch;
int thread_count;
int failure;
std::string failure_message;
std::vector<unsigned char> shared_memory, guard(guard_bytes, 0xff);

Thread *self() { return static_cast<Thread *>(current); }
size_t warp_of(const Thread *t) { return size_t(t - threads) / 32; }
int place_in_warp(const Thread *t) { return place_of[size_t(t - threads) % 32]; }

// begin makes the next ready lane of a warp, at or after a place, the running one
// and gives its stack, which may be that of the lane that calls, if it has returned.
void **begin(size_t w, int from, Fiber *free) {
    Warp &warp = warps[w];
    unsigned later = from < 32 ? warp.ready >> from << from : 0;
    int place = __builtin_ctz(later ? later : warp.ready);
    unsigned bit = 1u << place;
    Thread &t = threads[w * 32 + size_t(lane_at[place])];
    warp.ready &= ~bit;
    if (warp.fresh & bit) {
        warp.fresh &= ~bit;
        if (free) {
            t.fiber = free;
        } else {
            t.fiber = idle.back();
            idle.pop_back();
        }
    } else if (free) {
        idle.push_back(free);
    }
    current = &t;
    return t.fiber->sp;
}

// suspend lets the other lanes of the warp run, and then the scheduler.
void suspend() {
    Thread *t = self();
    size_t w = warp_of(t);
    void **to = warps[w].ready && !failure ? begin(w, place_in_warp(t) + 1, nullptr) : scheduler;
    gpc_shim_switch(&t->fiber->sp, to);
}

void fiber_main() {
    for (;;) {
        launch->kernel->call(launch->kernel->function, launch->arguments);
        Thread *t = self();
        Fiber *own = t->fiber;
        size_t w = warp_of(t);
        if (!warps[w].ready || failure) {
            idle.push_back(own);
            gpc_shim_switch(&own->sp, scheduler);
            continue;
        }
        void **to = begin(w, place_in_warp(t) + 1, own);
        if (self()->fiber != own) gpc_shim_switch(&own->sp, to);
    }
}

void make_fibers() {
    const size_t stride = stack_pages * page;
    if (!stacks) {
        void *m = mmap(nullptr, max_threads * stride, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED) abort();
        stacks = static_cast<unsigned char *>(m);
        for (size_t i = 0; i < max_threads; i++)
            if (mprotect(stacks + i * stride, page, PROT_NONE)) abort();
    }
    idle.clear();
    for (size_t i = max_threads; i-- > 0;) {
        fibers[i].sp = first_frame(stacks + (i + 1) * stride - (i * 320) % page, fiber_main);
        idle.push_back(&fibers[i]);
    }
}

std::string where() {
    return std::string(launch->kernel->name) + ", block (" + std::to_string(block.x) + "," + std::to_string(block.y) + ")";
}

void fail(int code, const std::string &message) {
    if (!failure) {
        failure = code;
        failure_message = message;
    }
}

// complete finishes the exchange in which the lane at a place waits, if every lane
// that its mask names and that has not returned waits in the same one.
bool complete(size_t w, int place) {
    Warp &warp = warps[w];
    Thread *lanes = threads + w * 32;
    const Thread &any = lanes[lane_at[place]];
    unsigned taking = 0;
    for (unsigned rest = warp.exchanging; rest; rest &= rest - 1) {
        const Thread &t = lanes[lane_at[__builtin_ctz(rest)]];
        if (t.mask == any.mask && t.operation == any.operation) taking |= 1u << (&t - lanes);
    }
    // Lanes that neither wait here nor have returned are still to come.
    for (unsigned rest = whole[w].ready; rest; rest &= rest - 1) {
        int p = __builtin_ctz(rest), lane = lane_at[p];
        bool returned = !((warp.ready | warp.exchanging | warp.at_barrier) >> p & 1) && current != &lanes[lane];
        if (any.mask >> lane & 1 && !(taking >> lane & 1) && !returned) return false;
    }
    uint64_t ballot = 0;
    for (unsigned rest = taking; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest);
        if (lanes[lane].value) ballot |= uint64_t(1) << lane;
    }
    for (unsigned rest = taking; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest);
        Thread &t = lanes[lane];
        if (t.operation == BALLOT) t.result = ballot;
        else if (t.source >= 0 && t.source < 32 && taking >> t.source & 1) t.result = lanes[t.source].value;
        else t.result = ~uint64_t(0);
        warp.exchanging &= ~(1u << place_of[lane]);
        warp.ready |= 1u << place_of[lane];
    }
    return true;
}

std::vector<int> permutation(int n, uint64_t salt) {
    std::vector<int> p(static_cast<size_t>(n));
    std::iota(p.begin(), p.end(), 0);
    if (order == 1) std::reverse(p.begin(), p.end());
    if (order > 1) {
        uint64_t x = order * 0x9e3779b97f4a7c15u + salt;
        for (int i = n - 1; i > 0; i--) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            std::swap(p[size_t(i)], p[x % uint64_t(i + 1)]);
        }
    }
    return p;
}

// prepare sets what all blocks of a launch share.
void prepare() {
    int count = (thread_count + 31) / 32;
    warp_order = permutation(count, 1);
    auto lanes = permutation(32, 2);
    for (int p = 0; p < 32; p++) {
        lane_at[p] = lanes[size_t(p)];
        place_of[lane_at[p]] = p;
    }
    for (int w = 0; w < count; w++) {
        unsigned exist = 0;
        for (int lane = 0; lane < 32 && w * 32 + lane < thread_count; lane++) exist |= 1u << place_of[lane];
        whole[w] = {exist, exist, 0, 0};
    }
    for (unsigned i = 0; i < unsigned(thread_count); i++)
        threads[i].index = {i % block_size.x, i / block_size.x % block_size.y, i / (block_size.x * block_size.y)};
}

// run_warp resumes the lanes of a warp until each waits at the barrier, waits in an
// exchange that cannot complete, or has returned.
void run_warp(size_t w) {
    Warp &warp = warps[w];
    while (warp.ready && !failure) {
        gpc_shim_switch(&scheduler, begin(w, 0, nullptr));
        current = nullptr;
        // A lane that returned may have been the last that others waited for.
        for (unsigned rest = failure ? 0 : warp.exchanging; rest; rest &= rest - 1) {
            int place = __builtin_ctz(rest);
            if (warp.exchanging >> place & 1) complete(w, place);
        }
    }
}

void run_block() {
    std::copy(whole, whole + warp_order.size(), warps);
    for (;;) {
        bool waiting = false;
        for (int w : warp_order) {
            run_warp(size_t(w));
            if (failure) return;
            waiting = waiting || warps[w].at_barrier;
        }
        for (int w : warp_order)
            if (unsigned stuck = warps[w].exchanging)
                return fail(719, where() + ": thread " + std::to_string(w * 32 + lane_at[__builtin_ctz(stuck)]) +
                                     " waits in a shuffle, ballot or __syncwarp that other lanes of its mask never reach");
        if (!waiting) return;
        for (int w : warp_order) {
            warps[w].ready = warps[w].at_barrier;
            warps[w].at_barrier = 0;
        }
    }
}

} // namespace

unsigned lane() { return unsigned(self() - threads) & 31u; }

void barrier() {
    Thread *t = self();
    warps[warp_of(t)].at_barrier |= 1u << place_in_warp(t);
    suspend();
}

uint64_t exchange(unsigned mask, Operation operation, uint64_t value, int source) {
    Thread *t = self();
    if (!(mask >> lane() & 1)) fault(719, where() + ": a lane calls a warp operation with a mask that does not name it");
    t->mask = mask;
    t->operation = operation;
    t->value = value;
    t->source = source;
    size_t w = warp_of(t);
    unsigned bit = 1u << place_in_warp(t);
    warps[w].exchanging |= bit;
    // The last to come goes on at once.
    if (!warps[w].ready && complete(w, place_in_warp(t))) warps[w].ready &= ~bit;
    else suspend();
    return t->result;
}

void fault(int code, const std::string &message) {
    fail(code, message);
    suspend();
    abort(); // a failed block is never resumed
}

int run(const Launch &l, std::string *message) {
    if (!stacks) make_fibers();
    launch = &l;
    failure = 0;
    failure_message.clear();
    grid_size = l.grid;
    block_size = l.block;
    thread_count = int(l.block.x * l.block.y * l.block.z);
    prepare();
    // Aligned to 16 and no more, as the dialect promises no more.
    shared_memory.assign(l.shared + 2 * guard_bytes + 64, 0xff);
    auto base = (reinterpret_cast<uintptr_t>(shared_memory.data()) + guard_bytes + 31) & ~uintptr_t(31);
    dynamic_shared = reinterpret_cast<unsigned char *>(base) + 16;
    for (unsigned z = 0; z < l.grid.z && !failure; z++)
        for (unsigned y = 0; y < l.grid.y && !failure; y++)
            for (unsigned x = 0; x < l.grid.x && !failure; x++) {
                block = {x, y, z};
                Recorder::block(x + l.grid.x * (y + l.grid.y * z));
                std::memset(dynamic_shared, 0xff, l.shared);
                run_block();
                if (!failure && (std::memcmp(dynamic_shared - guard_bytes, guard.data(), guard_bytes) ||
                                 std::memcmp(dynamic_shared + l.shared, guard.data(), guard_bytes)))
                    fail(700, where() + ": a write outside the " + std::to_string(l.shared) + " bytes of dynamic shared memory");
            }
    if (failure) {
        make_fibers(); // those of the failed block stopped halfway
        *message = failure_message;
    }
    return failure;
}

} // namespace gpc_shim

// The checked build (GPC_SHIM_CHECK=1) has the compiler test the alignment of
// every access and the bounds of every array; it calls these on a violation.
extern "C" {
struct gpc_shim_source { const char *file; uint32_t line, column; };
#define GPC_SHIM_HANDLER __attribute__((visibility("hidden"), used))
GPC_SHIM_HANDLER void __ubsan_handle_type_mismatch_v1(gpc_shim_source *at, uintptr_t pointer) {
    gpc_shim::fault(716, std::string(at->file) + ":" + std::to_string(at->line) + ": misaligned or null address " + std::to_string(pointer));
}
GPC_SHIM_HANDLER void __ubsan_handle_out_of_bounds(gpc_shim_source *at, uintptr_t index) {
    gpc_shim::fault(700, std::string(at->file) + ":" + std::to_string(at->line) + ": array index " + std::to_string(intptr_t(index)) + " out of bounds");
}
}
