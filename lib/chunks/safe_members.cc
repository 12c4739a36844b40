#include "chunks/safe_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits.h>

#include <algorithm>

#include "base/error.h"
#include "base/paths.h"
#include "manifest/manifest.h"

namespace planesmith::chunks {
namespace {

std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end != begin && path.substr(begin, end - begin) != ".")
      out.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::size_t longest_component(std::string_view path) {
  std::size_t longest = 0;
  for (const std::string& component : components(path)) longest = std::max(longest, component.size());
  return longest;
}

// The members by path, and what is on disk at other paths.
class Names {
 public:
  Names(const std::vector<Member>& members, const OnDisk& on_disk) : on_disk_(on_disk) {
    for (const Member& member : members) sorted_.push_back(&member);
    std::sort(sorted_.begin(), sorted_.end(),
              [](const Member* a, const Member* b) { return path_less(a->path, b->path); });
  }

  const Member* find(std::string_view path) const {
    const auto found = lower_bound(path);
    return found != sorted_.end() && (*found)->path == path ? *found : nullptr;
  }

  // What is or will be at this path; a member's path implies the directories above it.
  // Error: more calls than harmless links need.
  std::optional<DiskEntry> at(const std::string& path) const {
    constexpr std::size_t kAlways = 200'000, kForEach = 64;
    if (++asked_ > kAlways + kForEach * sorted_.size())
      throw Error(path, "the symbolic links around it are too many and too long to be checked");
    if (const auto found = lower_bound(path); found != sorted_.end()) {
      const Member& member = **found;
      if (member.path == path && member.type == MemberType::symlink)
        return DiskEntry{DiskEntry::Kind::link, member.target};
      if (member.path == path)
        return DiskEntry{
            member.type == MemberType::directory ? DiskEntry::Kind::directory : DiskEntry::Kind::other, ""};
      if (is_inside(member.path, path)) return DiskEntry{DiskEntry::Kind::directory, ""};
    }
    return on_disk_ ? on_disk_(path) : std::nullopt;
  }

  // Errors: a path that appears twice; a member below something that is not a directory.
  void check_places() const {
    std::vector<const Member*> around;  // members that this one may lie in
    for (const Member* member : sorted_) {
      while (!around.empty() && !is_inside(member->path, around.back()->path)) around.pop_back();
      if (!around.empty() && around.back()->path == member->path)
        throw Error(member->path, "is in the archive twice");
      if (!around.empty() && around.back()->type != MemberType::directory)
        throw Error(member->path, fmt::format("lies below '{}', which is a {} and not a directory",
                                              around.back()->path, name(around.back()->type)));
      around.push_back(member);
    }
  }

 private:
  std::vector<const Member*>::const_iterator lower_bound(std::string_view path) const {
    return std::lower_bound(
        sorted_.begin(), sorted_.end(), path,
        [](const Member* member, std::string_view text) { return path_less(member->path, text); });
  }

