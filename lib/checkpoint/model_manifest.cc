#include "checkpoint/model_manifest.h"

#include <fmt/format.h>

#include <regex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/index.h"

namespace planesmith {
namespace {

// The index's files; without one, all weight files of the directory.
std::set<std::string> counted_files(const Context& context, const std::string& directory) {
  std::set<std::string> names;
  const std::string index = join(directory, kIndexName);
  if (exists(context.os, index)) {
    const std::vector<std::string> listed = read_checkpoint_index(File::open_read(context.os, index)).shards;
    names.insert(listed.begin(), listed.end());
    return names;
  }
  for (const std::string& name : list_dir(context.os, directory))
    if (name.ends_with(".safetensors") || name.ends_with(".bin")) names.insert(name);
  return names;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

std::string model_manifest_id(const Context& context, const std::string& directory,
                              const ContentId& content) {
  using namespace std::string_view_literals;
  const auto digest = [&](const std::string& name) {
    const auto found = content.sha256.find(name);
    if (found == content.sha256.end())
      throw Error(join(directory, name),
                  "is missing or not part of the checkpoint; the engine's model manifest is not defined");
    return found->second;
  };
  Sha256 sha;
  sha.update("vllm-moet-model-manifest-v1\0"sv);
  sha.update(from_hex(digest(std::string(kConfigName))));
  if (content.sha256.contains(std::string(kIndexName))) sha.update(from_hex(digest(std::string(kIndexName))));
  for (const std::string& name : counted_files(context, directory)) {
    const auto size = static_cast<std::uint64_t>(status(context.os, join(directory, name)).st_size);
    sha.update(compact({{"content_sha256", digest(name)}, {"name", name}, {"size", size}}));
  }
  return hex(sha.finish());
}

HubOrigin origin_of(Os& os, const std::string& directory) {
  static const std::regex snapshot("/models--([^/]+?)--([^/]+)/snapshots/([0-9a-f]{40})$");
  const std::string real = real_path(directory);
  std::smatch match;
  if (std::regex_search(real, match, snapshot))
    return {fmt::format("{}/{}", match[1].str(), match[2].str()), match[3].str()};
  // The first line of the metadata of each file is the commit it came from.
  const std::string metadata = join(real, ".cache/huggingface/download/config.json.metadata");
  if (!exists(os, metadata)) return {};
  const std::string text = read_text(os, metadata, 4096);
  const std::string commit = text.substr(0, text.find('\n'));
  return {"", is_commit(commit) ? commit : ""};
}

void write_marker(Os& os, const std::string& directory, const std::string& manifest_id,
                  const HubOrigin& origin) {
  Json marker = {{"schema", 2}, {"manifest_sha256", manifest_id}};
  if (!origin.repository.empty()) marker["repo"] = origin.repository;
  if (!origin.commit.empty()) marker["revision"] = origin.commit;
  write_atomically(os, join(directory, kMarkerName), spaced(marker));
}

}  // namespace planesmith
