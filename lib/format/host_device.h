// FORMAT.md is implemented once, as constexpr functions for the host compiler and nvcc.
#pragma once

#if defined(__CUDACC__)
#define PLANESMITH_HD __host__ __device__
#else
#define PLANESMITH_HD
#endif
