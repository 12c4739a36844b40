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

  std::uint64_t free_bytes() const;  // where the directory is or will be
  const std::string& directory() const { return target_; }

 private:
  class Writer;
  std::string record_path(const std::string& name) const;
  // Where the file's bytes go, its directory made; Error: a link in the target leads into the source.
  std::string prepare(const std::string& name);
  void commit(File file, const std::string& path);

  const Context& context_;
  std::string source_, target_, records_;  // source_ and target_ without links
  Json build_;
  bool same_build_ = false;
  std::vector<LockFile> lock_;
};

}  // namespace planesmith
