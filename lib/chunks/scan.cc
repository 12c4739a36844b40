#include "chunks/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file_contents.h"
#include "base/file_status.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/size.h"
#include "chunks/safe_members.h"

namespace planesmith::chunks {
namespace {

constexpr std::uint64_t kSegment = 256 * kMiB;  // searched by one thread; a multiple of kHoleBlock
constexpr std::size_t kGlance = 4 * kKiB;       // usually enough to see that a block is not all zeros

// Whether a link is one of a Hugging Face snapshot: REPOSITORY/snapshots/REVISION/... -> REPOSITORY/blobs/...
bool is_blob_of_snapshot(const std::string& link_dir, const std::string& target) {
  const std::string blobs = parent_of(target);
  return name_of(blobs) == "blobs" && is_inside(link_dir, join(parent_of(blobs), "snapshots"));
}

class Walker {
 public:
  Walker(const ScanOptions& options, const Context& context) : options_(options), context_(context) {
    for (const std::string& source : options.sources)
      if (exists(context.os, source)) roots_.push_back(real_path(source));
  }

  void add_source(const std::string& path, const std::string& member_path) { add(path, member_path, true); }

  Tree take() {
    std::vector<std::string> tops;
    for (const Member& member : tree_.members)
      if (tops.empty() || !is_inside(member.path, tops.back())) tops.push_back(member.path);
    refuse_links(links_out(tree_.members, tops));
    return std::move(tree_);
  }

 private:
  void add(const std::string& path, const std::string& member_path, bool is_source) {
    context_.check_stop();
    require_utf8(path, member_path);
    struct stat st = look(path, false);
    if (S_ISLNK(st.st_mode) && (is_source || options_.dereference || is_snapshot_link(path)))
      st = look(path, true);
    Member member;
    member.path = member_path;
    member.mode = st.st_mode & 07777;
    if (S_ISREG(st.st_mode)) {
      member.size = static_cast<std::uint64_t>(st.st_size);
      if (st.st_nlink > 1) {
        const auto [first, is_new] = by_inode_.try_emplace({st.st_dev, st.st_ino}, member_path);
        if (!is_new) {
          member.type = MemberType::hardlink;
          member.target = first->second;
          member.size = 0;
        }
      }
    } else if (S_ISDIR(st.st_mode)) {
      member.type = MemberType::directory;
    } else if (S_ISLNK(st.st_mode)) {
      member.type = MemberType::symlink;
      member.target = read_link(context_.os, path);
      require_utf8(path, member.target);
    } else {
      throw Error(path, "is a device, a FIFO or a socket; only files, directories and links can be packed");
    }
    tree_.members.push_back(member);
    tree_.origins.push_back(origin_of(path, st));
    if (member.type != MemberType::directory) return;
    const std::pair<dev_t, ino_t> self{st.st_dev, st.st_ino};
    if (!around_.insert(self).second)
      throw Error(path, "leads back to a directory that it lies in; its content has no end");
    for (const std::string& name : list_dir(context_.os, path))
      add(join(path, name), join(member_path, name), false);
    around_.erase(self);
  }

  struct stat look(const std::string& path, bool follow) {
    struct stat st {};
    if (follow ? stat_of(context_.os, path, st) : lstat_of(context_.os, path, st)) return st;
    throw Error(path,
                fmt::format("{}: {}", follow ? "is a link whose target cannot be packed" : "cannot stat",
                            strerror(errno)));
  }

  // Links to other packed files stay links, also in a snapshot.
  bool is_snapshot_link(const std::string& path) {
    if (!exists(context_.os, path)) return false;
    const std::string target = real_path(path), dir = real_path(parent_of(path));
    return std::none_of(roots_.begin(), roots_.end(),
                        [&](const std::string& root) { return is_inside(target, root); }) &&
           is_blob_of_snapshot(dir, target);
  }

