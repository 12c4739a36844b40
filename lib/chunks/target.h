// The directory that is unpacked into: what is put there comes whole, and nothing is put outside.
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

// Everything is first written into the directory `.NAME.unpack` in the target (the same file system), which
// is this user's alone, and moved from there under its name when it is whole, verified and durable. All of it
// works by directory handles: others who change the target meanwhile cannot lead it outside.
class Target {
 public:
  // Makes the directories and takes a lock. force: replace files that are there with other contents.
  // preserve_modes: as the archive has them; else as a umask leaves them, and not for all to write.
  // Errors: another run unpacks a set of this name here; the staging directory is not this user's alone.
  Target(const Target&) = delete;
  Target(const std::string& dir, const std::string& name, bool force, bool preserve_modes,
         const Context& context);

  const Dir& dir() const { return dir_; }
  const Dir& staging() const { return staging_; }
  static std::string staging_name(const std::string& set) { return "." + set + ".unpack"; }
  static std::string staged(std::size_t index) { return std::to_string(index); }  // in staging()
  OnDisk on_disk() const;                                                         // must not outlive this

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

  ~Target();  // with the staging directory, where nothing is left in it

  // Forgets what is staged; give_up() without a word about failures.
  void remove_staged(std::size_t index) const noexcept;
  void remove_all_staged() const;
  void give_up() const noexcept;

 private:
  void require_force(const std::string& member) const;  // to put something else in its place
  mode_t mode_of(const Member& member) const;

  const std::string name_;  // of the staging directory
  const Dir dir_, staging_;
  const bool force_, preserve_modes_;
  const mode_t umask_;
  const Context& context_;
  std::vector<LockFile> lock_;
  std::unordered_set<std::string> made_;  // directories known to be there
};

// Whether two files hold the same bytes. Holes of both are passed over.
bool same_contents(const Context& context, const File& a, const File& b);
// Where data of the file begins again at or behind `at`; `end` where nothing but a hole comes before it.
std::uint64_t next_data(const Context& context, const File& file, std::uint64_t at, std::uint64_t end);

}  // namespace planesmith::chunks
