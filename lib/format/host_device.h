// The contract of FORMAT.md is written once, as constexpr functions that both compilers accept.
#pragma once

#if defined(__CUDACC__)
#define PLANESMITH_HD __host__ __device__
#else
#define PLANESMITH_HD
#endif