  static void refuse_links(const std::vector<std::string>& links) {
    constexpr std::size_t kShown = 10;
    if (links.empty()) return;
    const std::size_t shown = std::min(links.size(), kShown);
    throw Error(
        fmt::format("symbolic links that lead, or may later lead, out of what is packed cannot be unpacked: "
                    "{}{}; --dereference packs the targets of links",
                    fmt::join(links.begin(), links.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                    shown == links.size() ? "" : fmt::format(" and {} others", links.size() - shown)));
  }

  static void require_utf8(const std::string& path, const std::string& text) {
    try {
      compact(Json(text));
    } catch (const Error&) {
      throw Error(path, "a name or link that is not valid UTF-8 cannot be in a manifest; rename it");
    }
  }

  const ScanOptions& options_;
  const Context& context_;
  Tree tree_;
  std::vector<std::string> roots_;  // of the sources, without links
  std::map<std::pair<dev_t, ino_t>, std::string> by_inode_;
  std::set<std::pair<dev_t, ino_t>> around_;  // directories that the walk is in
};

bool all_zeros(ConstBytes bytes) {
  return bytes.empty() || (bytes[0] == 0 && memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Reads the beginning of the block, and the rest only if that is all zeros.
bool is_hole(const File& file, std::uint64_t offset, std::vector<std::uint8_t>& buffer) {
  const Bytes block(buffer.data(), kHoleBlock);
  file.read(block.first(kGlance), offset);
  if (!all_zeros(block.first(kGlance))) return false;
  file.read(block.subspan(kGlance), offset + kGlance);
  return all_zeros(block.subspan(kGlance));
}

// The data in [begin, end) of the file; begin is a multiple of kHoleBlock.
// A block cut short by the file's end is data.
std::vector<Extent> find_data(const Context& context, const File& file, std::uint64_t begin,
                              std::uint64_t end) {
  std::vector<Extent> extents;
  std::vector<std::uint8_t> buffer(kHoleBlock);
  std::uint64_t hole_until = begin, data_until = begin;  // what the file system has told so far
  for (std::uint64_t at = begin; at < end; at += kHoleBlock) {
    if (at % kSegment == 0) context.check_stop();
    const std::uint64_t size = std::min(kHoleBlock, end - at);
    if (at >= data_until && at + size > hole_until) {
      hole_until = next_data(context, file, at, end);
      data_until = next_hole(context, file, hole_until, end);
    }
    const bool hole = size == kHoleBlock && (at + size <= hole_until || is_hole(file, at, buffer));
    if (!hole) append_extent(extents, at, size);
  }
  return extents;
}

void find_holes(Tree& tree, const Context& context) {
  struct Segment {
    std::size_t member;
    std::uint64_t begin, end;
    std::vector<Extent> extents;
  };
  std::vector<Segment> segments;
  for (std::size_t m = 0; m < tree.members.size(); ++m)
    for (std::uint64_t begin = 0; begin < tree.members[m].size; begin += kSegment)
      segments.push_back({m, begin, std::min(begin + kSegment, tree.members[m].size), {}});
  parallel_for(segments.size(), context.threads, [&](std::size_t i, int) {
    context.check_stop();
    Segment& segment = segments[i];
    const Origin& origin = tree.origins[segment.member];
    const File file = File::open_read(context.os, origin.path);
    context.os.fadvise(file.fd(), 0, 0, POSIX_FADV_RANDOM);
    check_unchanged(file, origin);
    segment.extents = find_data(context, file, segment.begin, segment.end);
  });
  for (const Segment& segment : segments)
    for (const Extent& extent : segment.extents)
      append_extent(tree.members[segment.member].extents, extent.offset, extent.size);
}

// A source's name among the members, also for "." or "x/..".
std::string member_name(const std::string& source) {
  std::string path = source;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  std::string name = name_of(path);
  if (name.empty() || name == "." || name == "..") name = name_of(real_path(path));
  if (name.empty())
    throw Error(ErrorCode::usage, source, "the root of a file system has no name to pack it under");
  return name;
}

}  // namespace

Origin origin_of(std::string path, const struct stat& st) {
  const auto ns = [](const struct timespec& t) { return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; };
  return {std::move(path), static_cast<std::uint64_t>(st.st_size), st.st_dev, st.st_ino, ns(st.st_mtim),
          ns(st.st_ctim)};
}

void check_unchanged(const File& file, const Origin& origin) {
  const Origin now = origin_of(origin.path, file.status());
  if (now.size != origin.size || now.inode != origin.inode || now.mtime_ns != origin.mtime_ns)
    throw Error(
        origin.path,
        "was changed while it was being packed; run the same command again when nothing writes to it");
}

Tree scan(const ScanOptions& options, const Context& context) {
  std::map<std::string, std::string, bool (*)(std::string_view, std::string_view)> by_name(path_less);
  for (const std::string& source : options.sources) {
    const auto [other, is_new] =
        by_name.try_emplace(options.as.empty() ? member_name(source) : options.as, source);
    if (!is_new)
      throw Error(
          ErrorCode::usage, source,
          fmt::format("would have the same name '{}' in the archive as {}", other->first, other->second));
  }
  context.progress.begin("looking for holes", 0);
  Walker walker(options, context);
  for (const auto& [name, source] : by_name) walker.add_source(source, name);
  Tree tree = walker.take();
  find_holes(tree, context);
  context.progress.end();
  return tree;
}

}  // namespace planesmith::chunks
