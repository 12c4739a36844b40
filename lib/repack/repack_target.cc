#include "repack/repack_target.h"

#include <fmt/format.h>
#include <limits.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/error.h"
#include "base/paths.h"

namespace planesmith {
namespace {

constexpr std::string_view kRecords = ".repack-experts", kBuild = "build.json", kLock = "lock";

std::optional<struct stat> look(Os& os, const std::string& path) {
  struct stat st {};
  if (os.lstat(path.c_str(), &st) == 0) return st;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  throw Error(path, fmt::format("cannot stat: {}", strerror(errno)));
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

RepackTarget::RepackTarget(const Context& context, const std::string& source, const std::string& target,
                           Json build, bool force)
    : context_(context),
      source_(real_path(source)),
      target_(resolved(context.os, target)),
      records_(join(target_, kRecords)),
      build_(std::move(build)) {
  if (is_inside(target_, source_) || is_inside(source_, target_))
    throw Error(ErrorCode::usage, target,
                fmt::format("source and target must lie apart, but they are {} and {}", source_, target_));
  if (!exists(context.os, target_)) return;
  if (!S_ISDIR(status(context.os, target_).st_mode)) throw Error(target_, "exists and is not a directory");
  if (force) return;
  const std::string path = join(records_, kBuild);
  if (exists(context.os, path)) {
    const Json there = read_json(context.os, path);
    same_build_ = there == build_;
    if (!same_build_)
      throw Error(
          target_,
          fmt::format("holds another build ({}), or its source has changed since; --force replaces it",
                      compact(there)));
  } else {
    for (const std::string& name : list_dir(context.os, target_))
      if (name != kRecords)  // alone it is where an earlier run was stopped before it had begun
        throw Error(target_,
                    "is not empty and holds no build of this program; --force writes into it all the same");
  }
}

void RepackTarget::open() {
  make_dirs(context_.os, records_);
  if (!LockFile::try_take(context_.os, join(records_, kLock), lock_))
    throw Error(target_, "another run is writing here; wait for it, or stop it and start again");
  if (same_build_) return;
  for (const std::string& name : list_dir(context_.os, records_))
    if (name != kLock && name != kBuild) remove_file(context_.os, join(records_, name));
  sync_dir(context_.os, records_);  // no record outlives what it was for
  write_atomically(context_.os, join(records_, kBuild), compact(build_));
  same_build_ = true;
}

std::string RepackTarget::record_path(const std::string& name) const {
  std::string flat = name;
  std::replace(flat.begin(), flat.end(), '/', '%');
  return join(records_, flat + ".json");
}

std::optional<FileFigures> RepackTarget::finished(const RepackFile& file) const {
  const std::string record = record_path(file.name);
  const auto there = look(context_.os, join(target_, file.name));
  if (!same_build_ || !there || !S_ISREG(there->st_mode) ||
      static_cast<std::uint64_t>(there->st_size) != file.bytes || !exists(context_.os, record))
    return std::nullopt;
  try {
    FileFigures figures = parse_figures(read_json(context_.os, record));
    if (figures.name == file.name) return figures;
  } catch (const Json::exception&) {  // not a record: written again
  }
  return std::nullopt;
}

std::string RepackTarget::prepare(const std::string& name) {
  const std::string record = record_path(name);
  std::string path = join(target_, name);
  make_dirs(context_.os, parent_of(path));
  if (is_inside(real_path(parent_of(path)), source_))
    throw Error(parent_of(path), "leads into the source, which must not be touched; remove this link");
  if (exists(context_.os, record)) {
    remove_file(context_.os, record);
    sync_dir(context_.os, records_);
  }
  remove_file(context_.os, path + ".tmp");  // might be a link that leads elsewhere
  return path;
}

void RepackTarget::commit(File file, const std::string& path) {
  file.sync();
  file.close();
  rename_file(context_.os, path + ".tmp", path);
  sync_dir(context_.os, parent_of(path));
}

class RepackTarget::Writer : public RepackSink {
 public:
  Writer(RepackTarget& target, const RepackFile& plan)
      : target_(target),
        path_(target.prepare(plan.name)),
        file_(File::create(target.context_.os, path_ + ".tmp")) {
    file_.truncate(plan.bytes);
  }
  ~Writer() override {
    if (file_.fd() >= 0) target_.context_.os.unlink(file_.path().c_str());
  }
  bool rewritable() const override { return true; }
  void put(ConstBytes bytes, std::uint64_t offset) override {
    file_.write(bytes, offset);
    file_.start_writeback(offset, bytes.size());
  }
  void finish(const FileFigures& figures) override {
    target_.commit(std::move(file_), path_);
    write_atomically(target_.context_.os, target_.record_path(figures.name), compact(to_json(figures)));
  }

 private:
  RepackTarget& target_;
  std::string path_;
  File file_;
};

std::unique_ptr<RepackSink> RepackTarget::writer(const RepackFile& file) {
  return std::make_unique<Writer>(*this, file);
}

std::unique_ptr<RepackSink> RepackTarget::checker(const RepackFile& file,
                                                  std::function<void(bool)> report) const {
  return std::make_unique<Checker>(File::open_read(context_.os, join(target_, file.name)), std::move(report));
}

void RepackTarget::link(const NamedSize& file, LinkMode mode) {
  const std::string source = join(source_, file.name), final_path = join(target_, file.name);
  Os& os = context_.os;
  const auto there = look(os, final_path);
  if (mode == LinkMode::sym) {
    if (there && S_ISLNK(there->st_mode) && read_link(os, final_path) == source) return;
    const std::string path = prepare(file.name);
    if (os.symlink(source.c_str(), (path + ".tmp").c_str()) != 0)
      throw Error(path, fmt::format("cannot make a symbolic link: {}; --link copy works everywhere",
                                    strerror(errno)));
    rename_file(os, path + ".tmp", path);
    sync_dir(os, parent_of(path));
    return;
  }
  if (finished({file.name, file.bytes, 0, 0, {}})) return;
  const std::string path = prepare(file.name);
  const File from = File::open_read(os, source);
  File to = File::create(os, path + ".tmp");
  if (file.bytes != 0 && !to.try_clone(0, from, 0, file.bytes)) {
    to.close();
    remove_file(os, path + ".tmp");
    throw Error(path, "this file system cannot share blocks with the source; use --link sym or --link copy");
  }
  commit(std::move(to), path);
  write_atomically(os, record_path(file.name), compact(to_json(FileFigures{file.name, 0, {}, {}})));
}

void RepackTarget::write_text(const std::string& name, const std::string& text) {
  const std::string path = join(target_, name);
  const auto there = look(context_.os, path);
  if (there && S_ISREG(there->st_mode) && static_cast<std::uint64_t>(there->st_size) == text.size() &&
      read_text(context_.os, path, text.size()) == text)
    return;
  write_atomically(context_.os, prepare(name), text);
}

std::uint64_t RepackTarget::free_bytes() const {
  std::string path = target_;
  while (!exists(context_.os, path)) path = parent_of(path);
  return free_space(context_.os, path);
}

}  // namespace planesmith
