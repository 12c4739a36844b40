#include "hub/download.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/dir.h"
#include "base/error.h"
#include "base/file_contents.h"
#include "base/file_status.h"
#include "base/lock_file.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/space.h"
#include "base/stream.h"
#include "base/text.h"
#include "checkpoint/known_digests.h"
#include "hub/content_check.h"
#include "hub/in_order.h"

namespace planesmith::hub {
namespace {

constexpr const char* kStaging = ".planesmith-fetch";

// A file that is not there yet.
struct Wanted {
  const RemoteFile* file;
  std::string path;         // local, relative to the directory
  std::string staged;       // its name while it is incomplete
  std::uint64_t begin = 0;  // bytes that an earlier run left
};

Error other_contents(const std::string& path) {
  return Error(path, "is there already with other contents; -f replaces it");
}

class Downloader {
 public:
  Downloader(const Source& source, const std::vector<RemoteFile>& files, const DownloadOptions& options,
             const Context& context)
      : source_(source), files_(files), options_(options), context_(context) {}

  DownloadResult run() {
    for (const RemoteFile& file : files_) {
      const std::string path = local(file);
      if (path == kStaging || is_inside(path, kStaging))
        throw Error(path, "has a name that is reserved for this program's temporary files");
      ++result_.files;
      result_.bytes += file.size;
    }
    if (options_.dry_run) {
      if (const auto out = Dir::find(context_.os, options_.out)) look_for_kept(*out);
      return result_;
    }
    const Dir out = Dir::make(context_.os, options_.out);
    const Dir staging = out.make_private_dir(kStaging, context_.group_shared);
    std::vector<LockFile> lock;
    if (!LockFile::try_take(staging, "lock", lock, context_.group_shared))
      throw Error(staging.path(),
                  "another run is fetching into this directory; wait for it, or use another directory");
    look_for_kept(out);
    look_for_staged(staging);
    check_space();
    fetch(out, staging);
    lock.clear();
    out.rmdir(kStaging);
    out.sync();
    return result_;
  }

 private:
  // The local path of a file, relative to the directory.
  std::string local(const RemoteFile& file) const {
    return options_.strip.empty() ? file.path : file.path.substr(options_.strip.size() + 1);
  }
  bool is_there(const Dir& out, const RemoteFile& file, Bytes buffer) const;
  void look_for_kept(const Dir& out);
  void look_for_staged(const Dir& staging);
  void check_space() const;
  void fetch(const Dir& out, const Dir& staging);
  void fetch_one(const Dir& staging, InOrder& bytes, std::size_t index) const;
  void install(const Dir& out, const Dir& staging, const Wanted& wanted) const;

  const Source& source_;
  const std::vector<RemoteFile>& files_;
  const DownloadOptions& options_;
  const Context& context_;
  DownloadResult result_;
  std::vector<Wanted> wanted_;
};

// Compares the content, or uses the digest that was remembered when it was last compared.
bool Downloader::is_there(const Dir& out, const RemoteFile& file, Bytes buffer) const {
  const std::string path = local(file);
  std::optional<struct stat> there;
  try {
    there = out.look(path);
  } catch (const Error&) {  // a directory of the path is a file or a link: reported when it is made
  }
  if (!there) return false;
  if (S_ISREG(there->st_mode) && static_cast<std::uint64_t>(there->st_size) == file.size) {
    if (!file.sha256.empty() && known_digest(context_.os, out.path(), path, *there).sha256 == file.sha256)
      return true;
    ContentCheck check(file);
    const File content = out.open_read(path);
    stream(context_, content, 0, file.size, buffer, [&](ConstBytes piece) { check.update(piece); });
    if (check.finish().empty() && ContentCheck::possible(file)) {
      if (!file.sha256.empty())
        remember_digest(context_.os, out.path_of(path), content.status(), file.sha256);
      return true;
    }
  }
  // Without a digest the contents are compared after the download.
  if (!options_.force && !options_.dry_run && ContentCheck::possible(file))
    throw other_contents(out.path_of(path));
  return false;
}

void Downloader::look_for_kept(const Dir& out) {
  context_.progress.begin("looking at what is there", 0);
  StreamBuffers buffers(context_);
  std::vector<char> there(files_.size(), 0);
  parallel_for(files_.size(), buffers.workers(), [&](std::size_t i, int worker) {
    there[i] = is_there(out, files_[i], buffers.of(worker)) ? 1 : 0;
  });
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (there[i] != 0) {
      ++result_.kept;
      result_.kept_bytes += files_[i].size;
      continue;
    }
    const RemoteFile& file = files_[i];
    // The name includes the digests: other content is another file, even with the same path and size.
    wanted_.push_back({.file = &file,
                       .path = local(file),
                       .staged = sha256_hex(fmt::format("{}\n{}\n{}{}{}", file.path, file.size, file.sha256,
                                                        file.git_sha1, file.xxh3 ? file.xxh3->hex() : ""))});
  }
  context_.progress.end();
}

void Downloader::look_for_staged(const Dir& staging) {
  for (const std::string& name : staging.list()) {
    const auto wanted =
        std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& each) { return each.staged == name; });
    if (wanted == wanted_.end() || !ContentCheck::possible(*wanted->file)) {
      if (name != "lock") staging.unlink(name);
      continue;
    }
    wanted->begin = std::min(staging.open_read(name).size(), wanted->file->size);
    result_.staged_bytes += wanted->begin;
  }
}

