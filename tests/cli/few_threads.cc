// Loaded before a program (LD_PRELOAD), it lets the program start FEW_THREADS threads; the system refuses all
// others. With LAST_MEMORY=n a thread that has started the program's n-th thread cannot allocate once.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <climits>
#include <new>

namespace {

int number(const char* variable, int otherwise) {
  const char* const text = getenv(variable);
  return text == nullptr ? otherwise : atoi(text);
}

thread_local bool refuse_memory = false;

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  static std::atomic<int> left{number("FEW_THREADS", INT_MAX)}, until{number("LAST_MEMORY", 0)};
  static auto* const real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (left-- <= 0) return EAGAIN;
  const int result = real(thread, attributes, run, argument);
  if (--until == 0) refuse_memory = true;
  return result;
}

void* operator new(std::size_t bytes) {
  if (refuse_memory) {
    refuse_memory = false;
    throw std::bad_alloc();
  }
  void* const memory = malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
