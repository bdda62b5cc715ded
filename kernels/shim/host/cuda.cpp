// cuda.cpp: the CUDA driver API's own symbols, as far as kernels/driver calls them:
// initialisation, devices, contexts, modules and memory.
#include "device.h"

namespace gpc_shim {
void add(const Kernel &k) { kernels().push_back(k); }
} // namespace gpc_shim

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
        {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {218, "CUDA_ERROR_INVALID_PTX"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {226, "CUDA_ERROR_CONTAINED"},
        {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"}, {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"}, {802, "CUDA_ERROR_SYSTEM_NOT_READY"}, {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
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
    *count = device_count();
    return OK;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
    ENTER_BARE("cuDeviceGet")
    if (ordinal < 0 || ordinal >= device_count()) return INVALID_DEVICE;
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
EXPORT int cuCtxCreate_v2(Handle *out, unsigned flags, int device) {
    ENTER_BARE("cuCtxCreate_v2")
    if (device < 0 || device >= device_count()) return INVALID_DEVICE;
    auto *c = new Context;
    c->device = device;
    c->maps = flags & 8;
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
        auto *k = static_cast<Kernel *>(f);
        if (value < 0 || value + static_of(k) > attributes[97])
            return report(INVALID_VALUE, std::string(k->name) + ": " + std::to_string(value) + " bytes of dynamic and " + std::to_string(static_of(k)) +
                                             " of static shared memory, more than a block has");
        c->shared_limit[k] = value;
    }
    return OK;
}
EXPORT int cuFuncGetAttribute(int *value, int attribute, Handle f) {
    ENTER("cuFuncGetAttribute")
    *value = attribute == 0 ? 1024 : attribute == 1 ? static_of(static_cast<Kernel *>(f)) : 0;
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
EXPORT int cuMemHostAlloc(void **out, size_t n, unsigned flags) {
    ENTER("cuMemHostAlloc")
    if (!n) return INVALID_VALUE;
    uintptr_t p;
    if (int e = allocate(c->pinned, n, &p)) return e;
    c->pinned[p].mapped = c->maps && flags & 2;
    *out = reinterpret_cast<void *>(p);
    return OK;
}
EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *out, void *p, unsigned flags) {
    ENTER("cuMemHostGetDevicePointer_v2")
    auto at = reinterpret_cast<uintptr_t>(p);
    if (flags || !mapped(c, at)) return report(INVALID_VALUE, "the device's address of memory that is not pinned and mapped");
    *out = at;
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
    return enqueue(c, s, "cuMemcpyHtoDAsync_v2", [=] {
        return inside(c->pinned, host, n) ? copy(c, to, host, n, true, false) : report(ILLEGAL_ADDRESS, "pinned memory freed before its copy ran");
    });
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, Handle stream) {
    ENTER("cuMemcpyDtoHAsync_v2")
    STREAM(stream)
    auto host = reinterpret_cast<uintptr_t>(to);
    if (!inside(c->pinned, host, n)) return report(INVALID_VALUE, "an async copy to memory that is not pinned");
    if (!inside(c->memory, from, n)) return report(INVALID_VALUE, "an async copy of " + std::to_string(n) + " bytes leaves its device allocation");
    return enqueue(c, s, "cuMemcpyDtoHAsync_v2", [=] {
        return inside(c->pinned, host, n) ? copy(c, host, from, n, false, true) : report(ILLEGAL_ADDRESS, "pinned memory freed before its copy ran");
    });
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, Handle stream) {
    ENTER("cuMemcpyDtoDAsync_v2")
    STREAM(stream)
    if (!inside(c->memory, to, n) || !inside(c->memory, from, n))
        return report(INVALID_VALUE, "an async copy of " + std::to_string(n) + " bytes leaves its device allocation");
    return enqueue(c, s, "cuMemcpyDtoDAsync_v2", [=] { return copy(c, to, from, n, true, true); });
}
EXPORT int cuMemsetD8Async(uint64_t p, unsigned char value, size_t n, Handle stream) {
    ENTER("cuMemsetD8Async")
    STREAM(stream)
    if (!inside(c->memory, p, n)) return report(INVALID_VALUE, "a memset leaves its device allocation");
    return enqueue(c, s, "cuMemsetD8Async", [=] { return set_memory(c, p, value, n, 1); });
}
EXPORT int cuMemsetD32Async(uint64_t p, unsigned value, size_t n, Handle stream) {
    ENTER("cuMemsetD32Async")
    STREAM(stream)
    if (!inside(c->memory, p, n * 4) || p % 4) return report(INVALID_VALUE, "a memset leaves its device allocation");
    return enqueue(c, s, "cuMemsetD32Async", [=] { return set_memory(c, p, value, n, 4); });
}
