#include "hub/source.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/size.h"
#include "base/stream.h"
#include "base/text.h"
#include "hub/content_check.h"
#include "manifest/manifest.h"

namespace planesmith::hub {
namespace {

// A page of the hub has up to 1,000 entries of some 300 bytes.
constexpr std::uint64_t kMostPageBytes = 4 * kMiB;
constexpr std::size_t kMostPages = 2000, kMostEntries = 1'000'000;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 50, kEntryBytes = 200;

bool is_repo_name(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= 96 && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), plain);
}

std::string text_of(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
}

RemoteFile parse_entry(const Json& entry, const std::string& name) {
  const auto refuse = [&](const std::string& path, const char* what) {
    return Error(name, fmt::format("the listing has '{}' {}", path.substr(0, 200), what));
  };
  RemoteFile file{.path = text_of(entry, "path")};
  if (!is_inner_path(file.path)) throw refuse(file.path, "as a name, which leaves the directory");
  const auto lfs = entry.find("lfs");
  const bool large = lfs != entry.end() && lfs->is_object();
  const Json& sized = large && lfs->contains("size") ? *lfs : entry;
  const auto size = sized.find("size");
  if (size == sized.end() || !size->is_number_unsigned() || size->get<std::uint64_t>() > kMostFileBytes)
    throw refuse(file.path, "with an impossible size");
  file.size = size->get<std::uint64_t>();
  if (large) {
    file.sha256 = text_of(*lfs, lfs->contains("oid") ? "oid" : "sha256");
    if (!is_hex(file.sha256, 64)) throw refuse(file.path, "with a digest that is not a SHA-256");
  } else if (const std::string oid = text_of(entry, "oid");
             is_hex(oid, 40) && oid.find_first_not_of('0') != oid.npos) {
    file.git_sha1 = oid;
  }
  return file;
}

}  // namespace

std::vector<RemoteFile> parse_page(std::string_view json, const std::string& name) {
  const Json page = parse_json(json, name);
  if (!page.is_array()) throw Error(name, "answers with something that is not a list of files");
  std::vector<RemoteFile> files;
  for (const Json& entry : page) {
    if (!entry.is_object()) throw Error(name, "answers with something that is not a list of files");
    if (text_of(entry, "type") == "file") files.push_back(parse_entry(entry, name));
  }
  return files;
}

std::optional<Url> next_page(const std::string& link_header, const Url& endpoint) {
  const std::size_t next = link_header.find("rel=\"next\"");
  const std::size_t open = next == link_header.npos ? next : link_header.rfind('<', next);
  const std::size_t close = open == link_header.npos ? open : link_header.find('>', open);
  if (close == link_header.npos || close > next) return {};
  const Url there = endpoint.resolve(link_header.substr(open + 1, close - open - 1));
  if (there.same_origin(endpoint)) return there;
  // A mirror passes on links to the hub itself; the page is read from the mirror.
  return Url::parse(endpoint.text() + there.path().substr(1));
}

