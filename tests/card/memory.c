/* The device's memory, and the host's that it reaches. The device's can be touched only while work
 * is done: the host's code that reads or writes there dies of it. All that is new is NaN. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/card/card.h"

enum { PAGE = 4096, ALIGNMENT = 256, BLOCKS = 1024 };
static const size_t all_bytes = (size_t)4 << 30;

static struct block {
    char *at, *map; /* map: with a page that cannot be touched before and behind; NULL: free */
    size_t bytes, mapped;
    card_kind kind;
} blocks[BLOCKS];
static size_t taken_bytes; /* of the device */

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static struct block *block_at(const void *p)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].map != NULL && (uintptr_t)p - (uintptr_t)blocks[i].at < blocks[i].bytes)
            return &blocks[i];
    return NULL;
}

static struct block *new_block(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].map == NULL)
            return &blocks[i];
    card_refuse("more blocks of memory than the model knows");
}

/* Ends as near to the page behind it as its alignment allows. */
static card_error map(card_kind kind, size_t align, size_t bytes, void **p)
{
    struct block *b = new_block();
    const size_t room = pages(bytes), whole = (bytes + align - 1) / align * align;
    char *m = mmap(NULL, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED || mprotect(m + PAGE, room, PROT_READ | PROT_WRITE) != 0)
        return cudaErrorMemoryAllocation;
    *b = (struct block){m + PAGE + (room - whole), m, bytes, room, kind};
    memset(m + PAGE, 0xFF, room);
    if (kind == CARD_DEVICE)
        mprotect(m + PAGE, room, PROT_NONE);
    card_count[kind]++;
    *p = b->at;
    return cudaSuccess;
}

static card_error unmap(card_kind kind, void *p)
{
    struct block *b = block_at(p);
    if (b == NULL || b->at != p || b->kind != kind)
        return cudaErrorInvalidValue;
    /* cudaFree "may perform implicit synchronization": nothing may count on it */
    if (!card_at_rest(b->at, b->bytes))
        card_refuse("memory is given back while work on it waits");
    if (kind != CARD_REGISTERED)
        munmap(b->map, b->mapped + 2 * PAGE);
    *b = (struct block){0};
    card_count[kind]--;
    return cudaSuccess;
}

void card_open(bool yes)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].map != NULL && blocks[i].kind == CARD_DEVICE)
            mprotect(
                blocks[i].map + PAGE, blocks[i].mapped, yes ? PROT_READ | PROT_WRITE : PROT_NONE);
}

card_where card_find(const void *p, size_t bytes)
{
    const struct block *b = block_at(p);
    if (b == NULL)
        return CARD_NOWHERE;
    if (bytes > b->bytes - (size_t)((const char *)p - b->at))
        return CARD_CUT;
    return b->kind == CARD_DEVICE ? CARD_ON_DEVICE : CARD_ON_HOST;
}

/* Whether there is memory at an address. */
static bool mapped(uintptr_t at)
{
    unsigned char there;
    return mincore((void *)(at / PAGE * PAGE), 1, &there) == 0;
}

void card_check_given(const char *what, const void *given, size_t bytes)
{
#ifndef DT_CARD_GIVEN
    bytes = 0; /* what nobody set may look like an address */
#endif
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)given + at, sizeof word);
        if (word >= PAGE && word >> 47 == 0 && block_at((const void *)word) == NULL && mapped(word))
            card_refuse("%s is given an address of the host that the device does not reach, at "
                        "byte %zu of its arguments",
                what, at);
    }
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    card_lock();
    card_meant("cudaMalloc");
    *p = NULL;
    card_error e = card_safe();
    if (e == cudaSuccess && bytes > all_bytes - taken_bytes)
        e = cudaErrorMemoryAllocation;
    if (e == cudaSuccess)
        e = map(CARD_DEVICE, ALIGNMENT, bytes, p);
    if (e == cudaSuccess)
        taken_bytes += bytes;
    return card_told(e);
}

cudaError_t cudaFree(void *p)
{
    card_lock();
    card_error e = card_safe();
    const struct block *b = block_at(p);
    const size_t bytes = b != NULL ? b->bytes : 0;
    if (e == cudaSuccess && p != NULL)
        e = unmap(CARD_DEVICE, p);
    if (e == cudaSuccess)
        taken_bytes -= bytes;
    return card_told(e);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    card_lock();
    card_meant("cudaMemGetInfo");
    *free_bytes = all_bytes - taken_bytes;
    *all = all_bytes;
    return card_told(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    card_lock();
    card_error e = card_safe();
    if (e == cudaSuccess && (flags & cudaHostAllocMapped) == 0)
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess)
        e = map(CARD_PINNED, PAGE, bytes, p);
    return card_told(e);
}

cudaError_t cudaFreeHost(void *p)
{
    card_lock();
    const card_error e = card_safe();
    return card_told(e == cudaSuccess && p != NULL ? unmap(CARD_PINNED, p) : e);
}

/* Pages are registered, not bytes: one that two ranges share is refused to the second. */
static bool overlaps(const void *p, size_t bytes)
{
    const uintptr_t from = (uintptr_t)p / PAGE * PAGE, to = pages((uintptr_t)p + bytes);
    for (size_t i = 0; i < BLOCKS; i++)
        if (blocks[i].map != NULL && from < pages((uintptr_t)blocks[i].at + blocks[i].bytes) &&
            (uintptr_t)blocks[i].at / PAGE * PAGE < to)
            return true;
    return false;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    card_lock();
    card_error e = card_safe();
    if (e == cudaSuccess && (bytes == 0 || !mapped((uintptr_t)p) || flags == 0))
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess && overlaps(p, bytes))
        e = cudaErrorHostMemoryAlreadyRegistered;
    if (e != cudaSuccess)
        return card_told(e);
    *new_block() = (struct block){p, p, bytes, 0, CARD_REGISTERED};
    card_count[CARD_REGISTERED]++;
    return card_told(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *p)
{
    card_lock();
    const card_error e = card_safe();
    if (!mapped((uintptr_t)p))
        card_refuse("registered memory was given back before it was unregistered");
    return card_told(e == cudaSuccess ? unmap(CARD_REGISTERED, p) : e);
}

cudaError_t cudaHostGetDevicePointer(void **there, void *host, unsigned flags)
{
    card_lock();
    const card_where w = card_find(host, 1);
    *there = host;
    return card_told(flags == 0 && w == CARD_ON_HOST ? cudaSuccess : cudaErrorInvalidValue);
}
