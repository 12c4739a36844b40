// Names of the files of a set: its parts, its manifest, its list of SHA-256 digests. Nothing but parts begins
// with NAME, so that a listing's `grep "^NAME" | sort` gives the parts and nothing else.
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
std::string part_name(const std::string& name, std::size_t part,
                      std::size_t digits);          // NAME.tar.zst.part.007
std::size_t part_digits(std::uint64_t most_parts);  // at least three

// "manifest.NAME.json" or "NAME.manifest.json" -> "NAME"; empty for any other file.
std::string set_of_manifest(const std::string& file);

// "NAME.tar.zst.part.007": NAME, what comes before the suffix, the suffix. `split` writes other suffixes
// (two digits, letters, hexadecimal) behind whatever prefix it is given (".part.", ".part", ".", "-"); a
// single file NAME.tar.zst has none.
struct PartName {
  std::string name, stem, suffix;
};
// Nothing where the file is no part. Errors: a suffix right behind ".part." that no way of counting gives.
std::optional<PartName> parse_part_name(const std::string& file);

// Sorts paths by their last components as `split` and pack-chunks count them: decimal and hexadecimal numbers
// by value, letters by length and then alphabet; anything else by name. Errors: suffixes of which nothing
// tells how they were counted, a name that is given twice.
void sort_parts(std::vector<std::string>& paths);
// Of sorted paths: an Error where a number between two neighbours is missing.
void check_for_gaps(const std::vector<std::string>& paths);

}  // namespace planesmith::chunks