Source Source::parse(std::string_view text, Os& os) {
  const std::string given(text);
  const auto refuse = [&](const char* why) { return Error(ErrorCode::usage, given, why); };
  const char* const variable = getenv("HF_ENDPOINT");
  std::string endpoint = variable == nullptr || *variable == '\0' ? "https://huggingface.co" : variable;
  if (!endpoint.ends_with('/')) endpoint += '/';
  Source source;
  source.shown_ = given;
  if (!text.starts_with("hf:")) {
    if (!text.starts_with("http://") && !text.starts_with("https://"))
      throw refuse("is neither hf:OWNER/REPO, hf:datasets/OWNER/REPO nor an http(s) URL");
    if (text.find_first_of("?#") != text.npos) throw refuse("must be a directory, without '?' and '#'");
    source.base_ = Url::parse(given.ends_with('/') ? given : given + '/');
    // The hub is not used here, so its address and token may be invalid.
    try {
      source.token_ = Token::find(os, Url::parse(endpoint));
    } catch (const Error&) {
    }
    return source;
  }
  text.remove_prefix(3);
  source.kind_ = "models";
  if (const std::size_t at = text.find('@'); at != text.npos) {
    source.revision_ = text.substr(at + 1);
    if (source.revision_.empty()) throw refuse("names no revision after '@'");
    text = text.substr(0, at);
  } else {
    source.revision_ = "main";
  }
  if (text.starts_with("datasets/")) {
    source.kind_ = "datasets";
    text.remove_prefix(9);
  } else if (text.starts_with("models/")) {
    text.remove_prefix(7);
  }
  const std::size_t slash = text.find('/');
  if (slash == text.npos || !is_repo_name(text.substr(0, slash)) || !is_repo_name(text.substr(slash + 1)))
    throw refuse(
        "is not hf:OWNER/REPO[@REVISION] or hf:datasets/OWNER/REPO[@REVISION]; give directories in "
        "NAME");
  source.repo_ = text;
  source.base_ = Url::parse(endpoint);
  source.token_ = Token::find(os, source.base_);
  return source;
}

Url Source::file(const std::string& path) const {
  if (!lists_files()) return Url::parse(base_.text() + encode_path(path));
  return Url::parse(fmt::format("{}{}{}/resolve/{}/{}", base_.text(), kind_ == "models" ? "" : kind_ + "/",
                                repo_, encode(revision_), encode_path(path)));
}

std::vector<RemoteFile> Source::list(const Context& context) const {
  std::vector<RemoteFile> files;
  std::set<std::string> seen;
  std::uint64_t memory = 0, total = 0;
  std::optional<Url> url = Url::parse(
      fmt::format("{}api/{}/{}/tree/{}?recursive=true", base_.text(), kind_, repo_, encode(revision_)));
  while (url) {
    if (seen.size() == kMostPages || !seen.insert(url->text()).second)
      throw Error(shown_, "the listing does not end");
    const Document page = get_document(*url, token_, kMostPageBytes, shown_, context);
    for (RemoteFile& file : parse_page(page.body, shown_)) {
      memory += kEntryBytes + file.path.size();
      total += file.size;
      if (files.size() == kMostEntries || memory > context.memory / 4 || total > (std::uint64_t{1} << 60))
        throw Error(shown_, "lists more than a repository of this kind has; --memory allows more entries");
      files.push_back(std::move(file));
    }
    url = next_page(page.link, base_);
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  for (std::size_t i = 1; i < files.size(); ++i)
    if (files[i].path == files[i - 1].path) throw Error(shown_, "lists '" + files[i].path + "' twice");
  return files;
}

File Source::read(const RemoteFile& remote, std::uint64_t most, const Context& context) const {
  if (remote.size > most)
    throw Error(remote.path, fmt::format("has {}; no more than {} are read here", exact_size(remote.size),
                                         exact_size(most)));
  File body = get_file(file(remote.path), token_, most, remote.path, context);
  ContentCheck check(remote);
  std::vector<std::uint8_t> buffer(kPiece);
  for (std::uint64_t at = 0; at < body.size(); at += kPiece)
    check.update(Bytes(buffer).first(body.read_some(buffer, at)));
  if (const std::string wrong = check.finish(); body.size() != remote.size || !wrong.empty())
    throw Error(
        ErrorCode::difference, remote.path,
        fmt::format("is not what the hub lists ({} bytes instead of {}{}{}); run the same command again "
                    "later",
                    body.size(), remote.size, wrong.empty() ? "" : ", ", wrong));
  return body;
}

std::optional<File> Source::find(const std::string& path, std::uint64_t most, const Context& context) const {
  try {
    return get_file(file(path), token_, most, path, context);
  } catch (const NotFound&) {
    return {};
  }
}

}  // namespace planesmith::hub
