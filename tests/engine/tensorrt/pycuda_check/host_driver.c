/* A CUDA driver with one device whose memory is the host's: enough for PyCUDA to be imported and
 * for every call of ours to run through it. Work is done at once; a context must be current, and
 * memory must be what was allocated. The functions that are not here fail, see build.py. */
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201 };
enum { DEPTH = 16, BLOCKS = 256, TOTAL = 1 << 30 };

static int current;
static struct { char *start; size_t size; } blocks[BLOCKS];

static int owned(address at, size_t size) {
    for (int i = 0; i < BLOCKS; i++) {
        char *start = blocks[i].start;
        if (start && (char *)at >= start && (char *)at + size <= start + blocks[i].size) return 1;
    }
    return 0;
}

static int taken(void **made, size_t size) {
    if (!current) return INVALID_CONTEXT;
    if (size > TOTAL) return OUT_OF_MEMORY;
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].start) continue;
        blocks[i].start = *made = malloc(size);
        blocks[i].size = size;
        return SUCCESS;
    }
    return OUT_OF_MEMORY;
}

static int given_back(void *start) {
    for (int i = 0; i < BLOCKS; i++) {
        if (!start || blocks[i].start != start) continue;
        free(start);
        blocks[i].start = 0;
        return SUCCESS;
    }
    return INVALID_VALUE;
}

static int copied(void *target, const void *source, size_t size) {
    if (!current) return INVALID_CONTEXT;
    if (!owned((address)target, size) || !owned((address)source, size)) return INVALID_VALUE;
    memmove(target, source, size);
    return SUCCESS;
}

int cuInit(unsigned flags) { return SUCCESS; }
int cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }
int cuGetErrorString(int status, const char **text) {
    *text = status == OUT_OF_MEMORY ? "out of memory"
          : status == INVALID_CONTEXT ? "invalid device context" : "invalid argument";
    return SUCCESS;
}
int cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
int cuDeviceGet(int *device, int index) { *device = index; return index ? 101 : SUCCESS; }
int cuDeviceGetName(char *name, int size, int device) {
    strncpy(name, "Host", size);
    return SUCCESS;
}
int cuDeviceComputeCapability(int *major, int *minor, int device) {
    *major = 9; *minor = 0;
    return SUCCESS;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : 0; /* the capability's major and minor number */
    return SUCCESS;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) uuid[i] = i;
    return SUCCESS;
}
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = TOTAL; return SUCCESS; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &current; return SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }
int cuCtxPushCurrent_v2(void *context) { return current++ < DEPTH ? SUCCESS : INVALID_CONTEXT; }
int cuCtxPopCurrent_v2(void **context) {
    if (!current) return INVALID_CONTEXT;
    current--;
    if (context) *context = &current;
    return SUCCESS;
}
int cuCtxGetDevice(int *device) { *device = 0; return current ? SUCCESS : INVALID_CONTEXT; }
int cuCtxGetApiVersion(void *context, unsigned *version) { *version = 13000; return SUCCESS; }
int cuCtxSynchronize(void) { return SUCCESS; }
int cuMemGetInfo_v2(size_t *left, size_t *total) { *left = *total = TOTAL; return SUCCESS; }
int cuMemAlloc_v2(address *made, size_t size) { return taken((void **)made, size); }
int cuMemFree_v2(address start) { return given_back((void *)start); }
int cuMemHostAlloc(void **made, size_t size, unsigned flags) { return taken(made, size); }
int cuMemFreeHost(void *start) { return given_back(start); }
int cuMemcpyHtoDAsync_v2(address target, const void *source, size_t size, void *stream) {
    return stream ? copied((void *)target, source, size) : INVALID_VALUE;
}
int cuMemcpyDtoHAsync_v2(void *target, address source, size_t size, void *stream) {
    return stream ? copied(target, (void *)source, size) : INVALID_VALUE;
}
int cuMemcpyDtoDAsync_v2(address target, address source, size_t size, void *stream) {
    return stream ? copied((void *)target, (void *)source, size) : INVALID_VALUE;
}
int cuMemsetD8Async(address target, unsigned char value, size_t size, void *stream) {
    if (!stream || !owned(target, size)) return INVALID_VALUE;
    memset((void *)target, value, size);
    return SUCCESS;
}
int cuStreamCreate(void **stream, unsigned flags) {
    *stream = malloc(1);
    return flags == 1 ? SUCCESS : INVALID_VALUE; /* CU_STREAM_NON_BLOCKING */
}
int cuStreamDestroy_v2(void *stream) { free(stream); return SUCCESS; }
int cuStreamSynchronize(void *stream) { return stream ? SUCCESS : INVALID_VALUE; }
int cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(int)); return SUCCESS; }
int cuEventDestroy_v2(void *event) { free(event); return SUCCESS; }
int cuEventRecord(void *event, void *stream) { *(int *)event = 1; return SUCCESS; }
int cuEventElapsedTime_v2(float *ms, void *start, void *end) {
    *ms = 2.5f;
    return *(int *)start && *(int *)end ? SUCCESS : INVALID_VALUE;
}
