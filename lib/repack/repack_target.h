// The directory that a new checkpoint is written to. Its .repack-experts/ describes the build (build.json)
// and holds one record for each finished file; everything else is the checkpoint.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/lock_file.h"
#include "checkpoint/checkpoint.h"
#include "codebook/figures.h"
#include "repack/repack_plan.h"
#include "repack/repack_run.h"
#include "sink/output_dir.h"

namespace planesmith {

// How unchanged files get to the target. Never as hard links, which change the source's ctime and with it its
// stat identity (FORMAT.md section 8).
enum class LinkMode { sym, reflink, copy };
LinkMode parse_link_mode(std::string_view text);  // anything else is a usage Error

class RepackTarget {
 public:
  // Creates nothing yet. `sources`: what is read, the first of them rewritten; no file gets its name once one
  // of their shards is another than when it was opened. `build`: everything that the result depends on.
  // Errors: source and target are the same same or one contains the other (usage); without `force`, a target
  // that is not empty and not of this build.
  RepackTarget(const Context& context, std::vector<const Checkpoint*> sources, const std::string& target,
               Json build, bool force);

  // Creates the directory and locks it until destruction. Error: another process holds the lock.
  void open();

  // The record of a file that an earlier run finished; none: no record, or the file's size or time has
  // changed.
  std::optional<FileFigures> finished(const RepackFile& file) const;

  // Writes the file under a temporary name; finish() makes it durable, leaves the record and renames it.
  std::unique_ptr<RepackSink> writer(const RepackFile& file);
  // Writes nothing; compares the file with what is put. finish() reports whether all of it is the same.
  std::unique_ptr<RepackSink> checker(const RepackFile& file, std::function<void(bool same)> report) const;

  // mode: sym or reflink.
  void link(const NamedSize& file, LinkMode mode);

  // Writes a small file atomically.
  void write_text(const std::string& name, const std::string& text);

  std::uint64_t free_bytes() const;  // at the target; UINT64_MAX: not known
  // Bytes of free space that writing these files needs, `at_once` of them side by side. A replaced file frees
  // its space only when its successor is complete, so the largest replaced ones count in addition. Leftovers
  // of a killed run are removed first.
  std::uint64_t space_needed(const std::vector<const RepackFile*>& files, std::size_t at_once) const;
  // How many of them can be written side by side with the space that is free.
  std::size_t files_at_once(const std::vector<const RepackFile*>& files) const;
  const std::string& directory() const { return target_; }

 private:
  class Writer;
  const Dir& records() const { return *records_; }
  // Creates the file's directory and removes the file's record. Error: a link is in the way.
  void prepare(const std::string& name);
  void commit(File& file, const FileFigures& figures);
  void refuse_changed() const;

  const Context& context_;
  const std::vector<const Checkpoint*> sources_;
  std::string source_, target_;  // absolute, links resolved
  OutputDir dir_;
  std::optional<Dir> records_;
  Json build_;
  bool same_build_ = false;
  std::vector<LockFile> lock_;
};

}  // namespace planesmith
