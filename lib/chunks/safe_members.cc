#include "chunks/safe_members.h"

#include <fmt/format.h>
#include <limits.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "manifest/manifest.h"

namespace planesmith::chunks {
namespace {

using ByPath = std::map<std::string_view, const Member*>;

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

// Follows a symbolic link as the kernel would, through the archive's other links.
void check_link(const Member& link, const ByPath& members) {
  constexpr int kMostLinks = 40;  // the kernel's own limit: what needs more leads nowhere
  const auto leads_out = [&] {
    return Error(link.path,
                 fmt::format("is a symbolic link to '{}', which leads out of the directory", link.target));
  };
  const std::size_t slash = link.path.rfind('/');
  std::vector<std::string> at = components(slash == std::string::npos ? "" : link.path.substr(0, slash));
  std::vector<std::string> ahead;  // what is left of the way, the next step last
  const auto follow = [&](const std::string& target) {
    if (target.starts_with('/')) throw leads_out();
    const std::vector<std::string> steps = components(target);
    ahead.insert(ahead.end(), steps.rbegin(), steps.rend());
  };
  follow(link.target);
  for (int links = 0; !ahead.empty();) {
    const std::string step = std::move(ahead.back());
    ahead.pop_back();
    if (step == "..") {
      if (at.empty()) throw leads_out();
      at.pop_back();
      continue;
    }
    at.push_back(step);
    const auto found = members.find(fmt::format("{}", fmt::join(at, "/")));
    if (found == members.end() || found->second->type != MemberType::symlink) continue;
    if (++links > kMostLinks) return;
    at.pop_back();
    follow(found->second->target);
  }
}

void check_parents(const Member& member, const ByPath& members) {
  for (std::size_t slash = member.path.find('/'); slash != std::string::npos;
       slash = member.path.find('/', slash + 1)) {
    const auto parent = members.find(std::string_view(member.path).substr(0, slash));
    if (parent != members.end() && parent->second->type != MemberType::directory)
      throw Error(member.path, fmt::format("lies below '{}', which is a {} and no directory",
                                           parent->second->path, name(parent->second->type)));
  }
}

}  // namespace

void check_safe_name(const Member& member) {
  if (!is_inner_path(member.path))
    throw Error(
        member.path,
        "is not a name below the directory that is unpacked into (absolute, or with '..'); nothing of "
        "it was written");
  // What the system would refuse later, when other members have their names.
  const std::size_t longest = std::max(member.path.size(), member.target.size());
  if (longest >= PATH_MAX || longest_component(member.path) > NAME_MAX)
    throw Error(
        member.path.substr(0, 100) + "...",
        fmt::format(
            "has a name or target that is longer than the system takes ({} bytes, {} in one component)",
            PATH_MAX - 1, NAME_MAX));
}

void check_safe(const std::vector<Member>& members) {
  ByPath by_path;
  for (const Member& member : members) {
    check_safe_name(member);
    if (!by_path.try_emplace(member.path, &member).second)
      throw Error(member.path, "is in the archive twice");
  }
  for (const Member& member : members) {
    check_parents(member, by_path);
    if (member.type == MemberType::symlink) check_link(member, by_path);
    if (member.type == MemberType::hardlink) {
      const auto target = by_path.find(member.target);
      if (target == by_path.end() || target->second->type != MemberType::file)
        throw Error(member.path,
                    fmt::format("is a hard link to '{}', which is not a file of the archive", member.target));
    }
  }
}

}  // namespace planesmith::chunks
