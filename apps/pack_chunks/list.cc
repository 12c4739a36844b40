#include <fmt/format.h>

#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "chunks/chunk_set.h"
#include "pack_chunks/commands.h"

namespace planesmith {
namespace {

struct ListFlags {
  std::string dir, name;
  bool json = false;
};

void declare(CLI::App& app, ListFlags& flags) {
  app.add_option("DIR", flags.dir, "Directory of the manifest")->required();
  app.add_option("--name", flags.name, "Which set, where there are several");
  app.add_flag("--json", flags.json, "Print the result as JSON");
}

// The parts that hold a member, and the compression ratio of its frames.
struct Place {
  std::size_t first_part, last_part;
  double ratio;
};

Place place_of(const chunks::ChunkManifest& m, const chunks::Member& member) {
  const auto [first, last] = m.grid().frames_of(member.offset, member.end());
  double content = 0, packed = 0;
  for (std::size_t f = first; f < last; ++f) {
    content += static_cast<double>(m.grid().size(f));
    packed += static_cast<double>(m.frames[f].size);
  }
  return {m.frames[first].part, m.frames[last - 1].part, content / packed};
}

std::string row(const chunks::ChunkManifest& m, const chunks::Member& member) {
  const Place place = place_of(m, member);
  const std::string parts = place.first_part == place.last_part
                                ? fmt::format("{}", place.first_part)
                                : fmt::format("{}-{}", place.first_part, place.last_part);
  const std::string target =
      member.target.empty() ? ""
                            : fmt::format(" {} {}", member.type == chunks::MemberType::symlink ? "->" : "=",
                                          printable(member.target));
  return fmt::format("{:04o} {:>15} {:>15} {:>7.3f} {:>7}  {}{}{}\n", member.mode, member.size,
                     member.data_size(), place.ratio, parts, printable(member.path),
                     member.type == chunks::MemberType::directory ? "/" : "", target);
}

Json to_json(const chunks::ChunkManifest& m, const chunks::Member& member) {
  const Place place = place_of(m, member);
  Json json{{"path", member.path},
            {"type", chunks::name(member.type)},
            {"mode", member.mode},
            {"size", member.size},
            {"data_size", member.data_size()},
            {"ratio", place.ratio},
            {"first_part", place.first_part},
            {"last_part", place.last_part}};
  if (!member.target.empty()) json["target"] = member.target;
  return json;
}

int run(Context& context, const ListFlags& flags) {
  const chunks::ChunkSet set = chunks::find_chunks_with_manifest(flags.dir, flags.name, context);
  const chunks::ChunkManifest& m = *set.manifest;
  const auto& members = m.layout.members();
  std::uint64_t content = 0;
  for (const chunks::Member& member : members) content += member.size;
  const double ratio = static_cast<double>(m.layout.size()) / static_cast<double>(m.packed_size());
  if (flags.json) {
    Json list = Json::array(), parts = Json::array();
    for (const chunks::Member& member : members) list.push_back(to_json(m, member));
    for (const FileEntry& part : m.parts) parts.push_back({{"path", part.path}, {"size", part.size}});
    print_json({{"name", m.name},
                {"level", m.level},
                {"members", std::move(list)},
                {"parts", std::move(parts)},
                {"content_bytes", content},
                {"stream_bytes", m.layout.size()},
                {"packed_bytes", m.packed_size()},
                {"ratio", ratio}});
    return 0;
  }
  std::string text = fmt::format("mode {:>15} {:>15} {:>7} {:>7}  path\n", "size", "data", "ratio", "part");
  for (const chunks::Member& member : members) text += row(m, member);
  print_result(text + fmt::format("{} members, {} of content, {} in {} parts, ratio {:.3f}\n", members.size(),
                                  exact_size(content), exact_size(m.packed_size()), m.parts.size(), ratio));
  return 0;
}

}  // namespace

void add_list(Subcommands& commands) {
  commands.add<ListFlags>("list", "Show what is in a set of parts", declare, run);
}

}  // namespace planesmith
