// streams.cpp: the CUDA driver API's own symbols for streams, events, launches and
// captured graphs.
#include "device.h"

namespace gpc_shim {
namespace {

Access *recording; // of the node that runs; nullptr: none

// earlier lists for each node those that come before it.
std::vector<std::set<size_t>> earlier(const Graph &g) {
    std::vector<std::set<size_t>> before(g.nodes.size());
    for (size_t i = 0; i < g.nodes.size(); i++)
        for (size_t j : g.nodes[i].after) {
            before[i].insert(j);
            before[i].insert(before[j].begin(), before[j].end());
        }
    return before;
}

// The accesses of a graph's first launches are held against each other: what they
// are may depend on the data, but hardly from launch to launch.
constexpr int checked_launches = 2;

// run_graph runs the nodes in the order of their capture, and in the checked build
// says where two nodes that a device may run side by side conflict.
int run_graph(Context *c, Graph *g) {
    bool check = records && g->checked++ < checked_launches;
    std::vector<Access> accesses(check ? g->nodes.size() : 0);
    for (size_t i = 0; i < g->nodes.size(); i++) {
        recording = check ? &accesses[i] : nullptr;
        int e;
        {
            Recorder recorder(c, recording);
            e = g->nodes[i].work();
        }
        recording = nullptr;
        if (e) return e;
    }
    if (!check) return OK;
    auto before = earlier(*g);
    for (size_t j = 0; j < g->nodes.size(); j++)
        for (size_t i = 0; i < j; i++) {
            if (before[j].count(i)) continue;
            auto at = conflict(c, accesses[i], accesses[j]);
            if (!at.empty())
                return report(LAUNCH_FAILED, "nodes " + std::to_string(i) + " (" + g->nodes[i].name + ") and " + std::to_string(j) + " (" +
                                                 g->nodes[j].name + ") of a graph, neither after the other, both touch " + at + ", and one writes it");
        }
    return OK;
}

} // namespace
} // namespace gpc_shim

// Streams and events.
EXPORT int cuStreamCreate(Handle *out, unsigned flags) {
    ENTER("cuStreamCreate")
    auto *s = new Stream;
    s->blocking = !(flags & 1);
    c->streams.insert(s);
    *out = s;
    return OK;
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
    if (e->capture) { // the stream joins the capture, or waits within it
        if (s->capture != e->capture) s->tail.clear();
        s->capture = e->capture;
        for (size_t node : e->tail)
            if (std::find(s->tail.begin(), s->tail.end(), node) == s->tail.end()) s->tail.push_back(node);
        return OK;
    }
    if (!e->recorded || !e->stream) return OK;
    Stream *other = e->stream;
    uint64_t at = e->at;
    return enqueue(c, s, "cuStreamWaitEvent", [=] { return c->streams.count(other) || other == &c->legacy ? drain(c, other, at) : OK; });
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
        e->tail = s->tail;
        return OK;
    }
    e->capture = nullptr;
    e->stream = s;
    e->recorded = true;
    int err = enqueue(c, s, "cuEventRecord", [=] { return e->time = now(), OK; });
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
    // Static shared memory counts in what a block has without opt-in, and with.
    auto limit = c->shared_limit.find(k);
    if (int(shared) > (limit == c->shared_limit.end() ? attributes[8] - static_of(k) : limit->second))
        return report(INVALID_VALUE, std::string(k->name) + ": " + std::to_string(shared) + " bytes of dynamic shared memory beside " +
                                         std::to_string(static_of(k)) + " of its own, more than the function's limit");
    std::vector<std::vector<unsigned char>> values;
    for (int i = 0; i < k->parameters; i++) {
        auto *p = static_cast<unsigned char *>(arguments[i]);
        values.emplace_back(p, p + k->sizes[i]);
    }
    return enqueue(c, s, k->name, [=, values = std::move(values)] {
        return run_kernel(c, k, {gx, gy, gz}, {bx, by, bz}, shared, values, recording);
    });
}
EXPORT int cuStreamBeginCapture_v2(Handle h, int mode) {
    ENTER("cuStreamBeginCapture_v2")
    STREAM(h)
    if (mode < 0 || mode > 2) return INVALID_VALUE;
    if (s == &c->legacy) return CAPTURE_UNSUPPORTED;
    if (s->capture) return INVALID_VALUE;
    s->capture = new Graph;
    c->graphs.insert(s->capture);
    s->tail.clear();
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
    // Every branch must have come back to the stream that began.
    auto before = earlier(*g);
    std::set<size_t> joined(s->tail.begin(), s->tail.end());
    for (size_t node : s->tail) joined.insert(before[node].begin(), before[node].end());
    bool unjoined = joined.size() != g->nodes.size();
    for (Stream *other : c->streams)
        if (other->capture == g) {
            invalid = invalid || other->invalid;
            other->capture = nullptr;
            other->origin = other->invalid = false;
        }
    for (Event *e : c->events)
        if (e->capture == g) e->capture = nullptr;
    if (invalid || injected || unjoined) {
        c->graphs.erase(g);
        delete g;
        return injected ? injected : invalid ? int(CAPTURE_INVALIDATED) : int(CAPTURE_UNJOINED);
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
    return enqueue(c, s, "cuGraphLaunch", [=] {
        if (!c->executables.count(g)) return report(ILLEGAL_ADDRESS, "a graph destroyed before it ran");
        return run_graph(c, g);
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
