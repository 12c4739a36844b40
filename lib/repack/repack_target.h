// The directory that a repacked checkpoint is written to. In it, .repack-experts/ says what the build is
// (build.json) and holds one record for each file that was written to its end; the rest is the checkpoint.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/lock_file.h"
#include "codebook/figures.h"
#include "repack/repack_plan.h"
#include "repack/repack_run.h"
#include "sink/output_dir.h"

namespace planesmith {

enum class LinkMode {
  sym,
  reflink,
  copy
};  // never hard links: they change the source's ctime, and with it its identity
LinkMode parse_link_mode(std::string_view text);  // anything else is a usage Error

class RepackTarget {
 public:
  // Makes nothing yet. `build`: everything that the result depends on. Errors: source and target are the same
  // or one is in the other (usage); without `force`, a target that is not empty and not this build's.
  RepackTarget(const Context& context, const std::string& source, const std::string& target, Json build,
               bool force);

  // Makes the directory, and keeps other processes out until destruction. Error: another one is at work here.
  void open();

  // What an earlier run recorded of a file that is still there with the right size.
  std::optional<FileFigures> finished(const RepackFile& file) const;

  // Writes the file under a temporary name; finish() makes it durable, renames it and leaves the record.
  std::unique_ptr<RepackSink> writer(const RepackFile& file);
  // Compares the file with what would be written; finish() reports whether it is the same.
  std::unique_ptr<RepackSink> checker(const RepackFile& file, std::function<void(bool same)> report) const;

  // sym or reflink.
  void link(const NamedSize& file, LinkMode mode);

  // A small file, in one step.
  void write_text(const std::string& name, const std::string& text);

  std::uint64_t free_bytes() const;  // where the directory is or will be; UINT64_MAX: not known
  // Bytes that writing these files takes besides what is there. A file that is replaced gives its room back
  // when the new one is whole: of several only the largest counts. What a killed run left goes first.
  std::uint64_t space_needed(const std::vector<const RepackFile*>& files) const;
  const std::string& directory() const { return target_; }

 private:
  class Writer;
  const Dir& records() const { return *records_; }
  void put_record(const FileFigures& figures) const;
  // Makes the file's directory, and what is recorded of the file is forgotten. Error: a link is in the way.
  void prepare(const std::string& name);
  void commit(File file, const std::string& name);

  const Context& context_;
  std::string source_, target_;  // without links
  OutputDir dir_;
  std::optional<Dir> records_;
  Json build_;
  bool same_build_ = false;
  std::vector<LockFile> lock_;
};

}  // namespace planesmith
