// What an unfinished run leaves for the run that continues it: the directory .NAME.pack beside the parts,
// with the lock, the parts in progress, and a record of each finished part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"
#include "base/lock_file.h"
#include "chunks/part_maker.h"

namespace planesmith::chunks {

struct PartRecord {
  MadePart made;
  std::vector<Xxh3> blocks;             // digests of the members' blocks that begin in the part
  std::string made_by, options, files;  // programs; options; names, modes, sizes and holes of all members
  std::string stamps;                   // inodes and times of the files whose data it has
};

// A part is written into this directory, then its record, then the part is renamed to its final name: a part
// under its final name always has a record.
class PackRecords {
 public:
  // Makes the directory and takes the lock.
  // Errors: another run holds it; other users can write to the directory.
  PackRecords(const Dir& out, const std::string& name, const Context& context);

  PackRecords(const PackRecords&) = delete;
  ~PackRecords();  // removes the lock, and the directory if it is empty

  const Dir& directory() const { return directory_; }
  // None: no record, or a damaged one, which is reported.
  std::optional<PartRecord> read(std::size_t part) const;
  void write(std::size_t part, const PartRecord& record) const;
  void forget(std::size_t part) const;
  void forget_staged() const;  // removes parts that a killed run was making
  void forget_all() const;

 private:
  Dir out_;
  std::string name_;
  Dir directory_;
  std::vector<LockFile> lock_;
  const Context& context_;
};

}  // namespace planesmith::chunks
