// Input: a manifest, a list that sha256sum wrote, or a repository's listing. What is accepted must be usable:
// block ranges inside the file, as many as digests, and the same again after writing.
#include <cstdlib>

#include "base/error.h"
#include "manifest/foreign.h"

using namespace planesmith;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Manifest manifest;
  try {
    manifest = read_any_manifest(text, "m");
  } catch (const Error&) {
    return 0;
  }
  bool plain = text.find('{') < text.find('[');  // a manifest of ours
  for (const FileEntry& file : manifest.files) {
    if (!is_inner_path(file.path)) std::abort();
    plain = plain && file.size != kUnknownSize;
    if (!file.xxh3) continue;
    std::uint64_t end = 0;
    const std::vector<BlockRange> ranges = block_ranges(manifest, file);
    if (ranges.size() != file.blocks.size()) std::abort();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].offset < end || ranges[i].size > file.size - ranges[i].offset) std::abort();
      end = ranges[i].offset + ranges[i].size;
      if (block_name(manifest, file, i).empty()) std::abort();
    }
  }
  derived_files(manifest);
  if (plain) {
    const std::string written = to_json(manifest);
    if (to_json(parse_manifest(written, "w")) != written) std::abort();
  }
  return 0;
}
