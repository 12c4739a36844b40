/* Stands for a program of another processor: runs the one of its own name in ../bin under the emulator. Linked
   statically, so that what a test preloads is loaded into the emulated program only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char self[4096], program[sizeof self + 8];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  const char** run = calloc((size_t)argc + 6, sizeof *run);
  if (n < 0 || run == NULL) return 126;
  self[n] = '\0';
  char* const name = strrchr(self, '/');
  *name = '\0';
  snprintf(program, sizeof program, "%s/../bin/%s", self, name + 1);
  const char* const head[] = {EMULATOR, "-L", SYSROOT, "-0", argv[0], program};
  memcpy(run, head, sizeof head);
  if (argc > 1) memcpy(run + 6, argv + 1, (size_t)(argc - 1) * sizeof *run);
  execv(EMULATOR, (char**)run);
  fprintf(stderr, "%s: %s\n", EMULATOR, strerror(errno));
  return 126;
}
