#include "repack/repack_target.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/file_status.h"
#include "base/paths.h"
#include "base/space.h"
#include "base/temporary.h"
#include "base/user_cache.h"

namespace planesmith {
namespace {

constexpr std::string_view kRecords = ".repack-experts", kBuild = "build.json", kLock = "build.lock";
constexpr char kFile[] = "file";  // key in a record: the file's file_stamp() when it was written
constexpr std::uint64_t kMostRecordBytes = 64 << 20;

std::string record_name(std::string name) {
  std::replace(name.begin(), name.end(), '/', '%');
  return name + ".json";
}

class Checker : public RepackSink {
 public:
  Checker(File file, std::function<void(bool)> report) : file_(std::move(file)), report_(std::move(report)) {}
  bool rewritable() const override { return false; }
  void put(ConstBytes bytes, std::uint64_t offset) override {
    if (!same_) return;
    std::vector<std::uint8_t> there(std::min<std::size_t>(bytes.size(), 256 * kKiB));
    for (std::size_t done = 0; done < bytes.size(); done += there.size()) {
      there.resize(std::min(there.size(), bytes.size() - done));
      file_.read(there, offset + done);
      if (memcmp(there.data(), bytes.data() + done, there.size()) != 0) same_ = false;
    }
  }
  void finish(const FileFigures&) override { report_(same_); }

 private:
  File file_;
  std::function<void(bool)> report_;
  std::atomic<bool> same_{true};
};

}  // namespace

LinkMode parse_link_mode(std::string_view text) {
  if (text == "sym") return LinkMode::sym;
  if (text == "reflink") return LinkMode::reflink;
  if (text == "copy") return LinkMode::copy;
  throw Error(ErrorCode::usage, "",
              fmt::format("'{}' is not a way to link files; there are sym, reflink and copy", text));
}

RepackTarget::RepackTarget(const Context& context, std::vector<const Checkpoint*> sources,
                           const std::string& target, Json build, bool force)
    : context_(context),
      sources_(std::move(sources)),
      source_(real_path(sources_.front()->directory())),
      target_(resolved(context.os, target)),
      dir_(context.os, target_, "."),
      build_(std::move(build)) {
  if (is_inside(target_, source_) || is_inside(source_, target_))
    throw Error(ErrorCode::usage, target,
                fmt::format("source and target must not contain one another, but they are {} and {}", source_,
                            target_));
  const Dir* const dir = dir_.find();
  if (dir == nullptr || force) return;
  const std::string name(kBuild);
  records_ = dir->find_private_dir(std::string(kRecords), context.group_shared);
  if (records_ && records_->exists(name)) {
    const Json there = parse_json(records_->read_text(name, kMostRecordBytes), records_->path_of(name));
    same_build_ = there == build_;
    if (!same_build_)
      throw Error(
          target_,
          fmt::format("holds another build ({}), or its source has changed since; --force replaces it",
                      compact(there)));
  } else {
    for (const std::string& entry : dir->list())
      if (entry != kRecords)  // alone it is left by a run that was stopped before its first file
        throw Error(target_,
                    "is not empty and was not written by this program; --force writes into it anyway");
  }
}

void RepackTarget::open() {
  records_ = dir_.make().make_private_dir(std::string(kRecords), context_.group_shared);
  const std::string lock(kLock), build(kBuild);
  if (!LockFile::try_take(records(), lock, lock_, context_.group_shared))
    throw Error(target_,
                fmt::format("another run is writing here ({}); wait for it, or stop it and start again",
                            LockFile::holder(records(), lock)));
  if (same_build_) return;
  for (const std::string& name : records().list())
    if (LockFile::lock_of(name) != lock && name != build) records().unlink(name);
  records().sync();  // no record of another build may survive
  records().write_atomically(build, compact(build_));
  same_build_ = true;
}

std::optional<FileFigures> RepackTarget::finished(const RepackFile& file) const {
  const Dir* const dir = dir_.find();
  const std::optional<struct stat> there = dir == nullptr ? std::nullopt : dir->look(file.name);
  const std::string record = record_name(file.name);
  if (!same_build_ || !records_ || !there || !S_ISREG(there->st_mode) ||
      static_cast<std::uint64_t>(there->st_size) != file.bytes || !records().exists(record))
    return std::nullopt;
  const std::string path = records().path_of(record);
  try {
    const Json json = parse_json(records().read_text(record, kMostRecordBytes), path);
    FileFigures figures = parse_figures(json);
    if (figures.name == file.name &&
        (!json.contains(kFile) || same_but_ctime(json[kFile], file_stamp(*there))))
      return figures;
  } catch (const Json::exception&) {  // not a record
    context_.os.note_once(path, path + ": is damaged; the file is written again");
  } catch (const Error& error) {
    context_.os.note_once(path, fmt::format("{}; the file is written again", error.what()));
  }
  return std::nullopt;
}

void RepackTarget::prepare(const std::string& name) {
  if (name.find('/') != name.npos) dir_.get().make_dirs(parent_of(name));
  if (records().unlink(record_name(name))) records().sync();
}

void RepackTarget::refuse_changed() const {
  for (const Checkpoint* source : sources_) source->refuse_changed(context_.os);
}

// The record comes before the name: a file that has its name and no record would be written again, and would
// need its space twice.
void RepackTarget::commit(File& file, const FileFigures& figures) {
  const Dir& dir = dir_.get();
  const std::string& name = figures.name;
  refuse_changed();
  file.sync();
  if (!dir.leads_to(temporary_name(name), file))
    throw Error(file.path(), "was replaced by another process while it was being written");
  Json json = to_json(figures);
  json[kFile] = file_stamp(file.status());
  records().write_atomically(record_name(name), compact(json));
  file.close();
  dir.rename(temporary_name(name), name);
  dir.open_dir(parent_of(name)).sync();
}

class RepackTarget::Writer : public RepackSink {
 public:
  Writer(RepackTarget& target, const RepackFile& plan)
      : target_(target), name_(plan.name), file_(begin(target, plan.name)) {
    file_.truncate(plan.bytes);
  }
  ~Writer() override {
    if (file_.fd() < 0) return;
    try {
      target_.dir_.get().unlink(temporary_name(name_));
    } catch (const Error&) {
    }
  }
  bool rewritable() const override { return true; }
  void put(ConstBytes bytes, std::uint64_t offset) override {
    file_.write(bytes, offset);
    file_.start_writeback(offset, bytes.size());
  }
  void finish(const FileFigures& figures) override { target_.commit(file_, figures); }

