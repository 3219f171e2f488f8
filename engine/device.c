/* Devices by name: the processor, and the module of the card, loaded when asked for. */
#define _GNU_SOURCE /* dladdr */

#include "engine/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/version.h"

#define MODULE "libdnntrain_cuda.so"
#ifndef DT_LIBDIR
#define DT_LIBDIR "lib"
#endif
#ifndef DT_FULL_LIBDIR
#define DT_FULL_LIBDIR "/usr/local/lib"
#endif

enum { SELF_BYTES = 4096 };

/* Never unloaded. A failure is told to everyone who asks, and may be over the next time, so it is
 * not loaded by pthread_once. */
static _Atomic(const dt_device_module *) loaded;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

const char *dt_device_name(dt_device_kind k)
{
    return k == DT_CPU ? "cpu" : "cuda";
}

bool dt_device_built(dt_device_kind k)
{
#ifdef DT_HAVE_CUDA
    return k == DT_CPU || k == DT_CUDA;
#else
    return k == DT_CPU;
#endif
}

/* The file this code is in: the program, or a shared library of it. */
static void find_self(char to[SELF_BYTES])
{
    Dl_info at;
    if (dladdr(&loaded, &at) != 0 && strstr(at.dli_fname, "libdnntrain.so") != NULL) {
        snprintf(to, SELF_BYTES, "%s", at.dli_fname);
        return;
    }
    const ssize_t n = readlink("/proc/self/exe", to, SELF_BYTES - 1);
    to[n > 0 ? n : 0] = '\0';
}

/* Beside the program or the library, one folder up, where programs of tests find it, or where it is
 * installed, which a program that has the static library is not. */
static void *open_module(dt_err *err)
{
    static const char *const folders[] = {"", "../", "../" DT_LIBDIR "/", DT_FULL_LIBDIR "/"};
    char self[SELF_BYTES], path[SELF_BYTES + 64];
    dt_err why = {0};
    find_self(self);
    char *name = strrchr(self, '/');
    if (name != NULL)
        name[1] = '\0';
    for (size_t i = 0; i < DT_COUNT(folders); i++) {
        snprintf(path, sizeof path, "%s%s" MODULE, folders[i][0] == '/' ? "" : self, folders[i]);
        void *module = access(path, F_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (module != NULL)
            return module;
        if (access(path, F_OK) == 0)
            (void)DT_FAIL(&why, DT_E_DEVICE, "%s", dlerror());
    }
    if (why.n == 0)
        (void)DT_FAIL(err, DT_E_DEVICE,
            "'%s" MODULE "' is missing, which holds the CUDA device, and is not in " DT_FULL_LIBDIR
            " either: build or install the program again",
            self);
    else
        (void)DT_FAIL(err, DT_E_DEVICE,
            "%.*s: install the CUDA toolkit and the cuDNN this program was built with, or set "
            "LD_LIBRARY_PATH to where they are",
            (int)strcspn(why.text, "\n"), why.text);
    return NULL;
}

/* The caller holds the lock. */
static dt_status load(dt_err *err)
{
    if (loaded != NULL)
        return DT_OK;
    void *module = open_module(err);
    if (module == NULL)
        return DT_E_DEVICE;
    const dt_device_module *m = dlsym(module, "dt_device_module_cuda");
    if (m == NULL) {
        (void)DT_FAIL(err, DT_E_DEVICE, "%s; build the program again", dlerror());
        (void)dlclose(module);
        return DT_E_DEVICE;
    }
    if (strcmp(m->version, dt_engine_version) != 0) {
        (void)DT_FAIL(err, DT_E_DEVICE,
            "the CUDA device is of version %s and the program of %s: install both of one version",
            m->version, dt_engine_version);
        (void)dlclose(module);
        return DT_E_DEVICE;
    }
    m->count_in(dti_alloc_counted());
    loaded = m;
    return DT_OK;
}

dt_status dti_device_load(dt_device_kind k, dt_err *err)
{
    if (k == DT_CPU || loaded != NULL)
        return DT_OK;
    if (!dt_device_built(k))
        return DT_FAIL(err, DT_E_CONFIG,
            "this program was built without CUDA; device.kind = cpu, or auto, which takes what "
            "there is");
    pthread_mutex_lock(&loading);
    const dt_status st = load(err);
    pthread_mutex_unlock(&loading);
    return st;
}

bool dt_device_answers(dt_device_kind k, dt_err *why)
{
    if (k == DT_CPU)
        return true;
    return dti_device_load(k, why) == DT_OK && loaded->answers(why);
}

/* Without the driver's library nothing of CUDA can work. */
bool dt_device_likely(dt_device_kind k)
{
    dt_err ignored = {0};
    if (k == DT_CPU)
        return true;
    if (!dt_device_built(k))
        return false;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver == NULL)
        return false;
    const bool answers = dt_device_answers(k, &ignored);
    dlclose(driver);
    return answers;
}

const dt_device_module *dti_device_module(dt_device_kind k)
{
    return k == DT_CPU ? NULL : loaded;
}

const dt_driver *dt_device_driver(dt_device_kind k)
{
    const dt_device_module *m = dti_device_module(k);
    if (k == DT_CPU)
        return &dt_cpu_driver;
    return m != NULL ? m->driver : NULL;
}

dt_status dt_device_facts(dt_device_kind k, dt_driver_facts *f, dt_err *err)
{
    void *self = NULL;
    DT_CHECK(dti_device_load(k, err));
    const dt_driver *d = dt_device_driver(k);
    DT_CHECK(d->open(0, &self, err));
    const dt_status st = d->facts(self, f, err);
    d->close(self);
    return st;
}
