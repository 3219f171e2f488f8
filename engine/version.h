/* Which version this is: what the library says of itself, and what a device's module of another is
 * known by. */
#ifndef DT_ENGINE_VERSION_H
#define DT_ENGINE_VERSION_H

extern const char dt_engine_version[];

#endif