void Downloader::check_space() const {
  std::uint64_t needed = 0;
  for (const Wanted& wanted : wanted_) needed += wanted.file->size - wanted.begin;
  if (options_.check_space) require_space(context_.os, options_.out, needed);
}

void Downloader::fetch(const Dir& out, const Dir& staging) {
  std::vector<Rest> rest;
  std::uint64_t total = 0;
  for (const Wanted& wanted : wanted_) {
    rest.push_back({.file = *wanted.file, .begin = wanted.begin});
    total += wanted.file->size;  // all of it: what an earlier run left is read for the digest
  }
  context_.progress.begin("fetching", total);
  InOrder bytes(source_, std::move(rest),
                {.connections = options_.connections, .memory = context_.memory / 2}, context_);
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    fetch_one(staging, bytes, i);
    install(out, staging, wanted_[i]);
  }
  context_.progress.end();
}

void Downloader::fetch_one(const Dir& staging, InOrder& bytes, std::size_t index) const {
  const Wanted& wanted = wanted_[index];
  ContentCheck check(*wanted.file);
  File file = staging.open_or_create(wanted.staged, 0666);
  std::uint64_t at = wanted.begin;
  if (at != 0) {
    std::vector<std::uint8_t> buffer(kStreamBuffer);
    stream(context_, file, 0, at, buffer, [&](ConstBytes piece) { check.update(piece); });
  }
  for (ConstBytes piece; !(piece = bytes.next(index)).empty();) {
    file.write(piece, at);
    file.start_writeback(at, piece.size());
    at += piece.size();
    check.update(piece);
    context_.progress.advance(piece.size());
  }
  if (const std::string wrong = check.finish(); !wrong.empty()) {
    context_.progress.say(printable(fmt::format(
        "{}: what was downloaded is not what is listed: {}; fetching it again", wanted.file->path, wrong)));
    ContentCheck second(*wanted.file);
    at = 0;
    bytes.again(index, [&](ConstBytes piece) {
      file.write(piece, at);
      at += piece.size();
      second.update(piece);
    });
    if (const std::string again = second.finish(); !again.empty()) {
      staging.unlink(wanted.staged);
      throw Error(ErrorCode::difference, wanted.file->path,
                  fmt::format("was downloaded twice and is not what {} lists: {}", source_.shown(), again));
    }
  }
  file.sync();
  file.close();
}

void Downloader::install(const Dir& out, const Dir& staging, const Wanted& wanted) const {
  const std::string& path = wanted.path;
  const std::size_t slash = path.rfind('/');
  const Dir place = slash == path.npos ? out : out.make_dirs(path.substr(0, slash));
  const std::string name = name_of(path);
  if (const auto there = place.look(name)) {
    if (S_ISDIR(there->st_mode))
      throw Error(place.path_of(name), "is a directory, in the way of a file of this name");
    if (!options_.force && !same_contents(context_, staging.open_read(wanted.staged), place.open_read(name)))
      throw other_contents(place.path_of(name));
  }
  const struct stat checked = staging.status(wanted.staged);
  staging.rename(wanted.staged, place, name);
  place.sync();
  // Unless another process has replaced it since.
  if (const auto now = place.look(name); !wanted.file->sha256.empty() && now && unchanged(checked, *now))
    remember_digest(context_.os, place.path_of(name), *now, wanted.file->sha256);
}

}  // namespace

DownloadResult download(const Source& source, const std::vector<RemoteFile>& files,
                        const DownloadOptions& options, const Context& context) {
  return Downloader(source, files, options, context).run();
}

}  // namespace planesmith::hub
