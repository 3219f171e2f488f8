# 64-bit ARM from another processor: Debian's cross compiler, libraries from the folder DT_SYSROOT, and QEMU, which
# runs what was built (tests, and the program where it writes its own manual). tests/arm64/run makes the folder, and
#   cmake --toolchain cmake/arm64.cmake -DDT_SYSROOT=DIR ...
# takes it. DT_QEMU names the emulator where it is not on the path.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DT_SYSROOT)
if(NOT IS_DIRECTORY "${DT_SYSROOT}")
  message(FATAL_ERROR "DT_SYSROOT is '${DT_SYSROOT}', and no folder with the libraries of arm64: run tests/arm64/run")
endif()
set(CMAKE_SYSROOT ${DT_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${DT_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${DT_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${DT_SYSROOT}/usr/share/pkgconfig)
set(DT_QEMU qemu-aarch64-static CACHE STRING "what runs programs of arm64")
set(CMAKE_CROSSCOMPILING_EMULATOR ${DT_QEMU} -L ${DT_SYSROOT})
