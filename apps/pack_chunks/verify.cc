#include <fmt/format.h>

#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "chunks/verify_chunks.h"
#include "pack_chunks/commands.h"

namespace planesmith {
namespace {

struct VerifyFlags {
  std::string dir, name, hash = "xxh3";
  bool deep = false, json = false;
};

void declare(CLI::App& app, VerifyFlags& flags) {
  app.add_option("DIR", flags.dir, "Directory of the parts and their manifest")->required();
  app.add_option("--name", flags.name, "Which set, where there are several");
  app.add_option("--hash", flags.hash,
                 "Digests to compare: xxh3, sha256 or both; the other one replaces one that was not recorded")
      ->check(CLI::IsMember({"xxh3", "sha256", "both"}))
      ->capture_default_str();
  app.add_flag("--deep", flags.deep, "Also decompress everything and compare each member");
  app.add_flag("--json", flags.json, "Print the result as JSON");
}

Json to_json(const chunks::Finding& finding) {
  Json json{{"what", finding.what}};
  if (!finding.part.empty()) json["part"] = finding.part;
  if (!finding.member.empty()) json["member"] = finding.member;
  if (finding.offset) json["offset"] = *finding.offset;
  return json;
}

std::string to_text(const chunks::Finding& finding) {
  const std::string where = finding.member.empty() ? finding.part : finding.part + finding.member;
  return fmt::format("{}: {}{}\n", printable(where.empty() ? "tar" : where),
                     finding.offset ? fmt::format("at byte {}: ", *finding.offset) : "",
                     printable(finding.what));
}

int run(Context& context, const VerifyFlags& flags) {
  const chunks::ChunkSet set = chunks::find_chunks_with_manifest(flags.dir, flags.name, context);
  const HashChoice hash(flags.hash);
  const auto findings =
      chunks::verify_chunks(set, {.xxh3 = hash.xxh3, .sha256 = hash.sha256, .deep = flags.deep}, context);
  const chunks::ChunkManifest& m = *set.manifest;
  if (flags.json) {
    Json list = Json::array();
    for (const chunks::Finding& finding : findings) list.push_back(to_json(finding));
    print_json({{"name", set.name},
                {"parts", m.parts.size()},
                {"packed_bytes", m.packed_size()},
                {"deep", flags.deep},
                {"ok", findings.empty()},
                {"findings", std::move(list)}});
  } else {
    std::string text;
    for (const chunks::Finding& finding : findings) text += to_text(finding);
    if (findings.empty())
      text = fmt::format("{}: {} parts, {}, as the manifest says\n", printable(set.name), m.parts.size(),
                         exact_size(m.packed_size()));
    print_result(text);
  }
  return findings.empty() ? 0 : static_cast<int>(ErrorCode::difference);
}

}  // namespace

void add_verify(Subcommands& commands) {
  commands.add<VerifyFlags>("verify", "Compare parts with their manifest", declare, run);
}

}  // namespace planesmith
