// Loaded before a program (LD_PRELOAD), it lets the program start FEW_THREADS threads; the system refuses all
// others.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  static std::atomic<int> left{atoi(getenv("FEW_THREADS"))};
  static auto* const real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return left-- > 0 ? real(thread, attributes, run, argument) : EAGAIN;
}
