/* The one file that compiles stb_image, for JPEG, PNG and BMP, with its memory from our hook. */
#include "data/stb.h"

#include "engine/base/alloc.h"

/* stb_image may go on after a failed allocation and then name another reason. */
static _Thread_local bool out_of_memory;

static void *take(size_t n)
{
    void *p = dt_alloc(n, 1);
    out_of_memory |= p == NULL;
    return p;
}

static void *take_more(void *old, size_t n)
{
    void *p = dt_realloc(old, n, 1);
    out_of_memory |= p == NULL;
    return p;
}

#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wswitch-enum"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_MALLOC(n) take(n)
#define STBI_REALLOC(p, n) take_more((p), (n))
#define STBI_FREE(p) dt_free(p)
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>

bool dti_stb_info(const uint8_t *bytes, int n, int *w, int *h, int *c)
{
    out_of_memory = false;
    return stbi_info_from_memory(bytes, n, w, h, c) != 0;
}

uint8_t *dti_stb_decode(const uint8_t *bytes, int n, int *w, int *h, int channels)
{
    int c;
    out_of_memory = false;
    return stbi_load_from_memory(bytes, n, w, h, &c, channels);
}

bool dti_stb_out_of_memory(void)
{
    return out_of_memory;
}

const char *dti_stb_reason(void)
{
    const char *s = stbi_failure_reason();
    return s != NULL ? s : "no detail";
}
