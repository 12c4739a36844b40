// What this process may use of the machine: its processors, memory, open files and umask.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace planesmith {

// Processors in the affinity mask, but at most the control groups' CPU quota, rounded up.
int hardware_threads();

// Bytes of memory that the machine has, or that the control groups allow where that is less.
std::uint64_t machine_memory();

// The default of --memory: 2 GiB, or half of machine_memory() where that is less; the other half is for the
// page cache, which control groups also count.
std::uint64_t default_memory();

// The umask. It is read from `status`, because setting it, even for a moment, changes the modes of files that
// other threads create. Where `status` does not tell it, the first such call sets and restores it, and all of
// them return what it found.
mode_t file_creation_mask(const char* status = "/proc/self/status");

// How many more files this process may open now. Raises the soft limit to the hard one first.
std::uint64_t open_files_left();

// Makes the kernel's table of this process's descriptors large enough for all files that a run opens. To be
// called before any thread is started: the kernel enlarges the table of a process with threads in steps, each
// of which takes 20 to 50 ms, and all threads that open a file wait for it.
void enlarge_descriptor_table();

// The tightest limits of the control groups that a process is in and of the groups above them; 0: no limit.
struct CgroupLimits {
  double cpus = 0;           // processor seconds per second
  std::uint64_t memory = 0;  // bytes
};
// membership: contents of /proc/self/cgroup; root: where the control groups are mounted, version 1 or 2.
CgroupLimits cgroup_limits(const std::string& membership, const std::string& root);

}  // namespace planesmith
