/* The version that this was built as; CMake gives DT_VERSION, the project's. */
#include "engine/version.h"

#ifndef DT_VERSION
#define DT_VERSION ""
#endif

const char dt_engine_version[] = DT_VERSION;
