// The directory that is unpacked into: what is put there comes whole, and nothing is put outside.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "base/lock_file.h"
#include "chunks/member.h"

namespace planesmith::chunks {

// Everything is first written into the directory `.NAME.unpack` in the target (the same file system), and
// moved from there under its name when it is whole, verified and durable.
class Target {
 public:
  // Makes the directories and takes a lock. force: replace files that are there with other contents.
  // Errors: another run unpacks a set of this name here.
  Target(std::string dir, const std::string& name, bool force, const Context& context);

  std::string path(const std::string& member) const { return join(dir_, member); }
  std::string staged(std::size_t index) const { return join(staging_, std::to_string(index)); }
  std::string state_path() const { return join(staging_, "state.json"); }
  std::string journal_path() const { return join(staging_, "journal"); }

  // Writes bytes of a staged file; made where it is not there.
  void write(std::size_t index, std::uint64_t offset, ConstBytes bytes) const;
  void set_size(std::size_t index, std::uint64_t size) const;
  // Whether an earlier run left this staged file; it can be written to then, whatever mode it had got.
  bool reopen(std::size_t index) const;

  void sync_staged(std::size_t index) const;  // its contents and size are durable after this
  void sync_directories() const;              // and after this the names given so far

  // Makes a directory and those above it. Errors: what is there and is not a directory, symbolic links to
  // directories included.
  void make_directory(const std::string& member);
  // Moves a staged file under its name when its contents and mode are durable, which several threads may do
  // at once; its directory must have been made. Where the same contents are there already they stay. Errors:
  // other contents, without force.
  void put_file(std::size_t index, const Member& member) const;
  void put_link(std::size_t index, const Member& member) const;  // symbolic or hard
  void set_mode(const Member& member) const;  // of a file or directory that has its name, where it is another

  // Forgets what is staged; remove() also takes away the directory, give_up() the same without a word about
  // failures.
  void remove_staged(std::size_t index) const noexcept;
  void remove_all_staged() const;
  void remove() const;
  void give_up() const noexcept;

 private:
  void require_force(const std::string& there) const;  // to put something else in its place

  const std::string dir_, staging_;
  const bool force_;
  const Context& context_;
  std::vector<LockFile> lock_;
  std::unordered_set<std::string> made_;  // directories known to be there
};

// Whether two files hold the same bytes.
bool same_contents(const Context& context, const std::string& a, const std::string& b);

}  // namespace planesmith::chunks
