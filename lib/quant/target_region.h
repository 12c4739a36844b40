// Only the code between PLANESMITH_TARGET_BEGIN("avx2,...") and PLANESMITH_TARGET_END is compiled for that
// instruction set. A compiler flag for the whole file would also compile inline functions of shared headers
// for it, and the linker might keep that copy for machines that lack it. No lambdas inside: GCC compiles
// their bodies without the target.
#pragma once

#define PLANESMITH_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define PLANESMITH_TARGET_BEGIN(isa) \
  PLANESMITH_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define PLANESMITH_TARGET_END _Pragma("clang attribute pop")
#else
#define PLANESMITH_TARGET_BEGIN(isa) _Pragma("GCC push_options") PLANESMITH_PRAGMA(GCC target(isa))
#define PLANESMITH_TARGET_END _Pragma("GCC pop_options")
#endif
