// test.cpp: what only the shim has, for tests.
#include "device.h"

// gpc_shim_fail makes the n-th call from now of a driver symbol, or the n-th
// execution of a kernel ("kernel", or its name), fail with a CUDA error; of those on
// contexts of one device, or with −1 of all.
EXPORT void gpc_shim_fail(int device, const char *symbol, int n, int code) {
    std::lock_guard<std::mutex> hold(lock);
    injected.push_back({device, symbol, n, code});
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
// number of devices, −3 whether they read each other's memory.
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