  std::vector<const Member*> sorted_;
  const OnDisk& on_disk_;
  mutable std::size_t asked_ = 0;
};

// Where a link at `path` with this text leads. ".." may stand at the start of the text, and after the name of
// what is a directory now and stays one. After another link ".." could lead anywhere, and after a missing
// name too, once a later archive makes a link of that name. With this rule no chain of links has to be
// followed, and later archives cannot change what is safe now.
std::string landing(const std::string& path, const std::string& text, const Names& names) {
  constexpr int kMostClimbs = 64;  // after names; each needs a look-up
  const auto leads_out = [&](const std::string& why) {
    return Error(path,
                 fmt::format("is a symbolic link to '{}', which leads out of the directory{}", text, why));
  };
  if (text.starts_with('/')) throw leads_out("");
  const std::size_t slash = path.rfind('/');
  std::vector<std::string> at = components(slash == std::string::npos ? "" : path.substr(0, slash));
  std::size_t directories = at.size();  // how many components are known to be directories
  int climbs = 0;
  for (const std::string& step : components(text)) {
    if (step != "..") {
      at.push_back(step);
      continue;
    }
    if (at.empty()) throw leads_out("");
    for (; directories < at.size(); ++directories) {
      const std::string there = fmt::format(
          "{}", fmt::join(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(directories) + 1, "/"));
      const std::optional<DiskEntry> entry = names.at(there);
      if (++climbs > kMostClimbs) throw leads_out(" or may do so: it has too many '..' to be checked");
      if (!entry || entry->kind != DiskEntry::Kind::directory)
        throw leads_out(fmt::format(" or may later do so: it goes up from '{}', which is {}", there,
                                    entry ? "not a directory" : "not there"));
    }
    at.pop_back();
    directories = std::min(directories, at.size());
  }
  return fmt::format("{}", fmt::join(at, "/"));
}

// The nearest link that the path leads through or to; empty: none.
std::string first_link(const std::string& path, const Names& names, std::string& target) {
  for (std::size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
    const std::string prefix = path.substr(0, slash);
    const std::optional<DiskEntry> entry = prefix.empty() ? std::nullopt : names.at(prefix);
    if (!entry || entry->kind == DiskEntry::Kind::other) return "";
    if (entry->kind == DiskEntry::Kind::link) {
      target = entry->target;
      return prefix;
    }
    if (slash == path.npos) return "";
  }
}

// Returns where the link leads by its own text.
// Also checks links on disk that it leads through; links of the archive are checked for themselves.
std::string check_link(const Member& link, const Names& names) {
  constexpr int kMostLinks = 40;  // the kernel's own limit; it follows no more
  const std::string own = landing(link.path, link.target, names);
  std::string text, end = own;
  for (int links = 0; links < kMostLinks; ++links) {
    const std::string through = first_link(end, names, text);
    if (through.empty() || names.find(through) != nullptr) break;
    try {
      end = landing(through, text, names);
    } catch (const Error& error) {
      throw Error(link.path, fmt::format("is a symbolic link to '{}', by way of '{}', which {}", link.target,
                                         through, error.reason()));
    }
  }
  return own;
}

}  // namespace

void check_safe_name(const Member& member) {
  if (!is_inner_path(member.path))
    throw Error(
        member.path,
        "is not a name inside the directory that is unpacked into (it is absolute or has '..'); it was "
        "not written");
  for (const std::string& component : components(member.path))
    if (component.starts_with('.') && (component.ends_with(".unpack") || component.ends_with(".pack")))
      throw Error(
          member.path,
          fmt::format("'{}' is reserved for this program's own records; an archive must not contain it",
                      component));
  // The system would refuse these later, when other members are already in place.
  const std::size_t longest = std::max(member.path.size(), member.target.size());
  if (longest >= PATH_MAX || longest_component(member.path) > NAME_MAX)
    throw Error(
        member.path.substr(0, 100) + "...",
        fmt::format(
            "has a name or target that is longer than the system allows ({} bytes, {} in one component)",
            PATH_MAX - 1, NAME_MAX));
}

void check_safe(const std::vector<Member>& members, const OnDisk& on_disk) {
  for (const Member& member : members) check_safe_name(member);
  const Names names(members, on_disk);
  names.check_places();
  for (const Member& member : members) {
    if (member.type == MemberType::symlink) check_link(member, names);
    if (member.type != MemberType::hardlink) continue;
    const Member* const target = names.find(member.target);
    if (target == nullptr || target->type != MemberType::file)
      throw Error(member.path,
                  fmt::format("is a hard link to '{}', which is not a file of the archive", member.target));
  }
}

std::vector<std::string> links_out(const std::vector<Member>& members,
                                   const std::vector<std::string>& roots) {
  const OnDisk nothing;
  const Names names(members, nothing);
  std::vector<std::string> found;
  for (const Member& member : members) {
    if (member.type != MemberType::symlink) continue;
    try {
      const std::string end = check_link(member, names);
      if (std::none_of(roots.begin(), roots.end(),
                       [&](const std::string& root) { return is_inside(end, root); }))
        found.push_back(fmt::format("{} -> {}", member.path, member.target));
    } catch (const Error&) {
      found.push_back(fmt::format("{} -> {}", member.path, member.target));
    }
  }
  return found;
}

}  // namespace planesmith::chunks
