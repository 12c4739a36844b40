// Names of the files of a set: its parts, its manifest, its list of SHA-256 digests. Only parts begin with
// NAME, so that `grep "^NAME" | sort` on a listing gives just the parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace planesmith::chunks {

std::string manifest_name(const std::string& name);      // manifest.NAME.json
std::string old_manifest_name(const std::string& name);  // NAME.manifest.json: sets of earlier versions
std::string digest_list_name(const std::string& name);   // SHA256SUMS.NAME: for `sha256sum -c`
// NAME.tar.zst.part.007
std::string part_name(const std::string& name, std::size_t part, std::size_t digits);
std::size_t part_digits(std::uint64_t most_parts);  // at least three

// "manifest.NAME.json" or "NAME.manifest.json" -> "NAME"; empty for any other file.
std::string set_of_manifest(const std::string& file);

// "NAME.tar.zst.part.007": NAME, the text before the suffix, the suffix. `split` writes other suffixes (two
// digits, letters, hexadecimal) after the prefix that it is given (".part.", ".part", ".", "-"); a single
// file NAME.tar.zst has none.
struct PartName {
  std::string name, stem, suffix;
};
// None: the file is not a part. Error: a suffix after ".part." that is not counted in any known way.
std::optional<PartName> parse_part_name(const std::string& file);

// Sorts paths by their last components as `split` and pack-chunks count them: decimal and hexadecimal numbers
// by value, letters by length and then alphabet; anything else by name. Errors: suffixes that are not counted
// in a known way, a name that is given twice.
void sort_parts(std::vector<std::string>& paths);
// Error: a number between two neighbours of the sorted paths is missing.
void check_for_gaps(const std::vector<std::string>& paths);

}  // namespace planesmith::chunks