 private:
  static File begin(RepackTarget& target, const std::string& name) {
    target.prepare(name);
    return target.dir_.get().create_instead(temporary_name(name));
  }
  RepackTarget& target_;
  const std::string name_;
  File file_;
};

std::unique_ptr<RepackSink> RepackTarget::writer(const RepackFile& file) {
  return std::make_unique<Writer>(*this, file);
}

std::unique_ptr<RepackSink> RepackTarget::checker(const RepackFile& file,
                                                  std::function<void(bool)> report) const {
  return std::make_unique<Checker>(dir_.get().open_read(file.name), std::move(report));
}

void RepackTarget::link(const NamedSize& file, LinkMode mode) {
  const std::string source = join(source_, file.name), temporary = temporary_name(file.name);
  const Dir& dir = dir_.get();
  if (mode == LinkMode::sym) {
    const std::optional<struct stat> there = dir.look(file.name);
    if (there && S_ISLNK(there->st_mode) && dir.read_link(file.name) == source) return;
    prepare(file.name);
    dir.unlink(temporary);
    try {
      dir.symlink(source, temporary);
    } catch (const Error& error) {
      throw Error(error.path(), error.reason() + "; --link copy works everywhere");
    }
    dir.rename(temporary, file.name);
    dir.open_dir(parent_of(file.name)).sync();
    return;
  }
  if (finished({file.name, file.bytes, 0, 0, {}})) return;
  prepare(file.name);
  const File from = File::open_read(context_.os, source);
  File to = dir.create_instead(temporary);
  if (file.bytes != 0 && !to.try_clone(0, from, 0, file.bytes)) {
    to.close();
    dir.unlink(temporary);
    throw Error(dir.path_of(file.name),
                "this file system cannot share blocks with the source; use --link sym or --link copy");
  }
  commit(to, FileFigures{file.name, 0, {}, {}});
}

void RepackTarget::write_text(const std::string& name, const std::string& text) {
  const Dir& dir = dir_.get();
  const std::optional<struct stat> there = dir.look(name);
  if (there && S_ISREG(there->st_mode) && static_cast<std::uint64_t>(there->st_size) == text.size() &&
      dir.read_text(name, text.size()) == text)
    return;
  refuse_changed();
  prepare(name);
  dir.write_atomically(name, text);
}

std::uint64_t RepackTarget::free_bytes() const {
  return known_free_space(context_.os, target_).value_or(UINT64_MAX);
}

std::size_t RepackTarget::files_at_once(const std::vector<const RepackFile*>& files) const {
  return most_that_fit(files.size(), free_bytes(), [&](std::size_t n) { return space_needed(files, n); });
}

std::uint64_t RepackTarget::space_needed(const std::vector<const RepackFile*>& files,
                                         std::size_t at_once) const {
  const Dir* const dir = dir_.find();
  const auto on_disk = [&](const std::string& name) -> std::uint64_t {
    const std::optional<struct stat> there = dir == nullptr ? std::nullopt : dir->look(name);
    return there && S_ISREG(there->st_mode) ? static_cast<std::uint64_t>(there->st_blocks) * 512 : 0;
  };
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> replaced;
  for (const RepackFile* file : files) {
    const std::uint64_t freed = on_disk(file->name), left_over = on_disk(temporary_name(file->name));
    replaced.push_back(std::min(freed, file->bytes));
    bytes += file->bytes - std::min(file->bytes, freed + left_over);
  }
  return bytes + sum_of_largest(std::move(replaced), at_once);
}

}  // namespace planesmith
