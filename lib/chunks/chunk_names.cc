#include "chunks/chunk_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace planesmith::chunks {
namespace {

constexpr std::string_view kArchive = ".tar.zst", kPart = ".part.", kDecimal = "0123456789",
                           kLetters = "abcdefghijklmnopqrstuvwxyz", kHexadecimal = "0123456789abcdef",
                           kAny = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kManifestPrefix = "manifest.", kManifestSuffix = ".json",
                           kOldManifestSuffix = ".manifest.json";

bool only(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == text.npos;
}

// How the suffixes of some names were counted, and where they begin.
struct Counting {
  std::string_view digits;  // in ascending order; empty: the names are not counted, or there is one
  std::size_t begin = 0;    // where each name's suffix begins
};

Counting counting_of(const std::vector<std::string>& names) {
  if (names.size() < 2) return {};
  std::size_t common = names[0].size();
  for (const std::string& name : names)
    common = std::min<std::size_t>(
        common, static_cast<std::size_t>(
                    std::mismatch(names[0].begin(), names[0].end(), name.begin(), name.end()).first -
                    names[0].begin()));
  const auto all = [&](std::string_view allowed) {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      return only(std::string_view(name).substr(common), allowed);
    });
  };
  if (!all(kAny)) return {};
  // Digits that all suffixes share belong to them too: "07" and "08" differ in one digit only.
  const auto widened = [&](std::string_view digits) {
    std::size_t begin = common;
    while (begin > 0 && digits.find(names[0][begin - 1]) != digits.npos) --begin;
    return Counting{digits, begin};
  };
  if (all(kDecimal)) return widened(kDecimal);
  if (all(kLetters)) return widened(kLetters);
  if (all(kHexadecimal)) return widened(kHexadecimal);
  throw Error(
      names[0],
      fmt::format("its order relative to {} cannot be told from the names (split counts in digits, in "
                  "letters or in hexadecimal digits)",
                  names.back()));
}

std::vector<std::string> names_of(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(name_of(path));
  return names;
}

// Long suffixes wrap around, which does no harm: neighbours still differ by 1.
std::uint64_t value(std::string_view suffix, std::string_view digits) {
  std::uint64_t sum = 0;
  for (const char c : suffix) sum = sum * digits.size() + digits.find(c);
  return sum;
}

// split makes its suffixes longer when they run out: "89", "9000" and "yz", "zaaa".
bool is_longer_successor(std::string_view before, std::string_view after, std::string_view digits) {
  return after.size() == before.size() + 2 && after[0] == digits.back() &&
         only(after.substr(1), digits.substr(0, 1)) && before[0] == digits[digits.size() - 2] &&
         only(before.substr(1), digits.substr(digits.size() - 1));
}

}  // namespace

std::string manifest_name(const std::string& name) {
  return fmt::format("{}{}{}", kManifestPrefix, name, kManifestSuffix);
}

std::string old_manifest_name(const std::string& name) {
  return name + std::string(kOldManifestSuffix);
}

std::string digest_list_name(const std::string& name) {
  return "SHA256SUMS." + name;
}

std::string part_name(const std::string& name, std::size_t part, std::size_t digits) {
  return fmt::format("{}{}{}{:0{}}", name, kArchive, kPart, part, digits);
}

std::size_t part_digits(std::uint64_t most_parts) {
  return std::max<std::size_t>(3, std::to_string(most_parts - 1).size());
}

std::string set_of_manifest(const std::string& file) {
  const auto between = [&](std::string_view prefix, std::string_view suffix) {
    if (file.size() <= prefix.size() + suffix.size() || !file.starts_with(prefix) || !file.ends_with(suffix))
      return std::string();
    return file.substr(prefix.size(), file.size() - prefix.size() - suffix.size());
  };
  const std::string name = between(kManifestPrefix, kManifestSuffix);
  return name.empty() ? between("", kOldManifestSuffix) : name;
}

std::optional<PartName> parse_part_name(const std::string& file) {
  const std::size_t at = file.rfind(kArchive);
  if (at == file.npos || at == 0) return {};
  const std::string_view rest = std::string_view(file).substr(at + kArchive.size());
  const std::string name = file.substr(0, at);
  const auto parsed = [&](std::size_t suffix) {
    return PartName{name, file.substr(0, file.size() - rest.size() + suffix),
                    std::string(rest.substr(suffix))};
  };
  if (rest.empty()) return parsed(0);
  for (const std::string_view middle :
       {kPart, std::string_view(".part"), std::string_view(".part-"), std::string_view(".part_"),
        std::string_view("-"), std::string_view("_"), std::string_view(".")}) {
    if (!rest.starts_with(middle) || rest.size() == middle.size()) continue;
    const std::string_view suffix = rest.substr(middle.size());
    if (suffix == "tmp") return {};  // a part that is being written by another program
    // ".sha256", ".lock", ".asc" and the like are not parts: without ".part" only two letters are a suffix.
    const bool letters = middle.find("part") != middle.npos || suffix.size() == 2;
    if (only(suffix, kDecimal) || (letters && (only(suffix, kLetters) || only(suffix, kHexadecimal))))
      return parsed(middle.size());
    if (middle == kPart && suffix.find_first_of(".~") == suffix.npos)
      throw Error(file,
                  "has a suffix that is not counted in digits, in letters or in hexadecimal digits, so its "
                  "place among the parts is unknown");
  }
  return {};
}

void sort_parts(std::vector<std::string>& paths) {
  const Counting counting = counting_of(names_of(paths));
  const auto key = [&](const std::string& path) {
    const std::string name = name_of(path);
    if (counting.digits.empty()) return std::tuple(std::size_t{0}, name, path);
    std::string suffix = name.substr(counting.begin);
    // Without leading zeros a longer number is larger, and numbers of equal length compare as text.
    if (counting.digits != kLetters) suffix.erase(0, std::min(suffix.find_first_not_of('0'), suffix.size()));
    return std::tuple(suffix.size(), suffix, path);
  };
  std::sort(paths.begin(), paths.end(),
            [&](const std::string& a, const std::string& b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < paths.size(); ++i)
    if (name_of(paths[i]) == name_of(paths[i - 1]))
      throw Error(paths[i], "a part of this name is given twice");
}

void check_for_gaps(const std::vector<std::string>& paths) {
  const Counting counting = counting_of(names_of(paths));
  if (counting.digits.empty()) return;
  for (std::size_t i = 1; i < paths.size(); ++i) {
    const std::string before = name_of(paths[i - 1]).substr(counting.begin),
                      after = name_of(paths[i]).substr(counting.begin);
    if (value(after, counting.digits) - value(before, counting.digits) != 1 &&
        !is_longer_successor(before, after, counting.digits))
      throw Error(paths[i], fmt::format("follows {}; a part between them is missing", paths[i - 1]));
  }
}

}  // namespace planesmith::chunks
