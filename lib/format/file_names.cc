#include "format/file_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "format/pack.h"

namespace planesmith::format {
namespace {

constexpr std::size_t kKeyDigits = 20;
constexpr std::string_view kPack = ".pack", kJson = ".json", kLock = ".lock",
                           kPackManifest = ".pack.manifest.json", kHeat = ".pack.heat.json", kLayer = "layer",
                           kBin = ".bin", kPackLevel = "v2", kPoolHeat = "pool-heat";

std::string joined(std::string_view stem, std::string_view suffix) {
  return std::string(stem).append(suffix);
}

// Parses names from the left. After a step that does not fit, all later ones fail.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  Reader& word(std::string_view wanted) {
    fits_ = fits_ && rest_.starts_with(wanted);
    if (fits_) rest_.remove_prefix(wanted.size());
    return *this;
  }
  // As the programs and the engine print numbers: no sign, no leading zeros, at most ten digits.
  Reader& number(std::uint64_t& value) {
    const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    fits_ = fits_ && digits > 0 && digits <= 10 && (rest_[0] != '0' || digits == 1);
    if (fits_) std::from_chars(rest_.data(), rest_.data() + digits, value);
    return skip(digits);
  }
  Reader& lower_word(std::string_view& value) {
    const std::size_t size =
        std::min(rest_.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789"), rest_.size());
    fits_ = fits_ && size > 0;
    if (fits_) value = rest_.substr(0, size);
    return skip(size);
  }
  Reader& key(std::string_view& value) {
    const std::size_t size = std::min(rest_.find_first_not_of("0123456789abcdef"), rest_.size());
    fits_ = fits_ && size == kKeyDigits;
    if (fits_) value = rest_.substr(0, size);
    return skip(size);
  }
  bool done() const { return fits_ && rest_.empty(); }

 private:
  Reader& skip(std::size_t size) {
    if (fits_) rest_.remove_prefix(size);
    return *this;
  }

  std::string_view rest_;
  bool fits_ = true;
};

bool is_tag(std::string_view text) {
  return std::any_of(std::begin(kTiers), std::end(kTiers), [&](Tier tier) { return tag(tier) == text; });
}

}  // namespace

std::string key_of(std::string_view text) {
  return sha256_hex(text).substr(0, kKeyDigits);
}

std::string rank_directory(std::string_view key, std::uint64_t world, std::uint64_t rank) {
  return fmt::format("{}/{}/tp{}-rank{}", kCacheLevel, key, world, rank);
}

bool is_key(std::string_view name) {
  std::string_view key;
  return Reader(name).key(key).done();
}

bool is_rank_directory(std::string_view name) {
  std::uint64_t world = 0, rank = 0;
  return Reader(name).word("tp").number(world).word("-rank").number(rank).done() && world != 0;
}

std::string part_file(std::uint64_t layer_index, std::string_view part) {
  return fmt::format("{}{}.{}{}", kLayer, layer_index, part, kBin);
}

std::optional<PartFile> parse_part_file(std::string_view name) {
  PartFile out;
  if (!Reader(name).word(kLayer).number(out.layer).word(".").lower_word(out.part).word(kBin).done())
    return std::nullopt;
  return out;
}

std::string pack_stem(std::string_view tag, std::string_view key, std::uint64_t rank, std::uint64_t world) {
  return fmt::format("{}.{}.{}.rank{}of{}", tag, kPackLevel, key, rank, world);
}

std::optional<PackStem> parse_pack_stem(std::string_view name) {
  PackStem out;
  Reader in(name);
  in.lower_word(out.tag).word(".").word(kPackLevel).word(".").key(out.key);
  in.word(".rank").number(out.rank).word("of").number(out.world);
  if (!in.done() || out.world == 0 || !is_tag(out.tag)) return std::nullopt;
  return out;
}

std::string pack_file(std::string_view stem) {
  return joined(stem, kPack);
}
std::string sidecar_file(std::string_view stem) {
  return joined(stem, kJson);
}
std::string lock_file(std::string_view stem) {
  return joined(stem, kLock);
}
std::string pack_manifest_file(std::string_view stem) {
  return joined(stem, kPackManifest);
}
std::string heat_file(std::string_view stem) {
  return joined(stem, kHeat);
}
bool is_pack_file(std::string_view name) {
  return name.ends_with(kPack);
}
std::string stem_of_pack(std::string_view path) {
  if (is_pack_file(path)) path.remove_suffix(kPack.size());
  return std::string(path);
}

std::string stem_of_file(std::string_view name) {
  for (const std::string_view suffix : {kPackManifest, kPack, kJson})
    if (name.ends_with(suffix))
      if (const std::string_view stem = name.substr(0, name.size() - suffix.size()); parse_pack_stem(stem))
        return std::string(stem);
  return "";
}

std::string pack_records(std::string_view stem) {
  const std::size_t name = stem.rfind('/') + 1;  // npos + 1 == 0
  return std::string(stem.substr(0, name)).append(".").append(stem.substr(name));
}

std::string pool_heat_file(std::string_view tag, std::uint64_t rank, std::uint64_t world) {
  return fmt::format("{}.{}.rank{}of{}{}", kPoolHeat, tag, rank, world, kJson);
}

std::optional<PoolHeatName> parse_pool_heat_file(std::string_view name) {
  PoolHeatName out;
  Reader in(name);
  in.word(kPoolHeat).word(".").lower_word(out.tag).word(".rank").number(out.rank);
  in.word("of").number(out.world).word(kJson);
  if (!in.done() || out.world == 0) return std::nullopt;
  return out;
}

std::string record_file(std::uint64_t layer) {
  return fmt::format("{}{}{}", kLayer, layer, kJson);
}

std::optional<std::uint64_t> parse_record_file(std::string_view name) {
  std::uint64_t layer = 0;
  if (!Reader(name).word(kLayer).number(layer).word(kJson).done()) return std::nullopt;
  return layer;
}

std::string records_lock(std::string_view records) {
  return joined(records, kLock);
}

std::string layer_lock(std::string_view records, std::uint64_t layer) {
  return fmt::format("{}.{}{}{}", records, kLayer, layer, kLock);
}

bool is_layer_lock(std::string_view name, std::string_view records) {
  std::uint64_t layer = 0;
  return Reader(name).word(records).word(".").word(kLayer).number(layer).word(kLock).done();
}

std::string records_of_lock(std::string_view name) {
  if (!name.ends_with(kLock)) return "";
  const std::string_view records = name.substr(0, name.size() - kLock.size());
  const std::string_view whole = records.substr(0, records.rfind('.'));
  if (is_layer_lock(name, whole)) return std::string(whole);
  return std::string(records);
}

}  // namespace planesmith::format
