#include "checkpoint/known_digests.h"

#include <unistd.h>

#include <charconv>
#include <ctime>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/user_cache.h"
#include "checkpoint/safetensors.h"

namespace planesmith {
namespace {

constexpr std::string_view kGroup = "sha256";

bool is_sha256(std::string_view text) {
  return is_hex(text, 64);
}

// Whether the effective user owns the file and its time is not in the future,
// which would hide a later change.
bool to_be_trusted(const struct stat& status) {
  return status.st_uid == ::geteuid() && status.st_mtim.tv_sec <= std::time(nullptr);
}

std::string from_blob_name(const std::string& path, const struct stat& status) {
  const std::string real = real_path(path), blob = name_of(real);
  return is_sha256(blob) && name_of(parent_of(real)) == "blobs" && to_be_trusted(status) ? blob : "";
}

std::string from_download_metadata(Os& os, const std::string& directory, const std::string& name,
                                   const struct stat& status) {
  const std::string path = join(directory, ".cache/huggingface/download/" + name + ".metadata");
  // The record vouches for a file's content,
  // so it counts only if this user wrote it and its time is not ahead.
  struct stat record {};
  const std::time_t now = std::time(nullptr);
  if (os.lstat(path.c_str(), &record) != 0 || !S_ISREG(record.st_mode) || !to_be_trusted(record)) return "";
  std::string text;
  try {
    text = read_text(os, path, 4096);
  } catch (const Error&) {
    return "";
  }
  std::vector<std::string_view> lines;  // commit, etag, time in seconds
  for (std::string_view rest = text; lines.size() < 3;) {
    const std::size_t end = rest.find('\n');
    lines.push_back(rest.substr(0, end));
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  if (lines.size() < 3 || !is_sha256(lines[1])) return "";
  double recorded = 0;
  const auto [end, error] = std::from_chars(lines[2].begin(), lines[2].end(), recorded);
  if (error != std::errc() || end != lines[2].end()) return "";
  const double modified =
      static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  constexpr double kTicks = 2;  // the clocks of files and of time() differ by less
  return modified <= recorded && recorded <= static_cast<double>(now) + kTicks ? std::string(lines[1]) : "";
}

std::string from_user_cache(Os& os, const std::string& path, const struct stat& status) {
  if (status.st_mtim.tv_sec > std::time(nullptr)) return "";
  const Json found = recall(os, kGroup, real_path(path));
  if (!found.is_object() || !same_but_ctime(found.value("file", Json()), file_stamp(status))) return "";
  const Json digest = found.value("sha256", Json());
  return digest.is_string() && is_sha256(digest.get<std::string>()) ? digest.get<std::string>() : "";
}

// Whether the file was cut short, by its own header: then no digest of the whole file is this one's.
bool is_cut_short(Os& os, const std::string& path) {
  const File file = File::open_read(os, path);
  if (file.size() == 0) return true;
  constexpr std::size_t kBegin = 9;  // the header's length and its first byte
  if (!path.ends_with(".safetensors") || file.size() < kBegin) return false;
  std::uint8_t begin[kBegin];
  file.read(begin, 0);
  if (begin[kBegin - 1] != '{') return false;
  try {
    read_safetensors_header(file);
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

KnownDigest known_digest(Os& os, const std::string& directory, const std::string& name,
                         const struct stat& status) {
  const std::string path = join(directory, name);
  std::string digest = from_blob_name(path, status);
  if (digest.empty()) digest = from_download_metadata(os, directory, name, status);
  if (!digest.empty() && !is_cut_short(os, path)) return {digest, true};
  return {from_user_cache(os, path, status), false};
}

void remember_digest(Os& os, const std::string& path, const struct stat& status, const std::string& sha256) {
  remember(os, kGroup, real_path(path), {{"file", file_stamp(status)}, {"sha256", sha256}});
}

}  // namespace planesmith
