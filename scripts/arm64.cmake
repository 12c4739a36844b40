# Cross-compiles for 64-bit Arm on Debian, against the libraries that `scripts/install-deps.sh arm64` unpacked, and runs
# what was built under qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

cmake_path(SET PLANESMITH_SYSROOT NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-arm64")
set(CMAKE_SYSROOT ${PLANESMITH_SYSROOT})
# The C library comes from there as well: that of the cross compiler's own packages gets no security updates.
set(CMAKE_EXE_LINKER_FLAGS_INIT -B${PLANESMITH_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${PLANESMITH_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${PLANESMITH_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${PLANESMITH_SYSROOT}/usr/share/pkgconfig)

find_program(PLANESMITH_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(PLANESMITH_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${PLANESMITH_QEMU} -L ${PLANESMITH_SYSROOT})
endif()
