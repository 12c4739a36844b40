#include "checkpoint/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/stream.h"
#include "base/text.h"
#include "checkpoint/files.h"
#include "checkpoint/index.h"

namespace planesmith {
namespace {

constexpr std::string_view kIndexNames[] = {kIndexName, kBinIndexName};

Sha256Digest digest_of(const Context& context, const std::string& path) {
  const File file = File::open_read(context.os, path);
  std::vector<std::uint8_t> buffer(kStreamBuffer);
  Sha256 sha;
  stream(context, file, 0, file.size(), buffer, [&](ConstBytes piece) { sha.update(piece); });
  return sha.finish();
}

// Names of shards: those that the indexes list, or, without an index, the directory's weight files.
std::set<std::string> shard_names(const Context& context, const std::string& directory, bool has_index) {
  std::set<std::string> names;
  if (has_index) {
    for (const std::string_view index : kIndexNames) {
      const std::string path = join(directory, index);
      if (exists(context.os, path))
        names.merge([&] {
          const std::vector<std::string> listed =
              read_checkpoint_index(File::open_read(context.os, path)).shards;
          return std::set<std::string>(listed.begin(), listed.end());
        }());
    }
    return names;
  }
  for (const std::string& name : list_dir(context.os, directory)) {
    if (!name.ends_with(".safetensors") && !name.ends_with(".bin")) continue;
    if (!S_ISDIR(status(context.os, join(directory, name)).st_mode)) names.insert(name);
  }
  return names;
}

std::int64_t nanoseconds(const struct timespec& time) {
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// A name as Python holds it: code points, with each byte of invalid UTF-8 as U+DC00 + byte.
std::u32string python_string(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    char32_t point = length == 0 ? 0xDC00u + byte(0) : length == 1 ? byte(0) : byte(0) & (0x7Fu >> length);
    for (std::size_t i = 1; i < length; ++i) point = point << 6 | (byte(i) & 0x3Fu);
    out += point;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

// As Python's json.dumps prints it, ASCII only.
std::string python_json(const std::u32string& text) {
  std::string out = "\"";
  for (const char32_t point : text) {
    switch (point) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (point >= 0x20 && point < 0x7F)
          out += static_cast<char>(point);
        else if (point < 0x10000)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(point));
        else
          out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + static_cast<unsigned>((point - 0x10000) >> 10),
                             0xDC00 + static_cast<unsigned>((point - 0x10000) & 0x3FF));
    }
  }
  return out + '"';
}

void add_head(Sha256& sha, std::string_view served_path, std::string_view revision) {
  using namespace std::string_view_literals;
  sha.update("moe-w2-checkpoint-stat-v2\0"sv);
  sha.update(served_path);
  sha.update("\0"sv);
  sha.update(revision);
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
}

}  // namespace

CheckpointStats read_checkpoint_stats(const Context& context, const std::string& directory) {
  if (!S_ISDIR(status(context.os, directory).st_mode))
    throw Error(directory, "is not a directory; a checkpoint directory was expected");
  bool has_index = false;
  for (const std::string_view index : kIndexNames) has_index |= exists(context.os, join(directory, index));
  const std::set<std::string> shards = shard_names(context, directory, has_index);
  return read_checkpoint_stats(context, directory, {shards.begin(), shards.end()});
}

CheckpointStats read_checkpoint_stats(const Context& context, const std::string& directory,
                                      const std::vector<std::string>& shards) {
  CheckpointStats stats;
  const auto digest_if_there = [&](std::string_view name) -> std::optional<Sha256Digest> {
    const std::string path = join(directory, name);
    if (!exists(context.os, path)) return std::nullopt;
    return digest_of(context, path);
  };
  stats.config = digest_if_there(kConfigName);
  stats.safetensors_index = digest_if_there(kIndexNames[0]);
  stats.bin_index = digest_if_there(kIndexNames[1]);
  for (const std::string& name : shards) {
    const std::string path = join(directory, name);
    if (!exists(context.os, path))
      throw Error(path,
                  "is listed in the index but missing, so the identity cannot be computed; download it");
    const struct stat st = status(context.os, path);
    stats.shards.push_back({name, static_cast<std::uint64_t>(st.st_size), nanoseconds(st.st_mtim),
                            nanoseconds(st.st_ctim), name_of(real_path(path))});
  }
  if (stats.shards.empty() && !stats.config)
    throw Error(directory, "holds no config.json, no index and no shards; is it a checkpoint directory?" +
                               checkpoints_below(context.os, directory, " "));
  return stats;
}

std::string engine_id(std::string_view served_path, std::string_view revision, const CheckpointStats& stats) {
  Sha256 sha;
  add_head(sha, served_path, revision);
  const auto add_digest = [&](std::string_view name, const std::optional<Sha256Digest>& digest) {
    if (!digest) return;
    sha.update(name);
    sha.update(*digest);
  };
  using namespace std::string_view_literals;
  add_digest("config.json\0"sv, stats.config);
  add_digest(kIndexNames[0], stats.safetensors_index);
  add_digest(kIndexNames[1], stats.bin_index);
  std::vector<std::pair<std::u32string, const ShardStat*>> shards;
  for (const ShardStat& shard : stats.shards) shards.emplace_back(python_string(shard.name), &shard);
  std::sort(shards.begin(), shards.end());
  for (const auto& [name, shard] : shards)
    sha.update(fmt::format("{{\"ctime_ns\":{},\"mtime_ns\":{},\"name\":{},\"resolved_blob\":{},\"size\":{}}}",
                           shard->ctime_ns, shard->mtime_ns, python_json(name),
                           python_json(python_string(shard->resolved_blob)), shard->size));
  return hex(sha.finish());
}

std::string engine_id_of_remote(std::string_view served_path, std::string_view revision) {
  if (!is_commit(revision))
    throw Error(std::string(served_path), fmt::format("is not a local directory; for such a model --revision "
                                                      "must be the commit, 40 hex digits, not '{}'",
                                                      revision));
  Sha256 sha;
  add_head(sha, served_path, revision);
  return hex(sha.finish());
}

}  // namespace planesmith
