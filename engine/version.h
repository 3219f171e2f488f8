/* Which version this is, to tell a device's module of another from our own. */
#ifndef DT_ENGINE_VERSION_H
#define DT_ENGINE_VERSION_H

extern const char dti_version[];

#endif
