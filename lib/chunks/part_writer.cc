#include "chunks/part_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/size.h"
#include "base/version.h"

namespace planesmith::chunks {
namespace {

constexpr std::uint64_t kWriteback =
    32 * kMiB;  // dirty pages go to the disk in strides of this, not all at the end
constexpr std::uint64_t kMaxRecord = kGiB;

std::string record_name(const std::string& name, std::size_t part, std::size_t digits) {
  return fmt::format("{}.tar.zst.record.{:0{}}", name, part, digits);
}

FileEntry digested(const File& file, FileEntry like, const Context& context) {
  FileDigests digests(like.xxh3.has_value(), !like.sha256.empty());
  std::vector<std::uint8_t> buffer(kTreeBlock);
  for (std::uint64_t at = 0; at < like.size; at += buffer.size()) {
    context.check_stop();
    const Bytes bytes(buffer.data(), std::min<std::uint64_t>(buffer.size(), like.size - at));
    file.read(bytes, at);
    digests.update(bytes);
  }
  digests.finish(like);
  return like;
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

FileDigests::FileDigests(bool xxh3, bool sha256) : want_xxh3_(xxh3) {
  if (sha256) sha256_.emplace();
}

void FileDigests::update(ConstBytes bytes) {
  if (sha256_) sha256_->update(bytes);
  while (want_xxh3_ && !bytes.empty()) {
    const auto n = std::min<std::uint64_t>(bytes.size(), kTreeBlock - in_block_);
    block_.update(bytes.first(n));
    bytes = bytes.subspan(n);
    in_block_ += n;
    if (in_block_ < kTreeBlock) break;
    blocks_.push_back(block_.finish());
    in_block_ = 0;
  }
}

void FileDigests::finish(FileEntry& file) {
  if (sha256_) file.sha256 = hex(sha256_->finish());
  if (!want_xxh3_) return;
  if (in_block_ != 0) blocks_.push_back(block_.finish());
  file.blocks = std::move(blocks_);
  file.xxh3 = combine(file.blocks);
}

PartWriter::PartWriter(PartSettings settings, const Context& context, BlockDigests& digests)
    : settings_(std::move(settings)), context_(context), digests_(digests) {}

PartWriter::~PartWriter() {
  if (file_) context_.os.unlink(file_->path().c_str());
}

std::uint64_t PartWriter::content_end() const {
  return std::min(frames_.size() * settings_.frame_size, settings_.stream_size);
}

std::size_t PartWriter::resume(bool recheck) {
  while (take_over(parts_.size(), recheck)) part_begin_ = content_end();
  return frames_.size();
}

bool PartWriter::take_over(std::size_t part, bool recheck) {
  const std::string record = path(record_name(settings_.name, part, settings_.digits));
  const std::string file_path = path(part_name(settings_.name, part, settings_.digits));
  if (!exists(context_.os, record) || !exists(context_.os, file_path)) return false;
  const Manifest manifest = parse_manifest(read_text(context_.os, record, kMaxRecord), record);
  Fields fields(manifest.chunks, record, "the record");
  if (manifest.files.size() != 1 || fields.text("fingerprint") != settings_.fingerprint) return false;
  const FileEntry& entry = manifest.files[0];
  const File file = File::open_read(context_.os, file_path);
  if (entry.path != name_of(file_path) || file.size() != entry.size) return false;
  if (recheck) {
    const FileEntry now = digested(file, entry, context_);
    if (now.xxh3 != entry.xxh3 || now.sha256 != entry.sha256) return false;
  }
  const std::vector<FrameEntry> frames = frames_from_json(fields, record);
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  if (!digests_.give(part_begin_, content_end(), fields.digests("blocks")))
    fields.refuse("has the wrong number of digests");
  parts_.push_back(entry);
  return true;
}

void PartWriter::append(ConstBytes frame, const Xxh3& content) {
  if (file_ && size_ + frame.size() > settings_.part_size) close_part();
  if (!file_) {
    file_ =
        File::create(context_.os, path(part_name(settings_.name, parts_.size(), settings_.digits)) + ".tmp");
    file_digests_.emplace(settings_.xxh3, settings_.sha256);
    size_ = synced_ = 0;
    part_begin_ = content_end();
  }
  file_->write(frame, size_);
  file_digests_->update(frame);
  frames_.push_back({parts_.size(), size_, frame.size(), content});
  size_ += frame.size();
  if (size_ - synced_ >= kWriteback) {
    file_->start_writeback(synced_, size_ - synced_);
    synced_ = size_;
  }
}

void PartWriter::finish() {
  if (file_) close_part();
}

void PartWriter::close_part() {
  FileEntry part;
  part.path = part_name(settings_.name, parts_.size(), settings_.digits);
  part.size = size_;
  file_digests_->finish(part);
  file_->sync();
  file_->close();
  const auto first = std::find_if(frames_.begin(), frames_.end(),
                                  [&](const FrameEntry& frame) { return frame.part == parts_.size(); });
  Manifest record{.kind = ManifestKind::chunks, .tool = version(), .files = {part}};
  record.chunks = {{"fingerprint", settings_.fingerprint},
                   {"frames", frames_to_json({first, frames_.end()})},
                   {"blocks", digests_to_json(digests_.ended_in(part_begin_, content_end()))}};
  write_atomically(context_.os, path(record_name(settings_.name, parts_.size(), settings_.digits)),
                   to_json(record));
  rename_file(context_.os, path(part.path) + ".tmp", path(part.path));
  file_.reset();
  sync_dir(context_.os, settings_.dir);
  parts_.push_back(std::move(part));
}

std::vector<std::string> unfinished_files(Os& os, const std::string& dir, const std::string& name) {
  std::vector<std::string> found;
  for (const std::string& file : list_dir(os, dir)) {
    std::string_view rest = file;
    const bool temporary = rest.ends_with(".tmp");
    if (temporary) rest.remove_suffix(4);
    if (temporary && (rest == manifest_name(name) || rest == digest_list_name(name))) found.push_back(file);
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    const auto numbered = [&](std::string_view middle) {
      return rest.starts_with(middle) && all_digits(rest.substr(middle.size()));
    };
    if (numbered(".tar.zst.record.") || (temporary && numbered(".tar.zst.part."))) found.push_back(file);
  }
  return found;
}

std::vector<std::string> finished_files(Os& os, const std::string& dir, const std::string& name) {
  std::vector<std::string> found;
  const std::string prefix = name + ".tar.zst.part.";
  for (const std::string& file : list_dir(os, dir))
    if (file == manifest_name(name) || file == old_manifest_name(name) || file == digest_list_name(name) ||
        (file.starts_with(prefix) && all_digits(std::string_view(file).substr(prefix.size()))))
      found.push_back(file);
  return found;
}

}  // namespace planesmith::chunks
