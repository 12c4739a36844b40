#include "chunks/pack_records.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "base/version.h"

namespace planesmith::chunks {
namespace {

constexpr const char* kLock = "lock";

std::string record_name(std::size_t part) {
  return staged_part(part) + ".json";
}

std::string text_of(const File& file, std::uint64_t memory) {
  if (file.size() > memory / 4) throw Error(file.path(), "is too long for a record");
  std::string text(file.size(), '\0');
  file.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0);
  return text;
}

std::vector<LockFile> locked(const Dir& directory, const Context& context) {
  std::vector<LockFile> lock;
  if (!LockFile::try_take(directory, kLock, lock, context.group_shared))
    throw Error(
        directory.path_of(kLock),
        fmt::format("another run is packing under this name ({}); wait for it or choose another --name",
                    LockFile::holder(directory, kLock)));
  return lock;
}

}  // namespace

PackRecords::PackRecords(const Dir& out, const std::string& name, const Context& context)
    : out_(out),
      name_("." + name + ".pack"),
      directory_(out.make_private_dir(name_, context.group_shared)),
      lock_(locked(directory_, context)),
      context_(context) {}

std::optional<PartRecord> PackRecords::read(std::size_t part) const {
  const std::string path = directory_.path_of(record_name(part));
  if (!directory_.exists(record_name(part))) return {};
  try {
    Manifest manifest = parse_manifest(text_of(directory_.open_read(record_name(part)), context_.memory),
                                       path, context_.memory);
    Fields fields(manifest.chunks, path, "the record");
    if (manifest.files.size() != 1) fields.refuse("is not of one part");
    PartRecord record{.made = {std::move(manifest.files[0]), frames_from_json(fields, path)},
                      .blocks = fields.digests("blocks"),
                      .made_by = fields.text("made_by"),
                      .options = fields.text("options"),
                      .files = fields.text("files"),
                      .stamps = fields.text("stamps")};
    fields.done();
    return record;
  } catch (const Error& error) {
    context_.check_stop();
    context_.progress.say(fmt::format("{}: the record of a part is damaged and ignored ({})", printable(path),
                                      printable(error.reason())));
    return {};
  }
}

void PackRecords::write(std::size_t part, const PartRecord& record) const {
  Manifest manifest{.kind = ManifestKind::chunks, .tool = version(), .files = {record.made.file}};
  manifest.chunks = {{"frames", frames_to_json(record.made.frames)},
                     {"blocks", digests_to_json(record.blocks)},
                     {"made_by", record.made_by},
                     {"options", record.options},
                     {"files", record.files},
                     {"stamps", record.stamps}};
  directory_.write_atomically(record_name(part), to_json(manifest), context_.group_shared ? 0660 : 0600);
}

void PackRecords::forget(std::size_t part) const {
  directory_.unlink(record_name(part));
}

void PackRecords::forget_staged() const {
  for (const std::string& entry : directory_.list())
    if (!entry.ends_with(".json") && entry != kLock) directory_.unlink(entry);
}

void PackRecords::forget_all() const {
  for (const std::string& entry : directory_.list())
    if (entry != kLock) directory_.unlink(entry);
}

PackRecords::~PackRecords() {
  lock_.clear();
  try {
    out_.rmdir(name_);
  } catch (const Error&) {  // the next run removes it
  }
}

}  // namespace planesmith::chunks
