// What an unfinished run leaves for the one that continues it: the directory .NAME.pack beside the parts,
// with the lock, the parts that are being made, and a record of each part that is whole.
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
  std::vector<Xxh3> blocks;             // digests of the members' blocks that begin in it
  std::string made_by, options, files;  // programs; options; names, modes, sizes and holes of all members
  std::string stamps;                   // inodes and times of the files whose data it has
};

// A part is written into this directory, then its record, then it is moved to its name: a part that has its
// name is always known.
class PackRecords {
 public:
  // Makes the directory and takes the lock. Errors: another run has it; the directory is not ours alone.
  PackRecords(const Dir& out, const std::string& name, const Context& context);

  PackRecords(const PackRecords&) = delete;
  ~PackRecords();  // with the directory, where nothing is left in it

  const Dir& directory() const { return directory_; }
  // Nothing where there is none; one that is damaged is told of and counts as none.
  std::optional<PartRecord> read(std::size_t part) const;
  void write(std::size_t part, const PartRecord& record) const;
  void forget(std::size_t part) const;
  void forget_staged() const;  // parts that a killed run was making
  void forget_all() const;
  void remove();  // with the lock

 private:
  Dir out_;
  std::string name_;
  Dir directory_;
  std::vector<LockFile> lock_;
  const Context& context_;
};

}  // namespace planesmith::chunks
