// The directory that is unpacked into. Files appear there complete, and nothing is written outside it.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/context.h"
#include "base/dir.h"
#include "base/lock_file.h"
#include "chunks/member.h"
#include "chunks/safe_members.h"

namespace planesmith::chunks {

// Files are first written into the private directory `.NAME.unpack` in the target (the same file system), and
// renamed to their final names when they are complete, verified and durable. All operations use directory
// handles, so that other processes that change the target meanwhile cannot lead them outside.
class Target {
 public:
  // Makes the directories and takes a lock. force: replace existing files with other contents.
  // preserve_modes: modes as in the archive, without set-user-id and set-group-id; else reduced by the umask
  // and never writable for others. Errors: another run unpacks a set of this name here; other users can write
  // to the staging directory.
  Target(const std::string& dir, const std::string& name, bool force, bool preserve_modes,
         const Context& context);
  Target(const Target&) = delete;

  const Dir& dir() const { return dir_; }
  const Dir& staging() const { return staging_; }
  static std::string staging_name(const std::string& set) { return "." + set + ".unpack"; }
  static std::string staged(std::size_t index) { return std::to_string(index); }  // in staging()
  OnDisk on_disk() const;                                                         // must not outlive this

  // Writes bytes of a staged file; makes it if it is missing.
  void write(std::size_t index, const Member& member, std::uint64_t offset, ConstBytes bytes) const;
  void set_size(std::size_t index, const Member& member, std::uint64_t size) const;
  // Whether an earlier run left this staged file; makes it writable, since it may have its final mode.
  // One of another user is removed where its mode would have to change, which only that user can do.
  bool reopen(std::size_t index, const Member& member) const;

  void sync_staged(std::size_t index, const Member& member) const;  // makes its contents and size durable
  void sync_directories() const;                                    // makes all final names so far durable

  // Makes a directory and those above it.
  // Error: something else is there, also a symbolic link to a directory.
  void make_directory(const std::string& member);
  // Makes a staged file's contents and mode durable and renames it to its final name;
  // its directory must exist. Several threads may do so at once. An existing file
  // with the same contents stays. Error: one with other contents, without force.
  void put_file(std::size_t index, const Member& member) const;
  void put_link(std::size_t index, const Member& member) const;  // symbolic or hard
  void set_mode(const Member& member) const;  // of a file or directory under its final name

  ~Target();  // removes the staging directory if it is empty

  // Remove staged files; remove_staged() and give_up() ignore failures.
  void remove_staged(std::size_t index) const noexcept;
  void remove_all_staged() const;
  void give_up() const noexcept;

 private:
  void require_force(const std::string& member) const;  // Error without it
  mode_t mode_of(const Member& member) const;  // with --group-shared the group may do what the owner may
  mode_t staged_mode(const Member& member) const;

  const std::string name_;  // of the staging directory
  const Dir dir_, staging_;
  const bool force_, preserve_modes_;
  const mode_t umask_;
  const Context& context_;
  std::vector<LockFile> lock_;
  std::unordered_set<std::string> made_;  // directories known to be there
};

}  // namespace planesmith::chunks
