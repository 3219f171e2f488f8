/* For safetensors*.c that read only. */
#ifndef DT_ENGINE_CHECKPOINT_SAFETENSORS_PARTS_H
#define DT_ENGINE_CHECKPOINT_SAFETENSORS_PARTS_H

#include <cjson/cJSON.h>

#include "engine/checkpoint/safetensors.h"

struct dt_st_file {
    int fd; /* -1: parsed from memory */
    char *path;
    uint64_t data_at, data_bytes;
    size_t n, n_meta;
    dt_st_entry *entry;         /* by offset */
    const dt_st_entry **sorted; /* by name */
    dt_st_meta *meta;
    char *texts; /* names, keys and values, NUL-terminated */
    size_t texts_held, texts_room;
};

/* The JSON of @n bytes, into a file whose data_bytes are known. */
dt_status dti_st_parse_header(
    dt_st_file *f, const char *header, size_t n, dt_err *err) DT_NODISCARD;

/* One member of it. */
dt_status dti_st_read_tensor(
    dt_st_file *f, const cJSON *v, dt_st_entry *e, dt_err *err) DT_NODISCARD;

/* A copy that lives as long as the file. */
const char *dti_st_keep_text(dt_st_file *f, const char *s);

#endif
